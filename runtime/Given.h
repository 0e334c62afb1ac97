// Tensors of a caller that a node keeps as they are, where ATen's operations may keep copies:
// whoever has written into one since is told whose doing it is that he may not.
#pragma once

#include <c10/util/Exception.h>
#include <memory>
#include <string_view>
#include <torch/csrc/autograd/saved_variable.h>

namespace kiln::runtime {

/// `advice` follows the error of autograd, which says which tensor and version. `of`: the node
/// whose result it is; none: it is an operand.
template <typename Advice>
at::Tensor unpackGiven(const torch::autograd::SavedVariable& given, const Advice& advice,
                       std::shared_ptr<torch::autograd::Node> of = nullptr) {
  try {
    return given.unpack(std::move(of));
  } catch (c10::Error& error) {
    const std::string_view text = error.what_without_backtrace();
    if (text.find("modified by an inplace operation") != std::string_view::npos)
      error.add_context(advice());
    throw;
  }
}

/// Of a routed op; `family` as in Options::ops.
inline at::Tensor unpackGiven(const torch::autograd::SavedVariable& given, const char* family,
                              std::shared_ptr<torch::autograd::Node> of = nullptr) {
  const auto advice = [family] {
    return c10::str("Kiln's ", family,
                    " keeps operands and results for the backward as they are, where ATen may keep "
                    "copies in another type. Write into another tensor (x = x + y, not x += y), or "
                    "leave the op to ATen: KILN_OPS=-",
                    family, ", or a kiln::Guard around its call");
  };
  return unpackGiven(given, advice, std::move(of));
}

} // namespace kiln::runtime
