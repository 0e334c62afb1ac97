// The parts of a transformer that Kiln may make faster: norm, gate, positions and loss. The one
// place where their modules are chosen; on LibTorch's own ops, which kiln::enable() takes over.
#pragma once

#include <torch/torch.h>

namespace kiln::lm {

/// y = x / sqrt(mean(x^2) + eps) * weight over the last dimension. Zhang, Sennrich 2019.
struct RmsNormImpl : torch::nn::Module {
  explicit RmsNormImpl(std::int64_t width, double eps = 1e-5);
  at::Tensor forward(const at::Tensor& x);

  at::Tensor weight;
  double eps;
};
TORCH_MODULE(RmsNorm);

/// silu(gate) * up. Shazeer 2020.
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);

/// Cosines and sines of rotary positions, [2, context, size / 2] fp32: position p turns pair i by
/// p * 10000^(-2i / size). Su et al. 2021.
at::Tensor rotations(std::int64_t context, std::int64_t size);
/// x [..., length, size] with each pair (x0, x1), (x2, x3), ... turned; in x's dtype.
at::Tensor rotate(const at::Tensor& x, const at::Tensor& rotations);

/// Mean cross-entropy of logits [rows, vocabulary] and int64 targets [rows].
at::Tensor crossEntropy(const at::Tensor& logits, const at::Tensor& targets);

} // namespace kiln::lm
