// Tensors whose numbers are just what lies in their memory: the only ones that kernels beside the
// dispatcher may be given.
#pragma once

#include <ATen/TensorSubclassLikeUtils.h>

namespace kiln::runtime {

inline constexpr char kWrapped[] = "tensors that something else traces or wraps";
inline constexpr char kTangent[] = "forward-mode derivatives";

/// Why a tensor is not such; null: it is.
inline const char* whyNotPlain(const at::Tensor& tensor) {
  if (tensor.is_nested() || at::isTensorSubclassLike(tensor) || tensor.is_neg() || tensor.is_conj())
    return kWrapped;
  return tensor._fw_grad(0).defined() ? kTangent : nullptr;
}

} // namespace kiln::runtime
