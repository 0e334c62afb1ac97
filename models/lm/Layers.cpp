// See Layers.h.
#include "models/lm/Layers.h"

namespace kiln::lm {

using at::Tensor;

RmsNormImpl::RmsNormImpl(std::int64_t width, double eps)
    : weight(register_parameter("weight", torch::ones({width}))), eps(eps) {}

Tensor RmsNormImpl::forward(const Tensor& x) {
  return at::rms_norm(x, weight.sizes(), weight, eps);
}

Tensor swiglu(const Tensor& gate, const Tensor& up) {
  return at::silu(gate) * up;
}

Tensor rotations(std::int64_t context, std::int64_t size) {
  const Tensor powers = torch::arange(0, size, 2, torch::kDouble) / double(size);
  const Tensor angles =
      torch::arange(context, torch::kDouble).unsqueeze(1) * at::pow(10000.0, -powers).unsqueeze(0);
  return at::stack({angles.cos(), angles.sin()}).to(torch::kFloat);
}

Tensor rotate(const Tensor& x, const Tensor& rotations) {
  const Tensor pairs = x.unflatten(-1, {-1, 2});
  const Tensor even = pairs.select(-1, 0), odd = pairs.select(-1, 1);
  const Tensor cosine = rotations[0], sine = rotations[1];
  return at::stack({even * cosine - odd * sine, even * sine + odd * cosine}, -1)
      .flatten(-2)
      .to(x.scalar_type());
}

Tensor crossEntropy(const Tensor& logits, const Tensor& targets) {
  return at::cross_entropy_loss(logits, targets);
}

} // namespace kiln::lm
