// See Shapes.h. What asks the families is in Family.cpp, which knows them.
#include "codegen/family/Shapes.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>

namespace kiln::family {
namespace {

using Sizes = std::vector<std::int64_t>;

/// One value stands for all run-time sizes behind the last. Without any there are tables of lists
/// at most, which a launch fills.
std::int64_t valueOf(const Extent& extent, const Sizes& sizes) {
  if (extent.isStatic())
    return extent.size;
  if (sizes.empty())
    return 1;
  return sizes[std::min(static_cast<std::size_t>(extent.symbol), sizes.size() - 1)];
}

std::int64_t largestCount(const LaunchPlan& plan, const Sizes& sizes) {
  std::int64_t largest = 1;
  for (const auto* tensors : {&plan.inputs, &plan.outputs})
    for (const TensorInfo& tensor : *tensors) {
      std::int64_t count = 1;
      for (const Extent& extent : tensor.shape)
        if (__builtin_mul_overflow(count, valueOf(extent, sizes), &count))
          return std::numeric_limits<std::int64_t>::max();
      largest = std::max(largest, count);
    }
  return largest;
}

bool hasRunTimeSizes(const LaunchPlan& plan) {
  return runTimeSizes(plan) > 0;
}

std::string nameOf(const char* what, const Sizes& sizes) {
  return fmt::format("{} {}", what, fmt::join(sizes, "x"));
}

/// The largest size gives way, and then the next, until no tensor has more elements.
Sizes withinElements(const ShapeRequest& request) {
  Sizes sizes = request.sizes;
  for (;;) {
    const std::int64_t elements = largestCount(request.plan, sizes);
    std::int64_t& largest = *std::ranges::max_element(sizes);
    if (elements <= request.elements || largest <= 1)
      return sizes;
    const std::int64_t each = std::max<std::int64_t>(1, elements / largest);
    largest = std::clamp<std::int64_t>(request.elements / each, 1, largest - 1);
  }
}

/// One value for all run-time sizes, odd.
std::int64_t fewOf(const ShapeRequest& request, std::int64_t size) {
  while (size > 1 && largestCount(request.plan, {size}) > request.elements)
    size = size > 8 ? (size * 3 / 4) | 1 : size - 2;
  return std::max<std::int64_t>(size, 1);
}

Sizes tailOf(Sizes sizes, std::int64_t tail) {
  std::int64_t& largest = *std::ranges::max_element(sizes);
  // Of wide rows few: they cost the host as much as the rows before.
  const std::int64_t most = std::max<std::int64_t>(largest / 4 - 1, 0) | 1;
  for (std::int64_t& size : sizes)
    if (&size == &largest)
      size = std::min(tail, most);
    else if (size % 2 == 0)
      size = std::max<std::int64_t>(size - 1, 1);
  return sizes;
}

} // namespace

std::size_t runTimeSizes(const LaunchPlan& plan) {
  int last = -1;
  for (const auto* tensors : {&plan.inputs, &plan.outputs})
    for (const TensorInfo& tensor : *tensors)
      for (const Extent& extent : tensor.shape)
        last = std::max(last, extent.symbol);
  return static_cast<std::size_t>(last) + 1; // 0 where there is none
}

double multiplyAddsOf(const LaunchPlan& plan, const std::vector<std::int64_t>& sizes) {
  double all = 0;
  for (const KernelLaunch& kernel : plan.kernels) {
    double product = kernel.multiplyAdds.factors.empty() ? 0 : 1;
    for (const Extent& factor : kernel.multiplyAdds.factors)
      product *= static_cast<double>(valueOf(factor, sizes));
    all += product;
  }
  return all;
}

double referenceCost(const LaunchPlan& plan, const std::vector<std::int64_t>& sizes) {
  return std::max(static_cast<double>(largestCount(plan, sizes)),
                  multiplyAddsOf(plan, sizes) / static_cast<double>(multiplyAddsPerElement));
}

std::vector<Shape> leadingShapes(const ShapeRequest& request, const LeadingSizes& leading) {
  Shape whole{.name = "its sizes", .sizes = request.sizes, .lengths = {}};
  const bool isOpen = hasRunTimeSizes(request.plan);
  const bool isChosen = isOpen && request.sizes.empty();
  if (isChosen)
    whole.sizes = {fewOf(request, leading.few)};
  else if (isOpen)
    whole.sizes = withinElements(request);
  if (isOpen && whole.sizes != request.sizes)
    whole.name = nameOf("size", whole.sizes);
  std::vector<Shape> shapes{whole};
  Shape last = whole;
  if (isOpen && !isChosen && std::ranges::max(whole.sizes) > 1) {
    last.sizes = tailOf(whole.sizes, leading.tail);
    last.name = nameOf("tail", last.sizes);
    last.isTail = true;
    shapes.push_back(last);
  }
  last.name += ", least aligned";
  last.leastAligned = true;
  shapes.push_back(last);
  return shapes;
}

} // namespace kiln::family
