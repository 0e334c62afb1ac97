// kiln::firstCheck: a program beside fp64 at small sizes, before anybody relies on it.
#include "codegen/backend/Fail.h"
#include "kiln/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace kiln {
namespace {

// Elements of the largest tensor. The host target runs threads one after another.
constexpr std::int64_t mostOnGpu = 1 << 16, mostOnHost = 1 << 12;
constexpr std::int64_t mostRows = 131; // a few blocks, and odd: the last tile has rows to leave out
constexpr std::uint64_t seeds = 3;

std::int64_t largestCount(const Program& program, std::int64_t size) {
  std::int64_t most = 1;
  for (const auto* tensors : {&program.inputs(), &program.outputs()})
    for (const TensorInfo& tensor : *tensors) {
      std::int64_t count = 1;
      for (const Extent& extent : tensor.shape)
        count *= extent.isStatic() ? extent.size : size;
      most = std::max(most, count);
    }
  return most;
}

/// One value for all run-time sizes, odd.
std::int64_t sizeFor(const Program& program, std::int64_t elements) {
  std::int64_t size = mostRows;
  while (size > 1 && largestCount(program, size) > elements)
    size = size > 8 ? (size * 3 / 4) | 1 : size - 2;
  return std::max<std::int64_t>(size, 1);
}

bool hasRunTimeSizes(const Program& program) {
  const auto isOpen = [](const TensorInfo& tensor) {
    return !std::ranges::all_of(tensor.shape, &Extent::isStatic);
  };
  return std::ranges::any_of(program.inputs(), isOpen) ||
         std::ranges::any_of(program.outputs(), isOpen);
}

std::string disagreement(const Verification& verification) {
  for (const std::string& problem : verification.problems)
    return problem;
  for (const OutputCheck& output : verification.outputs)
    if (!output.passed)
      return fmt::format("{} is {:.6g} where fp64 gives {:.6g}; rounding explains {:.2g}",
                         output.name, output.result, output.reference, output.allowed);
  return "";
}

} // namespace

bool isFirstCheckWanted() {
  const char* wanted = std::getenv("KILN_FIRST_CHECK");
  return !wanted || std::string_view(wanted) != "0";
}

std::string firstCheck(const Program& program, Where where, const Module* reference) {
  RunOptions options;
  options.where = where;
  const std::int64_t size = sizeFor(program, where == Where::gpu ? mostOnGpu : mostOnHost);
  if (hasRunTimeSizes(program))
    options.sizes = {size};
  if (reference)
    options.reference = *reference;
  std::string first;
  for (options.seed = 1; options.seed <= seeds; ++options.seed) {
    const Verification verification = verify(program, options);
    if (verification.passed)
      return "";
    if (first.empty())
      first = disagreement(verification);
    if (!verification.problems.empty())
      break; // written outside, or other bits in a second run: no rounding does that
  }
  return fmt::format("compared with fp64 at size {}: {}", size, first);
}

} // namespace kiln
