// See MsaAttention.h.
#include "models/alphafold/model/MsaAttention.h"

#include "models/common/Products.h"

#include <ATen/ATen.h>

namespace kiln::alphafold {

using at::Tensor;
using models::Layout;
using models::products;

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

Update MsaRowAttentionImpl::update(const Tensor& m, const Tensor& z, const Tensor& mask) {
  const Tensor pairs = products(normZ(z), {{bias->weight, {}, Layout::planes}})[0];
  return mha->forward(normM(m), {.mask = mask, .bias = pairs});
}

MsaColumnAttentionImpl::MsaColumnAttentionImpl(std::int64_t channels, std::int64_t heads,
                                               std::int64_t head)
    : rows(register_module("_msa_att", MsaRowAttention(channels, 0, heads, head))) {}

Update MsaColumnAttentionImpl::update(const Tensor& normed, const Tensor& mask) {
  return rows->mha->forward(normed, {.mask = mask, .along = Along::columns});
}

MsaGlobalColumnAttentionImpl::MsaGlobalColumnAttentionImpl(std::int64_t channels,
                                                           std::int64_t heads, std::int64_t head)
    : norm(register_module("layer_norm_m", LayerNorm(channels))),
      attention(register_module("global_attention", GlobalAttention(channels, heads, head))) {}

Update MsaGlobalColumnAttentionImpl::update(const Tensor& normed, const Tensor& mask) {
  return attention->forward(normed, mask);
}

} // namespace kiln::alphafold
