// The parts of a transformer that Kiln may make faster: norm, gate, positions and loss. The one
// place where is chosen what computes them: LibTorch's own ops, which kiln::enable() takes over, or
// Kiln's modules. Parameters have the same names and numbers either way. Attention is LibTorch's
// one op in both, taken over where Kiln is on.
#pragma once

#include <kiln/nn.h>
#include <torch/torch.h>

namespace kiln::lm {

struct Parts {
  bool modules = false; // Kiln's
  /// What products read under autocast. Kiln's modules write it at once.
  std::optional<at::ScalarType> products{};
};

/// A product with a matrix: [..., in] -> [..., out]. Parameter: weight, [out, in].
struct LinearImpl : torch::nn::LinearImpl {
  LinearImpl(std::int64_t in, std::int64_t out);
  at::Tensor forward(const at::Tensor& x);
  const at::Tensor& read() const { return copy.defined() ? copy : weight; }

  /// The weight in another dtype, a leaf that is read, and gets the gradient, instead; undefined:
  /// there is none. Whoever changes the weight keeps it up to date.
  at::Tensor copy;
};
TORCH_MODULE(Linear);

/// The residual stream between two layers, and what the last one adds to it; undefined: nothing.
struct Stream {
  at::Tensor sum, added;

  at::Tensor total() const { return added.defined() ? sum + added : sum; }
};

/// norm(total), total, where norm is x / sqrt(mean(x^2) + eps) * weight over the last dimension.
/// Zhang, Sennrich 2019.
struct RmsNormImpl : nn::AddRMSNormImpl {
  RmsNormImpl(std::int64_t width, const Parts& parts, double eps = 1e-5);
  std::tuple<at::Tensor, at::Tensor> forward(const Stream& stream);

  bool modules;
};
TORCH_MODULE(RmsNorm);

/// silu(gate x) * (up x). Shazeer 2020.
at::Tensor swiglu(const at::Tensor& x, Linear gate, Linear up, const Parts& parts);

/// Rotary positions: position p turns pair i, (x0, x1), (x2, x3), ..., by p * 10000^(-2i / size).
/// Su et al. 2021. What turnsOf() needs for as many positions as there are along dimension 0.
at::Tensor rotations(std::int64_t context, std::int64_t size, const Parts& parts);
/// How the tokens of a batch are turned.
struct Turns {
  at::Tensor rotations;     // of each place of a sequence
  at::Tensor forward, back; // positions of all tokens, [N, 1, 1], and what takes them back: Kiln's
};
Turns turnsOf(const at::Tensor& rotations, std::int64_t batch, const Parts& parts);

/// Queries and keys, turned, and values of x [batch, length, width]: [batch, heads, length, size].
std::array<at::Tensor, 3> queriesKeysValues(const at::Tensor& x, std::array<Linear, 3> matrices,
                                            std::int64_t heads, const Turns& turns,
                                            const Parts& parts);

/// Mean cross-entropy of logits [rows, vocabulary] and int64 targets [rows].
at::Tensor crossEntropy(const at::Tensor& logits, const at::Tensor& targets,
                        const Parts& parts = {});

} // namespace kiln::lm
