// See Rigid.h.
#include "models/alphafold/model/Rigid.h"

#include "models/alphafold/model/Coordinates.h"

#include <ATen/ATen.h>

namespace kiln::alphafold {

using at::Tensor;

Tensor normalized(const Tensor& vectors, double eps) {
  return vectors * at::rsqrt(vectors.square().sum(-1, /*keepdim=*/true) + eps);
}

Rigid Rigid::identity(at::IntArrayRef sizes, const Tensor& like) {
  std::vector<std::int64_t> matrix = sizes.vec(), vector = sizes.vec();
  matrix.insert(matrix.end(), {3, 3});
  vector.push_back(3);
  return {at::eye(3, like.options()).expand(matrix), at::zeros(vector, like.options())};
}

Rigid Rigid::fromThreePoints(const Tensor& a, const Tensor& b, const Tensor& c) {
  const Tensor first = normalized(c - b), side = a - b;
  const Tensor second = normalized(side - first * (first * side).sum(-1, /*keepdim=*/true));
  return {at::stack({first, second, at::linalg_cross(first, second)}, -1), b};
}

Rigid Rigid::fromMatrix(const Tensor& matrix) {
  const Tensor top = matrix.narrow(-2, 0, 3);
  return {top.narrow(-1, 0, 3), top.select(-1, 3)};
}

Tensor Rigid::matrix() const {
  const Tensor top = at::cat({rotation, translation.unsqueeze(-1)}, -1);
  std::vector<std::int64_t> sizes = top.sizes().vec();
  sizes[sizes.size() - 2] = 1;
  const Tensor last = at::cat({at::zeros({3}, top.options()), at::ones({1}, top.options())});
  return at::cat({top, last.expand(sizes)}, -2);
}

Rigid Rigid::fromUpdate(const Tensor& update) {
  const Tensor bcd = update.narrow(-1, 0, 3);
  const Tensor w = at::rsqrt(bcd.square().sum(-1, /*keepdim=*/true) + 1).unsqueeze(-1);
  const Tensor v = bcd.unsqueeze(-1) * w; // the quaternion is w, v: of length 1
  const Tensor row = v.transpose(-1, -2), squares = v * row;
  const Tensor unit = at::eye(3, update.options().requires_grad(false)).expand_as(squares);
  const Tensor cross = at::linalg_cross(unit, row); // cross x = v x x
  const Tensor rotation = (2 * w * w - 1) * unit + 2 * (squares + w * cross);
  return {rotation, update.narrow(-1, 3, 3)};
}

Rigid Rigid::turnAboutX(const Tensor& sinCos) {
  const Tensor sine = sinCos.select(-1, 0), cosine = sinCos.select(-1, 1);
  const Tensor zero = at::zeros_like(sine), one = at::ones_like(sine);
  const Tensor rotation = at::stack({one, zero, zero, zero, cosine, -sine, zero, sine, cosine}, -1)
                              .unflatten(-1, {3, 3});
  return {rotation, at::zeros_like(rotation.select(-1, 0))};
}

Tensor Rigid::apply(const Tensor& points) const {
  return (rotation * points.unsqueeze(-2)).sum(-1) + translation;
}

Tensor Rigid::invertApply(const Tensor& points) const {
  return (rotation * (points - translation).unsqueeze(-1)).sum(-2);
}

Rigid Rigid::compose(const Rigid& inner) const {
  return {(rotation.unsqueeze(-1) * inner.rotation.unsqueeze(-3)).sum(-2),
          apply(inner.translation)};
}

/// Of frames and updates: the twelve numbers of frames.
static std::vector<Expr> updatedOf(const void*, const std::vector<Expr>& all) {
  Operands next(all);
  const FrameExpr frame = next.frame();
  const PointExpr bcd = next.point();
  const FrameExpr made = frame.compose(FrameExpr::fromUpdate(bcd, next.point()));
  std::vector<Expr> numbers(made.rotation.begin(), made.rotation.end());
  numbers.insert(numbers.end(), made.translation.begin(), made.translation.end());
  return numbers;
}

Rigid Rigid::updated(const Tensor& update) const {
  static const FusedFunction function(18, &updatedOf, nullptr, {.name = "updated_frames"});
  Arguments all;
  all.add(*this);
  all.addPlanes(update);
  const std::vector<Tensor> numbers = all.call(function);
  const at::TensorList list(numbers);
  return {at::stack(list.slice(0, 9), -1).unflatten(-1, {3, 3}), at::stack(list.slice(9, 3), -1)};
}

Rigid Rigid::scaled(double factor) const {
  return {rotation, translation * factor};
}

Rigid Rigid::detachedRotation() const {
  return {rotation.detach(), translation};
}

Rigid Rigid::select(std::int64_t dim, std::int64_t index) const {
  return {rotation.select(dim, index), translation.select(dim, index)};
}

Rigid Rigid::unsqueeze(std::int64_t dim) const {
  return {rotation.unsqueeze(dim), translation.unsqueeze(dim)};
}

Rigid Rigid::flattened() const {
  return {rotation.flatten(0, -3), translation.flatten(0, -2)};
}

Rigid stack(const std::vector<Rigid>& all) {
  std::vector<Tensor> rotations, translations;
  for (const Rigid& one : all) {
    rotations.push_back(one.rotation);
    translations.push_back(one.translation);
  }
  return {at::stack(rotations), at::stack(translations)};
}

} // namespace kiln::alphafold
