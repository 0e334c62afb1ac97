// One attention as its kernels see it: tensors of four or five dimensions, [L, heads, rows, width]
// with at most two leading ones, made as views of whatever ranks and strides ATen's caller has; and
// why Kiln does not take a call.
#pragma once

#include "runtime/Call.h"

#include <ATen/DimVector.h>
#include <algorithm>
#include <array>

namespace kiln::runtime {

/// Query [..., s, d], key [..., t, d], value [..., t, dv]. Undefined: there is none.
struct AttentionTensors {
  at::Tensor query, key, value;
  at::Tensor bias; // floats that are added to the scores [..., s, t], to which they are broadcast
  at::Tensor mask; // bools, likewise: true where a key is seen
};

/// As arguments of ATen's scaled_dot_product_attention.
struct AttentionForm {
  double p = 0; // of dropout
  bool causal = false;
  std::optional<double> scale; // 1 / sqrt(d)
  bool shared = false;         // heads of keys are those of several heads of queries

  double scaleOf(const at::Tensor& query) const;
};

struct AttentionCall : AttentionTensors {
  double scale = 1, p = 0;
  bool causal = false;
  bool saves = false;      // the log-sum-exp is wanted
  at::Tensor seed, offset; // of dropout; i64 without dimensions
  at::Tensor output, lse;  // where a kernel writes them; undefined: where it likes

  std::int64_t heads() const { return query.size(-3); }
  std::int64_t keyHeads() const { return key.size(-3); }
  bool isShared() const { return query.dim() > 2 && heads() != keyHeads(); }
  /// [L..., h, s] and [L..., h, s, dv]
  at::DimVector rowSizes() const { return at::DimVector(query.sizes().slice(0, query.dim() - 1)); }
  at::DimVector outputSizes() const;
};

/// What a backward reads besides, and which gradients are wanted: of query, key, value and bias.
struct AttentionSaved {
  at::Tensor output, lse; // [L..., h, s, dv]; fp32 [L..., h, s]
  std::array<bool, 4> wanted{};
  std::array<at::Tensor, 4> gradients{}; // where a kernel writes them; none: where it likes

  bool isPlaced() const {
    return std::ranges::any_of(gradients, [](const auto& one) { return one.defined(); });
  }
};

/// Whether autograd will ask for gradients of any of them.
bool needGradients(const AttentionTensors& given);

/// Null: attentionOf() may be called.
Reason whyNotAttention(const AttentionTensors& given, const AttentionForm& form);

/// Of tensors as they are. `seeds`: i64 [2], or undefined.
AttentionCall callOf(const AttentionTensors& given, const AttentionForm& form,
                     const at::Tensor& seeds);
/// Views of the tensors; copies of what kernels cannot read. Below autograd.
AttentionCall attentionOf(const AttentionTensors& given, const AttentionForm& form,
                          const at::Tensor& seeds);

/// [..., s, dv], as ATen's result.
at::DimVector attentionSizes(const AttentionTensors& given);

/// Whether a kernel can read the tensor's rows: the elements of one lie side by side, the first at
/// a multiple of 16 bytes.
bool hasReadableRows(const at::Tensor& tensor);
/// Strides without gaps, in the order in which the dimensions of `like` lie in memory.
at::DimVector denseStrides(at::IntArrayRef sizes, const at::Tensor& like);

} // namespace kiln::runtime
