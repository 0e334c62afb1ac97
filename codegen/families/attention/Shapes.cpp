// See Shapes.h.
#include "codegen/families/attention/Shapes.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kiln::attention {
namespace {

using Sizes = std::vector<std::int64_t>;

constexpr std::int64_t kUsual = 131; // where no size is asked for
constexpr std::int64_t kFewHeads = 2;

/// By run-time size: whether it counts queries or keys (AttentionKernel::multiplyAdds).
std::vector<bool> rowsOf(const LaunchPlan& plan, std::size_t count) {
  std::vector<bool> rows(count);
  for (const KernelLaunch& kernel : plan.kernels)
    if (const auto& factors = kernel.multiplyAdds.factors; factors.size() >= 3)
      for (const Extent& factor : std::span(factors).last(3).first(2))
        if (!factor.isStatic())
          rows[static_cast<std::size_t>(factor.symbol)] = true;
  return rows;
}

/// The largest of the sizes that are rows, or are not; null: none is above `least`.
std::int64_t* largest(Sizes& sizes, const std::vector<bool>& rows, bool isRow, std::int64_t least) {
  std::int64_t* found = nullptr;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    if (rows[i] == isRow && sizes[i] > (found ? *found : least))
      found = &sizes[i];
  return found;
}

/// Leading sizes give way first: what goes wrong does so along rows.
Sizes withinCost(const family::ShapeRequest& request, Sizes sizes, const std::vector<bool>& rows) {
  while (family::referenceCost(request.plan, sizes) > static_cast<double>(request.elements)) {
    std::int64_t* size = largest(sizes, rows, false, kFewHeads);
    if (!size)
      size = largest(sizes, rows, true, 1);
    if (!size)
      size = largest(sizes, rows, false, 1);
    if (!size)
      break;
    *size = std::max<std::int64_t>(*size * 7 / 8, 1);
  }
  return sizes;
}

/// No tile divides them, and of queries and keys no one stands for the other.
Sizes oddAndDifferent(Sizes sizes, const std::vector<bool>& rows) {
  std::vector<std::int64_t> taken;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    std::int64_t& size = sizes[i];
    size = std::max<std::int64_t>((size - 1) | 1, 1);
    if (!rows[i])
      continue;
    while (std::ranges::find(taken, size) != taken.end())
      size = size > 2 ? size - 2 : *std::ranges::max_element(taken) + 2;
    taken.push_back(size);
  }
  return sizes;
}

} // namespace

std::vector<family::Shape> shapesOf(const family::ShapeRequest& request) {
  const std::size_t count = family::runTimeSizes(request.plan);
  const bool isChosen = request.sizes.empty();
  family::Shape whole{.name = "its sizes", .sizes = request.sizes, .lengths = {}};
  std::vector<family::Shape> shapes;
  if (count > 0) {
    const std::vector<bool> rows = rowsOf(request.plan, count);
    whole.sizes.resize(count, isChosen ? kUsual : request.sizes.back());
    const Sizes asked = whole.sizes;
    whole.sizes = withinCost(request, whole.sizes, rows);
    if (isChosen)
      whole.sizes = oddAndDifferent(whole.sizes, rows);
    if (isChosen || whole.sizes != asked)
      whole.name = fmt::format("size {}", fmt::join(whole.sizes, "x"));
    shapes.push_back(whole);
    whole.sizes = oddAndDifferent(whole.sizes, rows);
    if (whole.sizes != shapes.front().sizes) {
      whole.name = fmt::format("tail {}", fmt::join(whole.sizes, "x"));
      whole.isTail = true;
      shapes.push_back(whole);
    }
  } else {
    shapes.push_back(whole);
  }
  shapes.push_back(shapes.back());
  shapes.back().name += ", least aligned";
  shapes.back().leastAligned = true;
  return shapes;
}

} // namespace kiln::attention
