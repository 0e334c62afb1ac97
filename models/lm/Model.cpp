// See Model.h.
#include "models/lm/Model.h"

#include "models/common/Draw.h"
#include "models/common/Fail.h"
#include "models/common/Recompute.h"

namespace kiln::lm {

using at::Tensor;

/// All that a module computes with and that has gradients: parameters, or their copies.
static std::vector<Tensor> leavesOf(const torch::nn::Module& module) {
  std::vector<Tensor> leaves = module.parameters();
  for (const auto& part : module.modules())
    if (const auto* linear = part->as<LinearImpl>(); linear && linear->copy.defined())
      leaves.push_back(linear->copy);
  return leaves;
}

AttentionImpl::AttentionImpl(const ModelConfig& config, const Parts& parts)
    : heads(config.heads), parts(parts),
      q(register_module("q_proj", Linear(config.width, config.width))),
      k(register_module("k_proj", Linear(config.width, config.width))),
      v(register_module("v_proj", Linear(config.width, config.width))),
      output(register_module("output_proj", Linear(config.width, config.width))) {}

Tensor AttentionImpl::forward(const Tensor& x, const Turns& turns) {
  const auto [queries, keys, values] = queriesKeysValues(x, {q, k, v}, heads, turns, parts);
  const Tensor y = at::scaled_dot_product_attention(queries, keys, values, /*attn_mask=*/{},
                                                    /*dropout_p=*/0.0, /*is_causal=*/true);
  return output(y.transpose(1, 2).flatten(-2));
}

FeedForwardImpl::FeedForwardImpl(const ModelConfig& config, const Parts& parts)
    : parts(parts), w1(register_module("w1", Linear(config.width, config.hidden))),
      w2(register_module("w2", Linear(config.hidden, config.width))),
      w3(register_module("w3", Linear(config.width, config.hidden))) {}

Tensor FeedForwardImpl::forward(const Tensor& x) {
  return w2(swiglu(x, w1, w3, parts));
}

BlockImpl::BlockImpl(const ModelConfig& config, const Parts& parts)
    : ln1(register_module("ln1", RmsNorm(config.width, parts))),
      ln2(register_module("ln2", RmsNorm(config.width, parts))),
      attn(register_module("attn", Attention(config, parts))),
      ffn(register_module("ffn", FeedForward(config, parts))) {}

Stream BlockImpl::forward(const Stream& in, const Turns& turns) {
  const auto [x, before] = ln1(in);
  const auto [y, between] = ln2(Stream{before, attn(x, turns)});
  return {between, ffn(y)};
}

TransformerImpl::TransformerImpl(const ModelConfig& config, const Parts& parts)
    : config(config), parts(parts),
      embeddings(register_module("token_embeddings",
                                 torch::nn::Embedding(config.vocabulary, config.width))),
      layers(register_module("layers", torch::nn::ModuleList())),
      norm(register_module("ln_final", RmsNorm(config.width, parts))),
      places(register_buffer("rotations",
                             rotations(config.context, config.width / config.heads, parts))) {
  config.check();
  drawNormal(embeddings->weight, 1);
  for (std::int64_t i = 0; i < config.layers; ++i)
    layers->push_back(Block(config, parts));
  head = register_module("lm_head", Linear(config.width, config.vocabulary));
}

Turns TransformerImpl::turnsOf(const Tensor& tokens) const {
  const std::int64_t length = tokens.size(-1);
  return lm::turnsOf(places.slice(0, 0, length), length == 0 ? 0 : tokens.numel() / length, parts);
}

Tensor TransformerImpl::forward(const Tensor& tokens) {
  const std::int64_t length = tokens.size(-1);
  if (length > config.context)
    fail(ErrorKind::input, "{} tokens: the model looks at no more than {}", length, config.context);
  const Turns turns = turnsOf(tokens);
  const auto reads = [&](const torch::nn::Module& part) {
    if (before)
      before(part);
  };
  reads(*embeddings);
  Stream stream{embeddings(tokens), {}};
  for (const auto& layer : *layers) {
    auto& block = *layer->as<Block>();
    reads(block);
    if (recompute && at::GradMode::is_enabled())
      stream = {recomputed(
                    [&block, turns](const Tensors& in) {
                      return Tensors{block.forward({in[0], {}}, turns).total()};
                    },
                    {stream.sum}, leavesOf(block))[0],
                {}};
    else
      stream = block.forward(stream, turns);
  }
  reads(*norm);
  reads(*head);
  return head(std::get<0>(norm(stream)));
}

} // namespace kiln::lm
