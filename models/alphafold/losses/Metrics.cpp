// See Metrics.h.
#include "models/alphafold/losses/Metrics.h"

#include "models/alphafold/losses/Lddt.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <array>

namespace kiln::alphafold {

using at::Tensor;

Tensor superposed(const Tensor& positions, const Tensor& truth, const Tensor& mask) {
  const at::NoGradGuard constant;
  const Tensor weights = mask.to(at::kDouble).unsqueeze(-1);
  const auto centred = [&](const Tensor& points) {
    const Tensor all = points.to(at::kDouble);
    const Tensor center = (all * weights).sum(0) / weights.sum();
    return std::pair(all - center, center);
  };
  const auto [from, fromCenter] = centred(positions);
  const auto [to, toCenter] = centred(truth);
  const auto [u, s, vt] = at::linalg_svd(at::matmul((from * weights).t(), to));
  const Tensor sign = at::linalg_det(at::matmul(u, vt)); // -1: the best would be a reflection
  const Tensor flips = at::cat({at::ones({2}, sign.options()), sign.sign().view({1})});
  return (at::matmul(from, at::matmul(u * flips, vt)) + toCenter).to(positions.scalar_type());
}

Metrics metrics(const Tensor& positions, const Tensor& truth, const Tensor& mask) {
  const at::NoGradGuard constant;
  const auto mean = [&](const Tensor& values) { return (values * mask).sum() / mask.sum(); };
  const auto distances = [](const Tensor& points) {
    return (points.unsqueeze(1) - points.unsqueeze(0)).square().sum(-1).sqrt();
  };
  const Tensor pairs = mask.unsqueeze(1) * mask.unsqueeze(0);
  const Tensor off = (distances(positions) - distances(truth)).square() * pairs;
  const Tensor count = mask.sum() * (mask.sum() - 1);
  const Tensor apart = (superposed(positions, truth, mask) - truth).square().sum(-1).sqrt();
  const auto gdt = [&](const std::array<double, 4>& thresholds) {
    Tensor sum = at::zeros_like(apart);
    for (const double threshold : thresholds)
      sum += 0.25 * (apart <= threshold);
    return mean(sum);
  };
  return {mean(lddt(positions, truth, mask)), (off.sum() / count).sqrt(), gdt({1, 2, 4, 8}),
          gdt({0.5, 1, 2, 4})};
}

} // namespace kiln::alphafold
