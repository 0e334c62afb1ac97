// Tensors of a caller that a node keeps as they are, where ATen's operations keep copies of their
// own: whoever has written into one since is told whose doing it is that he may not.
#pragma once

#include <c10/util/Exception.h>
#include <string_view>
#include <torch/csrc/autograd/saved_variable.h>

namespace kiln::runtime {

/// `advice` follows the error of autograd, which says which tensor and version.
template <typename Advice>
at::Tensor unpackGiven(const torch::autograd::SavedVariable& given, const Advice& advice) {
  try {
    return given.unpack();
  } catch (c10::Error& error) {
    const std::string_view text = error.what_without_backtrace();
    if (text.find("modified by an inplace operation") != std::string_view::npos)
      error.add_context(advice());
    throw;
  }
}

/// Of a routed op; `family` as in Options::ops.
inline at::Tensor unpackGiven(const torch::autograd::SavedVariable& given, const char* family) {
  return unpackGiven(given, [&] {
    return c10::str("Kiln's ", family,
                    " keeps its operands for the backward as they were given, "
                    "where ATen keeps a copy in fp32. Write into another tensor (x = x + y, not "
                    "x += y), or leave the op to ATen: KILN_OPS=-",
                    family, ", or a kiln::Guard around its call");
  });
}

} // namespace kiln::runtime
