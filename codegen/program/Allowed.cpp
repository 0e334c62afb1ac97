// See Allowed.h.
#include "codegen/program/Allowed.h"

#include "codegen/program/Noise.h"
#include "dialect/Ranges.h"

#include "llvm/ADT/DenseMap.h"

#include <algorithm>
#include <cmath>

namespace kiln::program {
namespace {

/// Rounding errors add up like a random walk; this many standard deviations are allowed.
constexpr double kSafety = 10.0;
/// The same for a single element, whose noise may have cancelled where its error does not.
constexpr double kSafetyOfOne = 4.0;

/// Spacing of the smallest numbers: what is lost to underflow.
double smallest(DType dtype) {
  switch (dtype) {
  case DType::bf16:
    return 0x1p-133;
  case DType::f16:
    return 0x1p-24;
  case DType::f32:
    return 0x1p-126; // the device may flush results this small in its functions
  default:
    return 0.0;
  }
}

/// Root mean squares over the finite elements [start, start + width).
struct RowError {
  double difference = 0.0, value = 0.0;
};
RowError errorOfRow(const ir::Tensor64& exact, llvm::ArrayRef<const ir::Tensor64*> noisy,
                    std::int64_t start, std::int64_t width) {
  RowError row;
  std::int64_t finite = 0;
  for (const ir::Tensor64* drawn : noisy)
    for (std::int64_t i = start; i < start + width; ++i) {
      double difference = drawn->data[i] - exact.data[i];
      if (!std::isfinite(difference))
        continue;
      row.difference += difference * difference;
      row.value += exact.data[i] * exact.data[i];
      ++finite;
    }
  double count = static_cast<double>(std::max<std::int64_t>(finite, 1));
  return {std::sqrt(row.difference / count), std::sqrt(row.value / count)};
}

/// What is typical of all rows: noise may cancel in one of many. Rows that are smaller than their
/// noise are what is left where numbers cancel, and say nothing about the others. Where what rows
/// subtract cancels in some, all have the noise of what they subtract, whatever they amount to: a
/// row is allowed what half of those have that are about as large.
struct Typical {
  double ofValue = 0.0;               // difference over value
  double ofNothing = 0.0;             // difference where a row is nothing but noise
  llvm::DenseMap<int, double> ofSize; // difference of rows of this power of two, and its neighbours

  explicit Typical(llvm::ArrayRef<RowError> rows) {
    double values = 0.0, nothings = 0.0;
    llvm::DenseMap<int, std::vector<double>> near;
    for (const RowError& row : rows)
      if (row.value > row.difference) {
        ofValue += row.difference / row.value, values += 1.0;
        for (int size : {-1, 0, 1})
          near[std::ilogb(row.value) + size].push_back(row.difference);
      } else
        ofNothing += row.difference, nothings += 1.0;
    ofValue /= std::max(values, 1.0);
    ofNothing /= std::max(nothings, 1.0);
    for (auto& [size, differences] : near) {
      const auto half = differences.begin() + std::ssize(differences) / 2;
      std::nth_element(differences.begin(), half, differences.end());
      ofSize[size] = *half;
    }
  }
  double of(const RowError& row) const {
    const bool isNothing = row.value <= std::max(row.difference, 0x1p-24 * ofNothing);
    return isNothing ? std::max(row.difference, ofNothing)
                     : std::max({row.difference, ofValue * row.value,
                                 ofSize.lookup(std::ilogb(row.value))});
  }
};

} // namespace

ir::Tensor64 allowedErrors(const TensorInfo& info, const ir::Tensor64& exact,
                           llvm::ArrayRef<const ir::Tensor64*> noisy) {
  ir::Tensor64 allowed = ir::unsetTensor64(exact.shape);
  bool rows = exact.shape.size() > 1;
  std::int64_t width = rows ? exact.width() : exact.size();
  if (width == 0)
    return allowed;
  std::vector<RowError> errors(exact.size() / width);
  const std::int64_t count = std::ssize(errors);
  const std::int64_t ranges = ir::rangesOf(count, ir::kWorthAThread / width);
  ir::inRanges(count, ranges, [&](std::int64_t, std::int64_t r, std::int64_t end) {
    for (; r < end; ++r)
      errors[r] = errorOfRow(exact, noisy, r * width, width);
  });
  const Typical usual(errors);
  const auto allow = [&](std::int64_t r) {
    const RowError& row = errors[r];
    const double typical = usual.of(row);
    for (std::int64_t i = r * width; i < (r + 1) * width; ++i) {
      // What is off by the same factor all along a row is off most where values are largest.
      const double size = std::abs(exact.data[i]);
      const double larger = row.value > 0.0 && std::isfinite(size) ? size / row.value : 1.0;
      // And an element may hang on few roundings, of which the noise was at least half.
      double own = 0.0;
      for (const ir::Tensor64* drawn : noisy)
        if (const double moved = std::abs(drawn->data[i] - exact.data[i]); std::isfinite(moved))
          own = std::max(own, moved);
      allowed.data[i] = std::max(kSafety * typical * std::max(1.0, larger), kSafetyOfOne * own) +
                        smallest(info.dtype) + (halfUlp(info.dtype) + 0x1p-21) * size;
    }
  };
  ir::inRanges(count, ranges, [&](std::int64_t, std::int64_t r, std::int64_t end) {
    for (; r < end; ++r)
      allow(r);
  });
  return allowed;
}

} // namespace kiln::program
