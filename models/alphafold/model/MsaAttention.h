// Attention within the alignment: along its rows with a bias from pairs, and along its columns.
// Algorithms 7, 8 and 19.
#pragma once

#include "models/alphafold/model/Attention.h"

namespace kiln::alphafold {

/// Algorithm 7; without `pair` channels the attention of one column of Algorithm 8. Parameters:
/// layer_norm_m, layer_norm_z, linear_z, mha.
struct MsaRowAttentionImpl : torch::nn::Module {
  MsaRowAttentionImpl(std::int64_t channels, std::int64_t pair, std::int64_t heads,
                      std::int64_t head);
  /// m [S, R, channels], z [R, R, pair], mask [S, R] or undefined; what is to be added to m.
  at::Tensor forward(const at::Tensor& m, const at::Tensor& z, const at::Tensor& mask) {
    return update(m, z, mask).alone();
  }
  Update update(const at::Tensor& m, const at::Tensor& z, const at::Tensor& mask);

  LayerNorm normM, normZ = nullptr;
  Linear bias = nullptr;
  Attention mha = nullptr;
};
TORCH_MODULE(MsaRowAttention);

/// Algorithm 8. Parameters: _msa_att.
struct MsaColumnAttentionImpl : torch::nn::Module {
  MsaColumnAttentionImpl(std::int64_t channels, std::int64_t heads, std::int64_t head);
  at::Tensor forward(const at::Tensor& m, const at::Tensor& mask) {
    return update(rows->normM(m), mask).alone();
  }
  /// Of m behind its norm, rows->normM.
  Update update(const at::Tensor& normed, const at::Tensor& mask);

  MsaRowAttention rows;
};
TORCH_MODULE(MsaColumnAttention);

/// Algorithm 19. Parameters: layer_norm_m, global_attention.
struct MsaGlobalColumnAttentionImpl : torch::nn::Module {
  MsaGlobalColumnAttentionImpl(std::int64_t channels, std::int64_t heads, std::int64_t head);
  at::Tensor forward(const at::Tensor& m, const at::Tensor& mask) {
    return update(norm(m), mask).alone();
  }
  /// Of m behind its norm.
  Update update(const at::Tensor& normed, const at::Tensor& mask);

  LayerNorm norm;
  GlobalAttention attention;
};
TORCH_MODULE(MsaGlobalColumnAttention);

} // namespace kiln::alphafold
