// Modules of fused kernels, with the names that torch gives to parameters, and to_kiln(), which
// puts them into containers of a model that is there.
//
//   kiln::nn::AddRMSNorm norm(640);
//   auto [y, sum] = norm->forward(x, residual); // y = norm(x + residual), in one pass
//
// They run as kiln::fuse says (kiln/fuse.h): kernels for fp32, bf16 and fp16 on a GPU, with weights
// of whatever of these, so that fp32 weights need no cast beside bf16 activations; op by op on ATen
// elsewhere. Results have the dtype of the activations. x: [..., width], any number of rows.
// Errors are kiln::Error(input), with the shapes.
#pragma once

#include "kiln/fuse.h"

#include <optional>
#include <torch/nn/cloneable.h>
#include <torch/nn/modules/common.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

namespace kiln::runtime {
struct AttentionTensors;
}

namespace kiln::nn {

struct NormOptions {
  double eps = 1e-5;
  bool affine = true; // with weight, and bias where the norm has one
  bool bias = true;
  /// Of what is normalized; none: that of the activations. bf16 beside a residual stream in fp32:
  /// what products under autocast read.
  std::optional<at::ScalarType> dtype{};
};

/// (x - mean) / sqrt(variance + eps) weight + bias, over the last dimensions. Ba et al. (2016).
/// Parameters: weight, bias, of the normalized shape.
class KILN_API LayerNormImpl : public torch::nn::Cloneable<LayerNormImpl> {
 public:
  explicit LayerNormImpl(std::vector<std::int64_t> normalizedShape,
                         const NormOptions& options = {});
  explicit LayerNormImpl(std::int64_t width, const NormOptions& options = {})
      : LayerNormImpl(std::vector{width}, options) {}
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  at::Tensor forward(const at::Tensor& x);
  /// Takes these tensors for its parameters, shared with whoever has them.
  void use(const at::Tensor& sharedWeight, const at::Tensor& sharedBias);

  std::vector<std::int64_t> normalizedShape;
  NormOptions options;
  at::Tensor weight, bias;
};
TORCH_MODULE(LayerNorm);

/// x / sqrt(mean(x^2) + eps) weight. Zhang, Sennrich (2019). Parameter: weight, [width].
class KILN_API RMSNormImpl : public torch::nn::Cloneable<RMSNormImpl> {
 public:
  explicit RMSNormImpl(std::int64_t width, const NormOptions& options = {.eps = 1e-6});
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  at::Tensor forward(const at::Tensor& x);

  std::int64_t width;
  NormOptions options;
  at::Tensor weight;
};
TORCH_MODULE(RMSNorm);

/// The sum of a residual stream and what is added to it, and its norm, in one pass each way.
/// `forward(x, residual)`: norm(x + residual), x + residual; without a residual, where a stream
/// begins, norm(x), x. Parameters as those of the norms.
class KILN_API AddLayerNormImpl : public torch::nn::Cloneable<AddLayerNormImpl> {
 public:
  explicit AddLayerNormImpl(std::int64_t width, const NormOptions& options = {});
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  std::tuple<at::Tensor, at::Tensor> forward(const at::Tensor& x, const at::Tensor& residual = {});

  std::int64_t width;
  NormOptions options;
  at::Tensor weight, bias;
};
TORCH_MODULE(AddLayerNorm);

class KILN_API AddRMSNormImpl : public torch::nn::Cloneable<AddRMSNormImpl> {
 public:
  explicit AddRMSNormImpl(std::int64_t width, const NormOptions& options = {.eps = 1e-6});
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  std::tuple<at::Tensor, at::Tensor> forward(const at::Tensor& x, const at::Tensor& residual = {});

  std::int64_t width;
  NormOptions options;
  at::Tensor weight;
};
TORCH_MODULE(AddRMSNorm);

/// silu(gate) * x. Shazeer (2020).
KILN_API at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& x);

/// The feed-forward block w2(silu(w1 x) * w3 x) without biases. Parameters: w1.weight and
/// w3.weight, [hidden, width], w2.weight, [width, hidden].
class KILN_API SwiGLUImpl : public torch::nn::Cloneable<SwiGLUImpl> {
 public:
  SwiGLUImpl(std::int64_t width, std::int64_t hidden);
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  at::Tensor forward(const at::Tensor& x);

  std::int64_t width, hidden;
  torch::nn::Linear w1 = nullptr, w2 = nullptr, w3 = nullptr;
};
TORCH_MODULE(SwiGLU);

/// residual + dropout(y + bias), in one pass; without the dropout while evaluating. `bias`:
/// [width].
class KILN_API DropoutAddImpl : public torch::nn::Cloneable<DropoutAddImpl> {
 public:
  explicit DropoutAddImpl(double p = 0.5);
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  at::Tensor forward(const at::Tensor& y, const at::Tensor& residual, const at::Tensor& bias = {});

  double p;
};
TORCH_MODULE(DropoutAdd);

/// The cross-entropy of logits [..., classes] and class indices [...], int64 or int32. Averaged
/// over the indices that are not ignored (NaN if all are), added up, or for each, fp32. Nothing of
/// the size of the logits is kept but these. Classes are the last dimension, and at least 2.
class KILN_API CrossEntropyImpl : public torch::nn::Cloneable<CrossEntropyImpl> {
 public:
  enum class Reduction { none, mean, sum };
  explicit CrossEntropyImpl(const CrossEntropyForm& form = {},
                            Reduction reduction = Reduction::mean);
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  at::Tensor forward(const at::Tensor& logits, const at::Tensor& target);

  CrossEntropyForm form;
  Reduction reduction;
};
TORCH_MODULE(CrossEntropy);

struct AttentionOptions {
  double dropout = 0; // of attention weights, while training
  bool bias = true;   // of the projections
  bool batchFirst = false;
  std::int64_t kdim = 0; // width of keys and of values; 0: the embedding's
  std::int64_t vdim = 0;
};

/// Attention of several heads: Kiln's kernels where kiln::enable() is on and they take the call,
/// else ATen's scaled_dot_product_attention. Parameters as torch's: in_proj_weight [3 embed, embed]
/// (or, with other widths, q_proj_weight, k_proj_weight and v_proj_weight), in_proj_bias [3 embed],
/// out_proj.weight, out_proj.bias. Vaswani et al. (2017). `forward` takes query [L, N, embed], key
/// and value [S, N, ...], or batch first, or without N. keyPaddingMask: [N, S]; attnMask: [L, S] or
/// [N heads, L, S]; bool masks are true where a place must not be looked at, others are added. A
/// causal call sees keys no later than the query, masks or not. A query that sees no key gets zeros
/// of Kiln. The second result, attention weights, is undefined.
class KILN_API MultiheadAttentionImpl : public torch::nn::Cloneable<MultiheadAttentionImpl> {
 public:
  MultiheadAttentionImpl(std::int64_t embedDim, std::int64_t heads,
                         const AttentionOptions& options = {});
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  std::tuple<at::Tensor, at::Tensor>
  forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
          const at::Tensor& keyPaddingMask = {}, bool needWeights = false,
          const at::Tensor& attnMask = {}, bool isCausal = false);

  std::int64_t embedDim, heads;
  AttentionOptions options;
  at::Tensor in_proj_weight, in_proj_bias;                // NOLINT(readability-identifier-naming)
  at::Tensor q_proj_weight, k_proj_weight, v_proj_weight; // NOLINT(readability-identifier-naming)
  torch::nn::Linear out_proj = nullptr;                   // NOLINT(readability-identifier-naming)

 private:
  std::array<at::Tensor, 3> project(const at::Tensor& query, const at::Tensor& key,
                                    const at::Tensor& value) const;
  void addMasks(runtime::AttentionTensors& all, const at::Tensor& keyPaddingMask,
                const at::Tensor& attnMask) const;
};
TORCH_MODULE(MultiheadAttention);

/// softmax(q k / sqrt(d) + bias) v where mask is true: query [..., Q, d], key [..., K, d], value
/// [..., K, dv], mask, bool, and bias broadcast to [..., Q, K], with the gradients of all that are
/// floats. ATen's scaled_dot_product_attention takes one of mask and bias; this takes both, so that
/// a bias that many rows share is not made anew for each. Kiln's kernels where kiln::enable() is on
/// and they take the call, else ATen's. A query that sees no key gets zeros of Kiln.
KILN_API at::Tensor attention(const at::Tensor& query, const at::Tensor& key,
                              const at::Tensor& value, const at::Tensor& mask = {},
                              const at::Tensor& bias = {});

/// x * sigmoid(gate + bias), in one pass. x, gate: [..., width]; bias: [width].
KILN_API at::Tensor sigmoidGate(const at::Tensor& x, const at::Tensor& gate,
                                const at::Tensor& bias);

struct GatedAttentionOptions {
  std::int64_t keyWidth = 0;    // of what keys and values are made from; 0: the query's
  std::int64_t headWidth = 0;   // 0: the query's width by the heads
  std::int64_t outputWidth = 0; // 0: the query's
  bool zeroOutput = true;       // output.weight begins with zeros, as AlphaFold's; else Glorot's
};

/// Gated attention with an additive pair bias: output(sigmoid(gate x) * softmax(q k / sqrt(c) + b)
/// v). Jumper et al., AlphaFold (2021), supplement, algorithms 7, 8, 13, 14 without their norm and
/// the product that makes the bias. Parameters: query.weight, key.weight, value.weight, gate.weight
/// (zeros), gate.bias (ones), output.weight, output.bias (zeros).
/// `forward` takes x [..., Q, width], y [..., K, keyWidth] with as many dimensions, of any number;
/// mask, bool [..., K]: true where a key is seen, undefined: everywhere; bias, added to the scores,
/// broadcast to [..., heads, Q, K], for instance [1, heads, Q, K] for all rows of an alignment,
/// with its gradient. It returns [..., Q, outputWidth]; a query that sees no key gets output.bias
/// of Kiln.
class KILN_API GatedAttentionImpl : public torch::nn::Cloneable<GatedAttentionImpl> {
 public:
  GatedAttentionImpl(std::int64_t width, std::int64_t heads,
                     const GatedAttentionOptions& options = {});
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  at::Tensor forward(const at::Tensor& x, const at::Tensor& y, const at::Tensor& mask = {},
                     const at::Tensor& bias = {});

  std::int64_t width, heads;
  GatedAttentionOptions options;
  torch::nn::Linear query = nullptr, key = nullptr, value = nullptr, gate = nullptr,
                    output = nullptr;
};
TORCH_MODULE(GatedAttention);

struct LSTMOptions {
  std::int64_t layers = 1;
  bool bias = true;
  bool batchFirst = false;
  double dropout = 0; // of what goes from one layer to the next, while training
  bool bidirectional = false;
};

/// Long short-term memory. Parameters as torch's: weight_ih_l0 [4 hidden, input], weight_hh_l0
/// [4 hidden, hidden], bias_ih_l0, bias_hh_l0 [4 hidden], then _l0_reverse, _l1, ... The inputs of
/// all steps are one product; a step is a product and a kernel, forward and backward. Neither
/// packed sequences nor projections. Hochreiter, Schmidhuber (1997); Gers et al. (2000).
/// `forward` takes x [steps, batch, input], or batch first, and h and c [layers directions, batch,
/// hidden], zero if they are not given; it returns the h of the last layer [steps, batch,
/// directions hidden], likewise, and h and c of the last step.
class KILN_API LSTMImpl : public torch::nn::Cloneable<LSTMImpl> {
 public:
  using State = std::tuple<at::Tensor, at::Tensor>; // h and c
  LSTMImpl(std::int64_t inputSize, std::int64_t hiddenSize, const LSTMOptions& options = {});
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  std::tuple<at::Tensor, State> forward(const at::Tensor& x, std::optional<State> state = {});
  /// Takes the parameters of a module with the same names, shared with it.
  void use(const torch::nn::Module& other);

  std::int64_t inputSize, hiddenSize;
  LSTMOptions options;

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(std::optional<State>())})

 private:
  std::int64_t directions() const { return options.bidirectional ? 2 : 1; }
  State initial(const at::Tensor& x, const std::optional<State>& state) const;

  std::vector<at::Tensor> weights; // in the order of their names
};
TORCH_MODULE(LSTM);

} // namespace kiln::nn

namespace kiln {

/// Swaps what it can in the containers of `module`, and below: LayerNorms and LSTMs in Sequentials,
/// which call their modules whatever the type, become kiln::nn's and share the parameters. Members
/// that C++ code calls by their type cannot be swapped; kiln::enable() takes their ops instead.
/// Returns a line for each module that could be of concern: what became of it, or why nothing did.
// NOLINTNEXTLINE(readability-identifier-naming): as in Python
KILN_API std::string to_kiln(torch::nn::Module& module);

} // namespace kiln
