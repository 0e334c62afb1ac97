// See Ranges.h.
#include "dialect/Ranges.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <vector>

namespace kiln::ir {

static constexpr int64_t kMostRanges = 64;

int64_t rangesOf(int64_t count, int64_t least) {
  return std::clamp(count / std::max<int64_t>(least, 1), int64_t{1}, kMostRanges);
}

void inRanges(int64_t count, int64_t ranges,
              llvm::function_ref<void(int64_t range, int64_t begin, int64_t end)> work) {
  std::atomic<int64_t> next = 0;
  std::vector<std::exception_ptr> errors(ranges);
  const auto take = [&] {
    for (int64_t range; (range = next++) < ranges;)
      try {
        work(range, count * range / ranges, count * (range + 1) / ranges);
      } catch (...) {
        errors[range] = std::current_exception();
      }
  };
  {
    const auto cores = static_cast<int64_t>(std::max(1U, std::thread::hardware_concurrency()));
    std::vector<std::jthread> others;
    for (int64_t thread = 1; thread < std::min(ranges, cores); ++thread)
      others.emplace_back(take);
    take();
  }
  for (const std::exception_ptr& error : errors)
    if (error)
      std::rethrow_exception(error);
}

void inRanges(int64_t elements, llvm::function_ref<void(int64_t begin, int64_t end)> work) {
  inRanges(elements, rangesOf(elements, kWorthAThread),
           [&](int64_t, int64_t begin, int64_t end) { work(begin, end); });
}

} // namespace kiln::ir
