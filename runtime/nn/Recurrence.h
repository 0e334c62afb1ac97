// One direction of one layer of an LSTM over all its steps, as one node of autograd.
#pragma once

#include <ATen/core/Tensor.h>
#include <array>

namespace kiln::nn {

/// `gates`: what inputs and biases give, [steps, batch, 4 width], those of input, forget, cell and
/// output; `weight`: [4 width, width]; `h` and `c`: [batch, width], from which it starts. Backwards
/// in time if `isReversed`. Returns the h of all steps [steps, batch, width], and h and c of the
/// last. c is fp32 between steps, whatever the dtype. A step is a product and a kernel, and so is
/// its backward; the gradient of the weight is two products.
std::array<at::Tensor, 3> recur(const at::Tensor& gates, const at::Tensor& weight,
                                const at::Tensor& h, const at::Tensor& c, bool isReversed);

} // namespace kiln::nn
