// How long a row kernel takes from text to cubin, how much of that is Kiln's own, and how long the
// command takes to start: LayerNorm forward and backward, bf16, 128 wide. Then chains of
// operations, whose time should grow with their length. No GPU is needed.
//   compile_time [--kernel-compile=PATH] [--arch=sm_90a] [--nvrtc=FILE] [--benchmark_...]
// The command is looked for beside this program.
#include "bench/Entries.h"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

extern char** environ;

using namespace kiln;
using namespace kiln::bench;

namespace {

/// Text to cubin with NVRTC loaded, or only until the CUDA text: what Kiln itself takes.
void compileText(benchmark::State& state, CompileOptions options, const std::string& text) {
  try {
    for (auto _ : state)
      benchmark::DoNotOptimize(Program::compile(Module::parse(text), options));
  } catch (const Error& error) {
    state.SkipWithError(error.what());
  }
}

/// A whole process, from its start to its end; what it prints is thrown away.
void runProcess(benchmark::State& state, std::vector<std::string> words) {
  std::vector<char*> pointers;
  for (std::string& word : words)
    pointers.push_back(word.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  for (auto _ : state) {
    pid_t process = 0;
    int status = -1;
    if (posix_spawn(&process, pointers[0], &actions, nullptr, pointers.data(), environ) != 0 ||
        waitpid(process, &status, 0) != process || status != 0) {
      state.SkipWithError(("cannot run " + words[0] + ", or it failed").c_str());
      break;
    }
  }
  posix_spawn_file_actions_destroy(&actions);
}

std::string takeCommand(std::vector<char*>& given) {
  return takeOption(given, "--kernel-compile=")
      .value_or(std::filesystem::read_symlink("/proc/self/exe").parent_path() / "kernel-compile");
}

/// An operation of itself, so often.
std::string chainOf(const std::string& operation, int length) {
  const std::string type = "tensor<?x128xf32>";
  std::string text = fmt::format("func.func @chain(%v0: {0}) -> {0} {{\n", type);
  for (int i = 0; i < length; ++i)
    text += fmt::format("  %v{} = math.{} %v{} : {}\n", i + 1, operation, i, type);
  return text + fmt::format("  return %v{} : {}\n}}\n", length, type);
}

void registerChains(CompileOptions options) {
  options.until = Stage::cubin;
  options.backward = true;
  for (const char* operation : {"exp", "tanh"})
    for (int length : {250, 500, 1000})
      benchmark::RegisterBenchmark(
          fmt::format("text_to_cubin/{}_chain_backward/{}", operation, length).c_str(), compileText,
          options, chainOf(operation, length))
          ->Unit(benchmark::kMillisecond)
          ->UseRealTime();
}

void registerAll(const CompileOptions& given, const std::string& command) {
  const std::string text = Module::fromOp({"layer_norm", {-1, 128}, DType::bf16}).text();
  for (bool backward : {false, true}) {
    std::string direction = backward ? "backward" : "forward";
    CompileOptions options = given;
    options.backward = backward;
    auto add = [&](const std::string& name, Stage until) {
      options.until = until;
      benchmark::RegisterBenchmark((name + "/" + direction).c_str(), compileText, options, text)
          ->Unit(benchmark::kMillisecond)
          ->UseRealTime();
    };
    add("text_to_cubin", Stage::cubin);
    add("text_to_cuda", Stage::cuda);
    std::vector<std::string> words = {command,         "compile",      "--op=layer_norm",
                                      "--shape=?x128", "--dtype=bf16", "--emit=json"};
    words.push_back("--arch=" + given.arch);
    if (!given.nvrtc.empty())
      words.push_back("--nvrtc=" + given.nvrtc.string());
    if (backward)
      words.push_back("--backward");
    benchmark::RegisterBenchmark(("process_compile/" + direction).c_str(), runProcess, words)
        ->Unit(benchmark::kMillisecond)
        ->UseRealTime();
  }
  registerChains(given);
  benchmark::RegisterBenchmark("process_version", runProcess,
                               std::vector<std::string>{command, "--version"})
      ->Unit(benchmark::kMillisecond)
      ->UseRealTime();
}

} // namespace

int main(int count, char** given) try {
  benchmark::Initialize(&count, given);
  std::vector<char*> words(given, given + count);
  std::string command = takeCommand(words);
  registerAll(parseArguments(words, "").compile, command);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
} catch (const Error& error) {
  fmt::print(stderr, "compile_time: {}\n", error.what());
  return 1;
}
