// See Lddt.h.
#include "models/alphafold/losses/Lddt.h"

#include "models/alphafold/model/Coordinates.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace kiln::alphafold {

using at::Tensor;

namespace {

/// Of weights, points and what they should be: a row's weight, and the share of it that is right.
std::vector<Expr> distancesRight(const void*, const std::vector<Expr>& all) {
  constexpr double cutoff = 15;
  Operands next(all);
  const Expr weight = next.number();
  const Expr found = next.distanceOfPair(), should = next.distanceOfPair(),
             off = abs(should - found);
  const Expr counted = where(should < cutoff, weight, 0);
  const auto within = [&](double threshold) { return where(off < threshold, 0.25, 0); };
  return {sum(counted), sum(counted * (within(0.5) + within(1) + within(2) + within(4)))};
}

} // namespace

Tensor lddt(const Tensor& positions, const Tensor& truth, const Tensor& mask) {
  const at::NoGradGuard constant;
  constexpr double eps = 1e-10;
  static const FusedFunction counts(13, &distancesRight, nullptr, {.name = "distances_right"});
  const Tensor others = 1 - at::eye(mask.size(0), mask.options());
  Arguments all;
  all.add(mask.unsqueeze(1) * mask * others);
  all.addPairs(positions);
  all.addPairs(truth);
  const std::vector<Tensor> found = all.call(counts);
  return ((found[1] + eps) / (found[0] + eps)).squeeze(-1);
}

} // namespace kiln::alphafold
