// kiln::firstCheck: a program beside fp64 at small sizes, before anybody relies on it.
#include "codegen/family/Shapes.h"
#include "codegen/program/State.h"
#include "codegen/program/Verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace kiln {
namespace {

// Elements of the largest tensor. The host target runs threads one after another.
constexpr std::int64_t mostOnGpu = 1 << 16, mostOnHost = 1 << 12;
constexpr std::uint64_t seeds = 3;

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

/// Empty if a seed agrees.
static std::string disagreementAt(const family::Shape& shape, const Program& program,
                                  RunOptions options) {
  options.sizes = shape.sizes;
  std::string first;
  for (options.seed = 1; options.seed <= seeds; ++options.seed) {
    const Verification verification = program::verify(program, options, shape.lengths);
    if (verification.passed)
      return "";
    if (first.empty())
      first = disagreement(verification);
    if (!verification.problems.empty())
      break; // written outside, or other bits in a second run: no rounding does that
  }
  return first;
}

std::string firstCheck(const Program& program, Where where, const Module* reference) {
  RunOptions options;
  options.where = where;
  if (reference)
    options.reference = *reference;
  const std::int64_t elements = where == Where::gpu ? mostOnGpu : mostOnHost;
  for (const family::Shape& shape : family::shapesOf({program.state().plan, {}, elements})) {
    if (shape.leastAligned)
      continue; // the tuner's verification places buffers so
    if (std::string wrong = disagreementAt(shape, program, options); !wrong.empty())
      return fmt::format("compared with fp64 at {}: {}", shape.name, wrong);
  }
  return "";
}

} // namespace kiln
