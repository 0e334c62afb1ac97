// See ByTorch.h.
#include "runtime/optim/ByTorch.h"

#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>

namespace kiln::optim {

static at::Tensor normOf(const StepOf& step) {
  std::vector<at::Tensor> norms;
  for (const Entry& entry : step.entries) {
    const at::Tensor& grad = entry.grad;
    const auto wide = grad.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    norms.push_back(at::linalg_vector_norm(grad, 2, std::nullopt, false, wide)
                        .to(step.entries.front().grad.device()));
  }
  at::Tensor norm = at::linalg_vector_norm(at::stack(norms));
  return step.unscale.defined() ? norm.mul(step.unscale.to(norm.device())) : norm;
}

PreparedGradients::PreparedGradients(const StepOf& step) {
  at::Tensor scale = step.unscale;
  if (step.maxNorm > 0) {
    norm = normOf(step);
    const at::Tensor clip = norm.add(1e-6).reciprocal().mul(step.maxNorm).clamp_max(1.0);
    scale = scale.defined() ? scale.to(clip.device()).mul(clip) : clip;
  }
  for (const Entry& entry : step.entries) {
    at::Tensor grad = entry.grad.to(entry.param.scalar_type());
    if (scale.defined())
      grad = grad.mul(scale.to(grad.device()));
    if (grad.is_same(entry.param.grad()))
      continue;
    before.emplace_back(entry.param, entry.param.grad());
    before.back().first.mutable_grad() = grad;
  }
}

PreparedGradients::~PreparedGradients() {
  for (auto& [param, grad] : before)
    param.mutable_grad() = grad;
}

void writeCopies(const StepOf& step) {
  for (const Entry& entry : step.entries) {
    if (entry.copy.defined())
      entry.copy.copy_(entry.param);
    if (entry.ema.defined())
      entry.ema.lerp_(entry.param, 1 - step.emaDecay);
  }
}

} // namespace kiln::optim
