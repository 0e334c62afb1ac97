// The shapes at which a program is compared with fp64 and timed. The families of its kernels choose
// them: a family knows what its kernels do at the ends of their tiles. Plain C++.
#pragma once

#include "codegen/backend/LaunchPlan.h"

namespace kiln::family {

/// Values for what a launch plan leaves open.
struct Shape {
  std::string name;                  // for reports: "tail 997x64"
  std::vector<std::int64_t> sizes;   // of the run-time sizes, by symbol
  std::vector<std::int64_t> lengths; // of the tensors that every list holds
  bool isTail = false;               // a wrong value is one at the end of what tiles cover
  bool leastAligned = false;         // pointers are multiples of what the plan asks and no more

  bool isLike(const Shape& other) const {
    return sizes == other.sizes && lengths == other.lengths && leastAligned == other.leastAligned;
  }
};

struct ShapeRequest {
  const LaunchPlan& plan;
  std::vector<std::int64_t> sizes; // that the program is for; empty: a family chooses
  std::int64_t elements;           // of the largest tensor, where run-time sizes may be smaller
};

/// Multiply-adds of a reference that take as long as what rows compute for an element.
inline constexpr std::int64_t multiplyAddsPerElement = 200;
/// As many as the kernels of a plan say (KernelLaunch::multiplyAdds); 0: no more than elements.
double multiplyAddsOf(const LaunchPlan& plan, const std::vector<std::int64_t>& sizes);
/// What the reference of a program costs at these sizes, in elements: those of its largest tensor,
/// or more where its kernels say that there is more to do. One size stands for all behind the last.
double referenceCost(const LaunchPlan& plan, const std::vector<std::int64_t>& sizes);

/// What the families of a plan's kernels answer, each shape once; those whose kernels have more to
/// do than elements, if there are such, answer for all. The first one is for the sizes asked for,
/// or as near to them as the elements allow.
std::vector<Shape> shapesOf(const ShapeRequest& request);
/// How many run-time sizes a program has.
std::size_t runTimeSizes(const LaunchPlan& plan);
/// Lengths of the tensors of lists to time with.
std::vector<std::int64_t> typicalLengthsOf(const LaunchPlan& plan);

/// Sizes for kernels whose blocks take tiles of the leading dimensions.
struct LeadingSizes {
  std::int64_t tail; // a prime that no tile divides, of the largest size
  std::int64_t few;  // where no size is asked for: some blocks, and odd
};
/// The sizes asked for, or smaller ones; a tail, whose sizes are all odd; and the least alignment.
std::vector<Shape> leadingShapes(const ShapeRequest& request, const LeadingSizes& leading);

} // namespace kiln::family
