// See Lddt.h.
#include "models/alphafold/losses/Lddt.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace kiln::alphafold {

using at::Tensor;

Tensor lddt(const Tensor& positions, const Tensor& truth, const Tensor& mask) {
  const at::NoGradGuard constant;
  constexpr double cutoff = 15, eps = 1e-10;
  const auto distances = [](const Tensor& points) {
    return at::sqrt((points.unsqueeze(1) - points.unsqueeze(0)).square().sum(-1) + 1e-10);
  };
  const Tensor should = distances(truth), off = at::abs(should - distances(positions));
  const Tensor others = 1 - at::eye(mask.size(0), mask.options());
  const Tensor counted = (should < cutoff) * mask.unsqueeze(1) * mask * others;
  Tensor score = at::zeros_like(off);
  for (const double threshold : {0.5, 1.0, 2.0, 4.0})
    score += 0.25 * (off < threshold);
  return ((counted * score).sum(-1) + eps) / (counted.sum(-1) + eps);
}

} // namespace kiln::alphafold
