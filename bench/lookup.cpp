// What a tuned kernel costs a program that runs: looking up a known name (under 100 ns, no lock),
// a name with sizes of the call, and loading a kernel from a store (under 1 ms without the driver).
// No GPU is needed; NVRTC is, once, to fill a store of 8 kernels.
//   lookup [--benchmark_...]
#include "autotune/store/Store.h"
#include "kiln/tuner.h"

#include <benchmark/benchmark.h>

#include <unistd.h>

using namespace kiln;

namespace {

/// A store and a tuner over it, in a folder that is removed at the end.
struct Filled {
  Filled() {
    std::string pattern = std::filesystem::temp_directory_path() / "kiln-lookup-XXXXXX";
    folder = ::mkdtemp(pattern.data());
    Cache cache = Cache::open(folder / "store");
    for (std::int64_t width = 64; width <= 512; width += 64)
      tasks.push_back({Module::fromOp({"softmax", {-1, width}, DType::bf16}), {}, {8192}, ""});
    for (const TuningTask& task : tasks)
      cache.compile(task);
    // A model's choice serves nobody before a GPU has proved it; what somebody pinned does.
    for (const cache::Entry& entry : cache::list(folder / "store"))
      cache::pin(folder / "store", entry.key);
    TunerOptions options;
    options.layers = {};
    options.layers.user = folder / "store";
    tuner = Tuner::open(options);
    tuner.warmup(tasks);
    for (TuningTask task : tasks) {
      names.push_back(tuner.name(task));
      task.sizes.clear();
      openNames.push_back(tuner.name(task));
    }
  }
  Filled(const Filled&) = delete;
  Filled& operator=(const Filled&) = delete;
  ~Filled() { std::filesystem::remove_all(folder); }

  std::filesystem::path folder;
  std::vector<TuningTask> tasks;
  std::vector<TaskName> names, openNames;
  Tuner tuner;
};

Filled& filled() {
  static Filled only;
  return only;
}

void lookUp(benchmark::State& state) {
  Filled& at = filled();
  std::size_t i = 0, missing = 0;
  for (auto _ : state)
    missing += at.tuner.lookup(at.names[i++ % at.names.size()]) == nullptr;
  if (missing > 0)
    state.SkipWithError("a known name was not found");
}

void lookUpWithSizes(benchmark::State& state) {
  Filled& at = filled();
  std::size_t i = 0, missing = 0;
  std::int64_t rows = 8192;
  for (auto _ : state) {
    benchmark::DoNotOptimize(rows);
    TaskName name = at.openNames[i++ % at.openNames.size()].with(std::span(&rows, 1));
    missing += at.tuner.lookup(name) == nullptr;
  }
  if (missing > 0)
    state.SkipWithError("a known name was not found");
}

void load(benchmark::State& state) {
  auto store = autotune::Store::open(filled().folder / "store", autotune::Store::Access::read);
  autotune::Key key = store->keys().front().key;
  for (auto _ : state) {
    auto choice = store->choice(key);
    auto artifact = store->artifact(key, choice->schedule, choice->cubin);
    benchmark::DoNotOptimize(Program::load(artifact->plan, artifact->cubin));
  }
}

void nameTask(benchmark::State& state) {
  Filled& at = filled();
  for (auto _ : state)
    benchmark::DoNotOptimize(at.tuner.name(at.tasks[0]));
}

BENCHMARK(lookUp)->Unit(benchmark::kNanosecond);
BENCHMARK(lookUp)->Threads(2)->Unit(benchmark::kNanosecond);
BENCHMARK(lookUpWithSizes)->Unit(benchmark::kNanosecond);
BENCHMARK(load)->Unit(benchmark::kMicrosecond);
BENCHMARK(nameTask)->Unit(benchmark::kMillisecond);

} // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv))
    return 2;
  try {
    filled();
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
