// What all modules are made of: linear maps with their first weights, LayerNorm, gates, what
// dropout scales by, and the scope in which bf16 is off.
#pragma once

#include "models/common/Precision.h"

#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/pimpl.h>

namespace kiln::alphafold {

/// First weights, section 1.11.4 of the supplement. Biases are zero but for gates.
enum class Init {
  lecun,  // normal, cut at two deviations, variance 1 / in
  he,     // the same, variance 2 / in: in front of a ReLU
  glorot, // uniform: queries, keys and values
  normal, // variance 1 / in: biases of attention
  gate,   // zero, and one for the bias: open
  zero    // what is added to a residual stream
};

/// [..., in] -> [..., out]. Parameters: weight [out, in], bias [out].
struct LinearImpl : torch::nn::Module {
  LinearImpl(std::int64_t in, std::int64_t out, Init init = Init::lecun, bool hasBias = true);
  at::Tensor forward(const at::Tensor& x);

  at::Tensor weight, bias;
};
TORCH_MODULE(Linear);

/// Over the last dimension. Parameters: weight, bias. Under autocast to bf16 the result
/// is in bf16, as the products read it that follow all of these norms, and is made in one pass.
struct LayerNormImpl : torch::nn::Module {
  static constexpr double eps = 1e-5;
  explicit LayerNormImpl(std::int64_t width);
  at::Tensor forward(const at::Tensor& x);

  at::Tensor weight, bias;
};
TORCH_MODULE(LayerNorm);

/// What the updates of a stream are scaled by in training, so that a share of them is dropped and
/// the rest scaled up; of sizes that are 1 where updates share what is dropped. All are drawn at
/// once. None are defined in evaluation or for a share of 0: nothing is dropped.
std::vector<at::Tensor> drawScales(const at::TensorOptions& options, double share, bool training,
                                   const std::vector<std::vector<std::int64_t>>& sizes);

/// For a scope, what is computed on x's device is computed in the dtypes of its operands.
class FullPrecision {
 public:
  explicit FullPrecision(const at::Tensor& x);

 private:
  models::Autocast off;
};
/// In fp32 if it is bf16 or fp16.
at::Tensor full(const at::Tensor& x);

/// Masks [..., rows] are 1 where a tensor [..., rows, channels] holds something, and 0 elsewhere.
/// They may be undefined: everything is there.
at::Tensor masked(const at::Tensor& x, const at::Tensor& mask);
/// Zero where mask is 1, and minus `infinity` where it is 0: to be added to logits.
at::Tensor maskBias(const at::Tensor& mask, double infinity = 1e9);

/// One-hot over bins by squared distances: [..., 3] points against each other, [R, R, bins]; none
/// below `from`. Bins are of equal width but for the last, which has no end. Algorithm 32.
at::Tensor distanceBins(const at::Tensor& points, double from, double to, std::int64_t bins);

} // namespace kiln::alphafold
