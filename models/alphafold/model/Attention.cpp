// See Attention.h.
#include "models/alphafold/model/Attention.h"

#include "kiln/nn.h"
#include "models/common/Products.h"

#include <ATen/ATen.h>

namespace kiln::alphafold {

using at::Tensor;
using models::Layout;
using models::Map;
using models::products;

namespace {

/// Of [B, heads, Q, D], scale 1 / sqrt(D), and a mask [B, K] of keys. Bias and queries have one
/// dtype, also under autocast.
Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
              const Tensor& bias) {
  const Tensor seen = mask.defined() ? (mask > 0.5).unsqueeze(1).unsqueeze(1) : mask;
  return nn::attention(q, k, v, seen, bias.defined() ? bias.to(q.scalar_type()) : bias);
}

} // namespace

AttentionImpl::AttentionImpl(const AttentionSizes& sizes)
    : heads(sizes.heads),
      q(register_module("linear_q", Linear(sizes.queries, sizes.heads * sizes.head, Init::glorot,
                                           /*hasBias=*/false))),
      k(register_module("linear_k", Linear(sizes.keys, sizes.heads * sizes.head, Init::glorot,
                                           /*hasBias=*/false))),
      v(register_module("linear_v", Linear(sizes.keys, sizes.heads * sizes.head, Init::glorot,
                                           /*hasBias=*/false))),
      output(register_module("linear_o", Linear(sizes.heads * sizes.head, sizes.out, Init::zero))) {
  if (sizes.gated)
    gate = register_module("linear_g", Linear(sizes.queries, sizes.heads * sizes.head, Init::gate));
}

Update AttentionImpl::ended(const Tensor& heard, const Tensor& gates) {
  const Tensor open = gate ? nn::sigmoidGate(heard, gates, gate->bias) : heard;
  return {products(open, {{output->weight}})[0], output->bias};
}

Update AttentionImpl::forward(const Tensor& x, const Attended& attended) {
  std::vector<Map> maps = {{q->weight}, {k->weight}, {v->weight}};
  if (gate)
    maps.push_back({gate->weight});
  if (attended.pairs)
    maps.push_back({attended.pairs->weight, {}, Layout::planes});
  const std::vector<Tensor> made = products(x, maps);
  const bool isTurned = attended.along == Along::columns;
  const auto turned = [&](const Tensor& byHead) { // [..., A, B, heads, head], or B before A
    return isTurned ? byHead.transpose(-4, -3) : byHead;
  };
  const auto split = [&](const Tensor& all) { // [..., batch, heads, rows, head]
    return turned(all.unflatten(-1, {heads, -1})).transpose(-3, -2);
  };
  Tensor bias = attended.pairs ? made.back() : attended.bias;
  if (isTurned && bias.defined())
    bias = bias.transpose(-2, -1);
  if (bias.defined() && bias.dim() > 3)
    bias = bias.transpose(0, 1).unsqueeze(1); // one for all rows of each [A, B]
  if (bias.defined())
    bias = bias.contiguous(); // kernels keep it in shared memory
  const Tensor mask =
      isTurned && attended.mask.defined() ? attended.mask.t().contiguous() : attended.mask;
  const Tensor heard = attend(split(made[0]), split(made[1]), split(made[2]), mask, bias);
  return ended(turned(heard.transpose(-3, -2)).flatten(-2), gate ? made[3] : Tensor());
}

Tensor AttentionImpl::between(const Tensor& x, const Tensor& keys, const Tensor& mask) {
  const auto split = [&](const Tensor& all) {
    return all.unflatten(-1, {heads, -1}).transpose(1, 2);
  };
  std::vector<Map> maps = {{q->weight}};
  if (gate)
    maps.push_back({gate->weight});
  const std::vector<Tensor> ofQueries = products(x, maps);
  const std::vector<Tensor> ofKeys = products(keys, {{k->weight}, {v->weight}});
  const Tensor heard =
      attend(split(ofQueries[0]), split(ofKeys[0]), split(ofKeys[1]), mask, Tensor());
  return ended(heard.transpose(1, 2).flatten(-2), gate ? ofQueries[1] : Tensor()).alone();
}

GlobalAttentionImpl::GlobalAttentionImpl(std::int64_t channels, std::int64_t heads,
                                         std::int64_t head)
    : heads(heads), q(register_module("linear_q", Linear(channels, heads * head, Init::glorot,
                                                         /*hasBias=*/false))),
      k(register_module("linear_k", Linear(channels, head, Init::glorot, /*hasBias=*/false))),
      v(register_module("linear_v", Linear(channels, head, Init::glorot, /*hasBias=*/false))),
      gate(register_module("linear_g", Linear(channels, heads * head, Init::gate))),
      output(register_module("linear_o", Linear(heads * head, channels, Init::zero))) {}

Update GlobalAttentionImpl::forward(const Tensor& x, const Tensor& mask) {
  const Tensor mean =
      mask.defined() ? masked(x, mask).sum(0) / (mask.sum(0) + 1e-10).unsqueeze(-1) : x.mean(0);
  // The heads' queries are rows of one attention, since keys and values are the same for all.
  const Tensor queries = q(mean).unflatten(-1, {1, heads, -1}); // [B, 1, heads, head]
  const std::vector<Tensor> made = products(x, {{k->weight}, {v->weight}, {gate->weight}});
  const auto byColumn = [](const Tensor& all) { return all.transpose(0, 1).unsqueeze(1); };
  const Tensor heard = attend(queries, byColumn(made[0]), byColumn(made[1]),
                              mask.defined() ? mask.t().contiguous() : mask, Tensor());
  const Tensor open = nn::sigmoidGate(heard.flatten(1), made[2], gate->bias);
  return {products(open, {{output->weight}})[0], output->bias}; // one row for all of a column
}

} // namespace kiln::alphafold
