// A program that calls Kiln while it ends. Its first argument says what the destructor of a static
// object does, which was there before main; "thread" compiles in a thread that nobody waits for.
// The second says how it ends.
#include "Leave.h"

#include <kiln/kiln.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>

using namespace kiln;

namespace {

std::optional<Program> program;
std::string what;
std::atomic<int> threads = 0; // that have compiled once

Program gelu(std::int64_t width, Stage until) {
  CompileOptions options;
  options.until = until;
  return Program::compile(Module::fromOp({"gelu", {-1, width}, DType::f32}), options);
}

void call() {
  if (what == "run") {
    std::vector<float> x(128, 2), y(128);
    Buffer inputs[] = {{x.data(), {1, 128}, {}}}, outputs[] = {{y.data(), {1, 128}, {}}};
    program->runOnHost(inputs, outputs);
    std::printf("gelu(2) = %.4f\n", y[5]);
  } else if (what == "compile") {
    std::printf("%zu letters\n", gelu(64, Stage::cuda).text(Stage::cuda).size());
  } else if (what == "cubin") {
    std::printf("%zu bytes\n", gelu(64, Stage::cubin).cubin().size());
  } else if (what == "parse") {
    Module::parse("func.func @f(");
  }
}

struct AtEnd {
  ~AtEnd() {
    try {
      call();
    } catch (const Error& error) {
      std::printf("error: %s\n", error.what());
    }
    std::printf("ended\n");
    std::fflush(stdout);
  }
} atEnd;

void compileForGood(Stage until) {
  for (std::int64_t width = 8;; width += 8) {
    try {
      gelu(width, until);
    } catch (const Error&) { // at the end, or without NVRTC
    }
    threads += width == 8;
  }
}

} // namespace

int main(int, char** arguments) {
  what = arguments[1];
  const std::string how = arguments[2];
  program = gelu(128, Stage::cuda);
  if (what == "cubin")
    try {
      gelu(32, Stage::cubin);
    } catch (const Error&) { // without NVRTC: said again at the end
    }
  if (what == "thread") {
    for (Stage until : {Stage::cuda, Stage::cubin})
      std::thread(compileForGood, until).detach();
    while (threads < 2)
      std::this_thread::yield();
  }
  leave(how);
  return 0;
}
