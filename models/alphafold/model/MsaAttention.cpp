// See MsaAttention.h.
#include "models/alphafold/model/MsaAttention.h"

#include <ATen/ATen.h>

namespace kiln::alphafold {

using at::Tensor;

MsaRowAttentionImpl::MsaRowAttentionImpl(std::int64_t channels, std::int64_t pair,
                                         std::int64_t heads, std::int64_t head)
    : normM(register_module("layer_norm_m", LayerNorm(channels))) {
  if (pair > 0) {
    normZ = register_module("layer_norm_z", LayerNorm(pair));
    bias = register_module("linear_z", Linear(pair, heads, Init::normal, /*hasBias=*/false));
  }
  mha =
      register_module("mha", Attention(AttentionSizes{channels, channels, heads, head, channels}));
}

Tensor MsaRowAttentionImpl::forward(const Tensor& m, const Tensor& z, const Tensor& mask) {
  const Tensor x = normM(m);
  return mha(x, x, mask, bias ? byHead(bias(normZ(z))) : Tensor());
}

MsaColumnAttentionImpl::MsaColumnAttentionImpl(std::int64_t channels, std::int64_t heads,
                                               std::int64_t head)
    : rows(register_module("_msa_att", MsaRowAttention(channels, 0, heads, head))) {}

Tensor MsaColumnAttentionImpl::forward(const Tensor& m, const Tensor& mask) {
  return rows(m.transpose(0, 1), Tensor(), transposed(mask)).transpose(0, 1);
}

MsaGlobalColumnAttentionImpl::MsaGlobalColumnAttentionImpl(std::int64_t channels,
                                                           std::int64_t heads, std::int64_t head)
    : norm(register_module("layer_norm_m", LayerNorm(channels))),
      attention(register_module("global_attention", GlobalAttention(channels, heads, head))) {}

Tensor MsaGlobalColumnAttentionImpl::forward(const Tensor& m, const Tensor& mask) {
  return attention(norm(m.transpose(0, 1)), transposed(mask)).transpose(0, 1);
}

} // namespace kiln::alphafold
