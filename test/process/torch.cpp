// A program that ends or forks while kernels of its ops are compiled, on tensors of the CPU. Its
// first argument says how, the second is a width that no run before had: nothing is known of it.
#include "Leave.h"

#include <ATen/ATen.h>
#include <kiln/fuse.h>
#include <kiln/optim.h>
#include <kiln/torch.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using at::Tensor;

namespace {

bool reports(const std::string& text) {
  return kiln::report().find(text) != std::string::npos;
}

kiln::Options onCpu(bool strict) {
  kiln::Options options;
  options.place = kiln::Place::cpu;
  options.strict = strict;
  return options;
}

/// New ones each time: none of these has a kernel.
void ask(std::int64_t width, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const Tensor x = at::ones({3, width + i});
    at::softmax(x, 1);
    at::layer_norm(x, {width + i});
  }
}

void require(bool fact, const char* text) {
  if (fact)
    return;
  std::printf("not so: %s\n%s", text, kiln::report().c_str());
  std::fflush(stdout);
  ::_exit(1);
}

/// What a child can do whose parent was compiling.
void workInChild(std::int64_t width, bool ends) {
  kiln::wait(); // what the parent asked for
  require(!reports("waits to be compiled"), "everything is settled");
  require(!reports("left to ATen: this process was forked"), "nobody compiled at that moment");
  kiln::enable(onCpu(true));
  const Tensor x = at::linspace(-1, 1, 2 * (width + 500)).view({2, width + 500});
  const Tensor ours = at::softmax(x, 1);
  require(reports("2x" + std::to_string(width + 500)), "new ops get kernels");
  static const auto scaled = kiln::fuse([](kiln::Expr a) { return kiln::softmax(a) * 2; });
  require(at::allclose(scaled(x), ours * 2), "fused functions run");
  std::thread([&] {
    require(at::allclose(at::silu(x), x * at::sigmoid(x)), "threads run");
  }).join();
  if (ends)
    std::exit(0);
  ::_exit(0);
}

int forks(std::int64_t width, const std::string& how) {
  constexpr int children = 3;
  pid_t ids[children];
  for (int i = 0; i < children; ++i) {
    ask(width + 10 * i, 3);
    ids[i] = ::fork();
    if (ids[i] == 0) {
      if (how == "fork_again" && ::fork() > 0)
        ::wait(nullptr);
      workInChild(width, how == "fork_exit");
    }
  }
  int failures = 0;
  for (pid_t id : ids) {
    int status = -1;
    ::waitpid(id, &status, 0);
    failures += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  }
  kiln::wait(); // the parent goes on
  require(!reports("waits to be compiled"), "the parent's orders are settled");
  return failures;
}

} // namespace

int main(int, char** arguments) {
  const std::string how = arguments[1];
  const std::int64_t width = std::atoll(arguments[2]);
  kiln::enable(onCpu(false));
  if (how.starts_with("fork"))
    return forks(width, how);
  ask(width, 2);
  leave(how);
  if (how == "throw")
    throw std::runtime_error("uncaught");
  if (how == "fuse") {
    static const auto f =
        kiln::fuse([](kiln::Expr a) { return kiln::softmax(a) * a; }, {.wait = false});
    f(at::ones({3, width}));
  }
  if (how == "static") { // asks at the very end, by its destructor
    static const struct Late {
      std::int64_t width;
      ~Late() { kiln::enable(onCpu(false)), ask(width + 100, 1), kiln::wait(); }
    } late{width};
  }
  return 0;
}
