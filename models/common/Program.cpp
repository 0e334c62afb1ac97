// See Program.h.
#include "models/common/Program.h"

#include "kiln/profile.h"
#include "kiln/torch.h"
#include "models/common/Device.h"

#include <c10/util/Exception.h>
#include <iostream>
#include <limits>
#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace kiln::models {

void keepFreedMemory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20); // the most that glibc takes
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_TOP_PAD, 64 << 20);
#endif
}

int guarded(const char* name, const std::function<int()>& work) try {
  keepFreedMemory();
  return work();
} catch (const c10::Error& error) {
  std::cerr << name << ": " << error.what_without_backtrace() << '\n';
  return 1;
} catch (const std::exception& error) {
  std::cerr << name << ": " << error.what() << '\n';
  return 1;
}

void startKiln(const std::string& mode) {
  if (mode == "off")
    return disable();
  auto chosen = Options::fromEnvironment();
  if (mode == "verify")
    chosen.mode = Mode::verify;
  if (mode == "record")
    chosen.mode = Mode::record;
  enable(chosen);
}

void startDeterministic() {
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*replace=*/0);
}

bool isEvery(std::int64_t step, std::int64_t period) {
  return period > 0 && step % period == 0;
}

void profileSteps(const std::function<void()>& step, at::Device device, std::int64_t rows) {
  constexpr int steps = 3;
  profile::Profiler profiler = profile::makeProfiler({.schedule = {.warmup = 1, .active = steps}});
  profiler.start();
  for (int i = 0; i <= steps; ++i) {
    step();
    synchronize(device); // else kernels of one step are counted in the next
    profiler.step();
  }
  profiler.stop();
  std::cerr << "in " << steps << " steps:\n";
  profiler.printTopTables(std::cerr, static_cast<std::size_t>(rows));
}

} // namespace kiln::models
