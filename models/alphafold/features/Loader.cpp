// See Loader.h.
#include "models/alphafold/features/Loader.h"

#include "models/common/Fail.h"
#include "models/common/Random.h"

#include <ATen/Context.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <thread>

namespace kiln::alphafold {

namespace {

// Sequences of random numbers of a run, apart from Dataset's.
constexpr std::uint64_t passesPurpose = 3, examplePurpose = 4;

void checkLoader(const LoaderOptions& o) {
  o.example.check();
  if (o.batch < 1 || o.workers < 1 || o.prefetch < 1 || o.firstStep < 0)
    models::fail(
        ErrorKind::input,
        "a loader of {} examples by {} threads, {} ahead, from step {}: at least 1, 1, 1 and 0 are "
        "needed",
        o.batch, o.workers, o.prefetch, o.firstStep);
  if (o.ranks < 1 || o.rank < 0 || o.rank >= o.ranks)
    models::fail(ErrorKind::input, "rank {} of {}: ranks go from 0 to one less than their number",
                 o.rank, o.ranks);
}

} // namespace

std::int64_t passesOf(std::uint64_t seed, std::int64_t step, std::int64_t most) {
  models::Random random(seed, {passesPurpose, static_cast<std::uint64_t>(step)});
  return 1 + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(most)));
}

Batch makeBatch(const Dataset& dataset, const LoaderOptions& options, std::int64_t step) {
  ExampleOptions example = options.example;
  if (options.drawPasses)
    example.passes = passesOf(options.seed, step, example.passes);
  std::vector<Example> examples;
  for (std::int64_t i = 0; i < options.batch; ++i) {
    const auto index =
        static_cast<std::uint64_t>((step * options.ranks + options.rank) * options.batch + i);
    const DatasetEntry& entry = dataset.draw(options.seed, index);
    example.isDistillation = entry.isDistillation;
    models::Random random(options.seed, {examplePurpose, index});
    examples.push_back(makeExample(readChain(entry.chain.path), example, random.next()));
  }
  return collate(examples, options.pinned && at::hasCUDA());
}

/// Batches that are made or being made, by step. Threads take the next step as long as it is not
/// too far ahead of what was fetched.
struct Loader::State {
  State(const Dataset& dataset, const LoaderOptions& options)
      : dataset(dataset), options(options), started(options.firstStep), fetched(options.firstStep) {
    for (std::int64_t i = 0; i < options.workers; ++i)
      threads.emplace_back([this](const std::stop_token& stop) { work(stop); });
  }

  ~State() {
    for (std::jthread& thread : threads)
      thread.request_stop();
    threads.clear(); // before what they use
  }

  void work(const std::stop_token& stop) {
    while (true) {
      std::int64_t step = 0;
      {
        std::unique_lock lock(mutex);
        if (!changed.wait(lock, stop, [&] { return started < fetched + options.prefetch; }))
          return;
        step = started++;
      }
      Made made;
      try {
        made.batch = makeBatch(dataset, options, step);
      } catch (...) {
        made.error = std::current_exception();
      }
      {
        const std::lock_guard lock(mutex);
        ready.emplace(step, std::move(made));
      }
      changed.notify_all();
    }
  }

  Batch next() {
    const auto begin = std::chrono::steady_clock::now();
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return ready.contains(fetched); });
    waited += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    const auto found = ready.find(fetched);
    if (found->second.error)
      std::rethrow_exception(found->second.error);
    Batch batch = std::move(found->second.batch);
    ready.erase(found);
    ++fetched;
    lock.unlock();
    changed.notify_all();
    return batch;
  }

  struct Made {
    Batch batch;
    std::exception_ptr error;
  };

  const Dataset& dataset;
  LoaderOptions options;
  mutable std::mutex mutex;
  std::condition_variable_any changed;
  std::map<std::int64_t, Made> ready;
  std::int64_t started, fetched; // first steps that no thread has begun, that nobody has fetched
  double waited = 0;
  std::vector<std::jthread> threads;
};

Loader::Loader(const Dataset& dataset, const LoaderOptions& options) {
  checkLoader(options);
  state = std::make_unique<State>(dataset, options);
}

Loader::~Loader() = default;

Batch Loader::next() {
  return state->next();
}

std::int64_t Loader::step() const {
  const std::lock_guard lock(state->mutex);
  return state->fetched;
}

double Loader::waited() const {
  const std::lock_guard lock(state->mutex);
  return state->waited;
}

} // namespace kiln::alphafold
