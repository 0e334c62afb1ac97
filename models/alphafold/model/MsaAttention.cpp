// See MsaAttention.h.
#include "models/alphafold/model/MsaAttention.h"

#include "models/alphafold/model/Products.h"

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

Tensor MsaRowAttentionImpl::forward(const Tensor& m, const Tensor& z, const Tensor& mask,
                                    Along along) {
  Attended attended{.mask = mask, .along = along};
  if (bias)
    attended.bias = products(normZ(z), {{bias->weight, {}, Layout::planes}})[0];
  return mha(normM(m), attended);
}

MsaColumnAttentionImpl::MsaColumnAttentionImpl(std::int64_t channels, std::int64_t heads,
                                               std::int64_t head)
    : rows(register_module("_msa_att", MsaRowAttention(channels, 0, heads, head))) {}

Tensor MsaColumnAttentionImpl::forward(const Tensor& m, const Tensor& mask) {
  return rows->forward(m, Tensor(), mask, Along::columns);
}

MsaGlobalColumnAttentionImpl::MsaGlobalColumnAttentionImpl(std::int64_t channels,
                                                           std::int64_t heads, std::int64_t head)
    : norm(register_module("layer_norm_m", LayerNorm(channels))),
      attention(register_module("global_attention", GlobalAttention(channels, heads, head))) {}

Tensor MsaGlobalColumnAttentionImpl::forward(const Tensor& m, const Tensor& mask) {
  return attention(norm(m), mask);
}

} // namespace kiln::alphafold
