// Arguments of a call in fp64, so that ATen can say what the results are: where Kiln and ATen
// differ, the one nearer to that is right.
#pragma once

#include <ATen/core/Tensor.h>
#include <optional>
#include <vector>

namespace kiln::runtime {

inline at::Tensor inDouble(const at::Tensor& tensor) {
  return tensor.defined() && tensor.is_floating_point() ? tensor.detach().to(at::kDouble) : tensor;
}
inline std::optional<at::Tensor> inDouble(const std::optional<at::Tensor>& tensor) {
  return tensor ? std::optional(inDouble(*tensor)) : std::nullopt;
}
inline std::vector<at::Tensor> inDouble(at::TensorList tensors) {
  std::vector<at::Tensor> all;
  for (const at::Tensor& tensor : tensors)
    all.push_back(inDouble(tensor));
  return all;
}
/// Of an operand or a result, by which ATen checks or casts.
inline at::ScalarType inDouble(at::ScalarType type) {
  return at::isFloatingType(type) ? at::kDouble : type;
}
template <typename Argument> const Argument& inDouble(const Argument& argument) {
  return argument;
}

} // namespace kiln::runtime
