// See Fape.h.
#include "models/alphafold/losses/Fape.h"

#include "models/alphafold/model/Coordinates.h"

#include <ATen/ATen.h>

namespace kiln::alphafold {

using at::Tensor;

namespace {

constexpr double fapeEps = 1e-4;

/// Of weights, the share that is clamped, frames and points as predicted, and as they should be: a
/// row's sum.
std::vector<Expr> errorsOf(const void*, const std::vector<Expr>& all) {
  constexpr double farthest = 10;
  Operands next(all);
  const Expr weight = next.number(), clamped = next.number();
  const auto seen = [&] {
    const FrameExpr frame = next.frame();
    return frame.invertApply(next.point());
  };
  const PointExpr predicted = seen(), should = seen();
  const Expr apart = sqrt(squaredLength(predicted - should) + fapeEps);
  return {sum(weight * (clamped * min(apart, farthest) + (1 - clamped) * apart))};
}

} // namespace

Tensor fape(const PointsInFrames& predicted, const PointsInFrames& truth, const Tensor& frameMask,
            const Tensor& pointMask, const Tensor& clamped) {
  constexpr double unit = 10;
  static const FusedFunction errors(32, &errorsOf, nullptr, {.name = "frame_aligned_errors"});
  std::vector<std::int64_t> sizes = predicted.frames.translation.sizes().vec();
  sizes.back() = pointMask.size(0);
  Arguments all;
  all.add((frameMask.unsqueeze(-1) * pointMask).expand(sizes));
  all.add(clamped.defined() ? clamped : at::ones({}, pointMask.options()));
  all.addRows(predicted.frames);
  all.addColumns(predicted.points);
  all.addRows(Rigid{truth.frames.rotation.expand_as(predicted.frames.rotation),
                    truth.frames.translation.expand_as(predicted.frames.translation)});
  all.addColumns(truth.points.expand_as(predicted.points));
  const Tensor pairs = frameMask.sum() * pointMask.sum();
  return all.call(errors)[0].sum({-1, -2}) / (unit * (pairs + fapeEps));
}

} // namespace kiln::alphafold
