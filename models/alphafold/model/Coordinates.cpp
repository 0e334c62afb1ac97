// See Coordinates.h.
#include "models/alphafold/model/Coordinates.h"

#include <ATen/ATen.h>

namespace kiln::alphafold {

using at::Tensor;

PointExpr operator-(const PointExpr& a, const PointExpr& b) {
  return {a[0] - b[0], a[1] - b[1], a[2] - b[2]};
}

Expr squaredLength(const PointExpr& point) {
  return square(point[0]) + square(point[1]) + square(point[2]);
}

Expr distance(const PointExpr& a, const PointExpr& b) {
  return sqrt(squaredLength(a - b) + 1e-10);
}

/// Of three numbers each, so many steps from one to the next.
static Expr dot(const Expr* row, const Expr* other, int rowStep, int otherStep) {
  return row[0] * other[0] + row[rowStep] * other[otherStep] +
         row[2 * rowStep] * other[2 * otherStep];
}

FrameExpr FrameExpr::fromUpdate(const PointExpr& bcd, const PointExpr& translation) {
  const Expr w = rsqrt(squaredLength(bcd) + 1), b = bcd[0] * w, c = bcd[1] * w, d = bcd[2] * w;
  const Expr same = 2 * w * w - 1;
  const auto crossed = [&](const Expr& x, const Expr& y, const Expr& z) {
    return std::pair{2 * (x * y - w * z), 2 * (x * y + w * z)};
  };
  const auto [r01, r10] = crossed(b, c, d);
  const auto [r20, r02] = crossed(d, b, c);
  const auto [r12, r21] = crossed(c, d, b);
  return {{same + 2 * b * b, r01, r02, r10, same + 2 * c * c, r12, r20, r21, same + 2 * d * d},
          translation};
}

PointExpr FrameExpr::apply(const PointExpr& point) const {
  const auto row = [&](std::size_t i) {
    return dot(&rotation[3 * i], point.data(), 1, 1) + translation[i];
  };
  return {row(0), row(1), row(2)};
}

PointExpr FrameExpr::invertApply(const PointExpr& point) const {
  const PointExpr from = point - translation;
  const auto column = [&](std::size_t i) { return dot(&rotation[i], from.data(), 3, 1); };
  return {column(0), column(1), column(2)};
}

FrameExpr FrameExpr::compose(const FrameExpr& inner) const {
  const auto at = [&](std::size_t i, std::size_t j) {
    return dot(&rotation[3 * i], &inner.rotation[j], 1, 3);
  };
  return {
      {at(0, 0), at(0, 1), at(0, 2), at(1, 0), at(1, 1), at(1, 2), at(2, 0), at(2, 1), at(2, 2)},
      apply(inner.translation)};
}

PointExpr Operands::point() {
  const Expr x = *next++, y = *next++, z = *next++;
  return {x, y, z};
}

FrameExpr Operands::frame() {
  const PointExpr first = point(), second = point(), third = point();
  return {
      {first[0], first[1], first[2], second[0], second[1], second[2], third[0], third[1], third[2]},
      point()};
}

Expr Operands::distanceOfPair() {
  const PointExpr row = point();
  return distance(row, point());
}

std::vector<Tensor> Arguments::call(const FusedFunction& function) const {
  std::vector<const Tensor*> operands;
  for (const Tensor& one : tensors)
    operands.push_back(&one);
  return function.call(operands);
}

void Arguments::add(const Rigid& frames, std::optional<std::int64_t> shared) {
  addPlanes(frames.rotation.flatten(-2), shared);
  addPlanes(frames.translation, shared);
}

/// Each number of vectors as a tensor of its own, in one piece; `shared`: a new dimension.
void Arguments::addPlanes(const Tensor& vectors, std::optional<std::int64_t> shared) {
  for (const Tensor& plane : vectors.movedim(-1, 0).contiguous().unbind(0))
    tensors.push_back(shared ? plane.unsqueeze(*shared) : plane);
}

} // namespace kiln::alphafold
