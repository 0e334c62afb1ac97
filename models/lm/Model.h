// A pre-norm transformer language model as torch::nn modules: rotary positions, SwiGLU, RMSNorm, an
// untied head. Names of parameters are those of CS336's BasicsTransformerLM:
//   token_embeddings.weight, layers.N.attn.{q,k,v,output}_proj.weight,
//   layers.N.ffn.w{1,2,3}.weight, layers.N.ln{1,2}.weight, ln_final.weight, lm_head.weight
#pragma once

#include "models/lm/Config.h"
#include "models/lm/Layers.h"

#include <functional>
#include <torch/torch.h>

namespace kiln::lm {

/// Causal self-attention over [batch, length, width].
struct AttentionImpl : torch::nn::Module {
  AttentionImpl(const ModelConfig& config, const Parts& parts);
  at::Tensor forward(const at::Tensor& x, const Turns& turns);

  std::int64_t heads;
  Parts parts;
  Linear q{nullptr}, k{nullptr}, v{nullptr}, output{nullptr};
};
TORCH_MODULE(Attention);

/// w2(swiglu(w1 x, w3 x))
struct FeedForwardImpl : torch::nn::Module {
  FeedForwardImpl(const ModelConfig& config, const Parts& parts);
  at::Tensor forward(const at::Tensor& x);

  Parts parts;
  Linear w1{nullptr}, w2{nullptr}, w3{nullptr};
};
TORCH_MODULE(FeedForward);

struct BlockImpl : torch::nn::Module {
  BlockImpl(const ModelConfig& config, const Parts& parts);
  Stream forward(const Stream& in, const Turns& turns);

  RmsNorm ln1, ln2;
  Attention attn;
  FeedForward ffn;
};
TORCH_MODULE(Block);

struct TransformerImpl : torch::nn::Module {
  /// Weights are drawn from torch's generator: normal, cut at three deviations.
  explicit TransformerImpl(const ModelConfig& config, const Parts& parts = {});
  /// int64 [batch, length <= context] -> logits [batch, length, vocabulary]
  at::Tensor forward(const at::Tensor& tokens);
  /// What its blocks are given for these tokens.
  Turns turnsOf(const at::Tensor& tokens) const;

  ModelConfig config;
  Parts parts;
  /// Called before a part of the model reads its parameters: who brings them waits here.
  std::function<void(const torch::nn::Module&)> before;
  bool recompute = false; // keep only what enters a block, and compute it again in the backward
  torch::nn::Embedding embeddings;
  torch::nn::ModuleList layers;
  RmsNorm norm;
  Linear head{nullptr};
  at::Tensor places; // see rotations()
};
TORCH_MODULE(Transformer);

} // namespace kiln::lm
