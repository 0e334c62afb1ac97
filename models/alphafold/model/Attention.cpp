// See Attention.h.
#include "models/alphafold/model/Attention.h"

#include "kiln/nn.h"

#include <ATen/ATen.h>

namespace kiln::alphafold {

using at::Tensor;

namespace {

/// Of [B, heads, Q, D], scale 1 / sqrt(D), and a mask [B, K] of keys. Bias and queries have one
/// dtype, also under autocast.
Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
              const Tensor& bias) {
  const Tensor seen = mask.defined() ? (mask > 0.5).unsqueeze(1).unsqueeze(1) : mask;
  return nn::attention(q, k, v, seen, bias.defined() ? bias.to(q.scalar_type()) : bias);
}

} // namespace

Tensor byHead(const Tensor& pairs) {
  return pairs.permute({2, 0, 1}).contiguous(); // kernels keep such a bias in shared memory
}

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

Tensor AttentionImpl::forward(const Tensor& x, const Tensor& keys, const Tensor& mask,
                              const Tensor& bias) {
  const auto split = [&](const Tensor& all) { // [B, heads, rows, head]
    return all.unflatten(-1, {heads, -1}).transpose(1, 2);
  };
  const Tensor heard = attend(split(q(x)), split(k(keys)), split(v(keys)), mask, bias);
  const Tensor rows = heard.transpose(1, 2).flatten(-2); // [B, Q, heads * head]
  return output(gate ? nn::sigmoidGate(rows, at::linear(x, gate->weight), gate->bias) : rows);
}

GlobalAttentionImpl::GlobalAttentionImpl(std::int64_t channels, std::int64_t heads,
                                         std::int64_t head)
    : heads(heads), q(register_module("linear_q", Linear(channels, heads * head, Init::glorot,
                                                         /*hasBias=*/false))),
      k(register_module("linear_k", Linear(channels, head, Init::glorot, /*hasBias=*/false))),
      v(register_module("linear_v", Linear(channels, head, Init::glorot, /*hasBias=*/false))),
      gate(register_module("linear_g", Linear(channels, heads * head, Init::gate))),
      output(register_module("linear_o", Linear(heads * head, channels, Init::zero))) {}

Tensor GlobalAttentionImpl::forward(const Tensor& x, const Tensor& mask) {
  const Tensor mean =
      mask.defined() ? masked(x, mask).sum(1) / (mask.sum(1, /*keepdim=*/true) + 1e-10) : x.mean(1);
  // The heads' queries are rows of one attention, since keys and values are the same for all.
  const Tensor queries = q(mean).unflatten(-1, {1, heads, -1}); // [B, 1, heads, head]
  const Tensor heard = attend(queries, k(x).unsqueeze(1), v(x).unsqueeze(1), mask, Tensor());
  return output(heard.flatten(1).unsqueeze(1) * at::sigmoid(gate(x))); // one row for all of x
}

} // namespace kiln::alphafold
