// Attention and its gradients by ATen's operations, for calls that have no kernel (yet): by the
// kernel that ATen would choose, or by its formula. Results and what a backward reads of them are
// as those of Kiln's kernels, so that either forward goes with either backward.
#pragma once

#include "runtime/ops/AttentionCall.h"

#include <tuple>

namespace kiln::runtime {

/// cuDNN takes so many sequences: its kernels are launched with one in a grid's third dimension.
constexpr std::int64_t kMostOfCudnn = 65535;

/// Output, and the log-sum-exp if it is wanted. The first argument is the query.
std::tuple<at::Tensor, at::Tensor> attentionByATen(const at::Tensor& query,
                                                   const AttentionCall& call);

/// Gradients of query, key, value and bias, as far as they are wanted.
using AttentionGradients = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
AttentionGradients attentionBackwardByATen(const at::Tensor& grad, const AttentionCall& call,
                                           const AttentionSaved& saved);

/// The same by ATen's formula, of tensors as they were given; `differentiable`: with gradients of
/// their own, with respect to these tensors.
AttentionGradients attentionGradients(const at::Tensor& grad, const AttentionTensors& given,
                                      const AttentionForm& form, const at::Tensor& seeds,
                                      const std::array<bool, 4>& wanted, bool differentiable);

/// Bias and mask, and beside these what a causal call hides, as ATen's one mask, floats where there
/// is a bias; and whether is_causal is left for ATen to be told.
std::pair<std::optional<at::Tensor>, bool> attentionMaskOf(const AttentionTensors& given,
                                                           bool causal);

} // namespace kiln::runtime
