// See Model.h.
#include "models/lm/Model.h"

#include "codegen/backend/Fail.h"
#include "models/lm/Recompute.h"

namespace kiln::lm {

using at::Tensor;

namespace {

/// In place, from the normal distribution cut at three standard deviations, by its inverse.
void drawNormal(Tensor weight, double deviation) {
  const torch::NoGradGuard constant;
  const double edge = std::erf(3 / std::sqrt(2.0));
  weight.uniform_(-edge, edge).erfinv_().mul_(deviation * std::sqrt(2.0));
}

torch::nn::Linear linear(std::int64_t in, std::int64_t out) {
  torch::nn::Linear made(torch::nn::LinearOptions(in, out).bias(false));
  drawNormal(made->weight, std::sqrt(2.0 / double(in + out)));
  return made;
}

} // namespace

AttentionImpl::AttentionImpl(const ModelConfig& config)
    : heads(config.heads), q(register_module("q_proj", linear(config.width, config.width))),
      k(register_module("k_proj", linear(config.width, config.width))),
      v(register_module("v_proj", linear(config.width, config.width))),
      output(register_module("output_proj", linear(config.width, config.width))) {}

Tensor AttentionImpl::forward(const Tensor& x, const Tensor& rotations) {
  auto split = [&](const Tensor& all) { // [batch, heads, length, size]
    return all.unflatten(-1, {heads, -1}).transpose(1, 2);
  };
  const Tensor y = at::scaled_dot_product_attention(
      rotate(split(q(x)), rotations), rotate(split(k(x)), rotations), split(v(x)),
      /*attn_mask=*/{}, /*dropout_p=*/0.0, /*is_causal=*/true);
  return output(y.transpose(1, 2).flatten(-2));
}

FeedForwardImpl::FeedForwardImpl(const ModelConfig& config)
    : w1(register_module("w1", linear(config.width, config.hidden))),
      w2(register_module("w2", linear(config.hidden, config.width))),
      w3(register_module("w3", linear(config.width, config.hidden))) {}

Tensor FeedForwardImpl::forward(const Tensor& x) {
  return w2(swiglu(w1(x), w3(x)));
}

BlockImpl::BlockImpl(const ModelConfig& config)
    : ln1(register_module("ln1", RmsNorm(config.width))),
      ln2(register_module("ln2", RmsNorm(config.width))),
      attn(register_module("attn", Attention(config))),
      ffn(register_module("ffn", FeedForward(config))) {}

Tensor BlockImpl::forward(const Tensor& x, const Tensor& rotations) {
  const Tensor y = x + attn(ln1(x), rotations);
  return y + ffn(ln2(y));
}

TransformerImpl::TransformerImpl(const ModelConfig& config)
    : config(config),
      embeddings(register_module("token_embeddings",
                                 torch::nn::Embedding(config.vocabulary, config.width))),
      layers(register_module("layers", torch::nn::ModuleList())),
      norm(register_module("ln_final", RmsNorm(config.width))),
      turns(register_buffer("rotations", rotations(config.context, config.width / config.heads))) {
  config.check();
  drawNormal(embeddings->weight, 1);
  for (std::int64_t i = 0; i < config.layers; ++i)
    layers->push_back(Block(config));
  head = register_module("lm_head", linear(config.width, config.vocabulary));
}

Tensor TransformerImpl::forward(const Tensor& tokens) {
  const std::int64_t length = tokens.size(-1);
  if (length > config.context)
    fail(ErrorKind::input, "{} tokens: the model looks at no more than {}", length, config.context);
  const Tensor positions = turns.slice(1, 0, length);
  Tensor x = embeddings(tokens);
  for (const auto& layer : *layers) {
    auto& block = *layer->as<Block>();
    if (recompute && at::GradMode::is_enabled())
      x = recomputed([&block, positions](const Tensor& in) { return block.forward(in, positions); },
                     x, block.parameters());
    else
      x = block.forward(x, positions);
  }
  return head(norm(x));
}

} // namespace kiln::lm
