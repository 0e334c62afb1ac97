// Times a number that is one more often than not and that only the device knows: the gradient of a
// loss, from which a backward begins.
#pragma once

#include "runtime/Backend.h"

#include <ATen/core/Tensor.h>

namespace kiln::runtime {

/// Contiguous and uninitialised, with memory up to where the kernel of scaleUnlessOne() ends.
at::Tensor emptyToScale(const Backend& backend, at::IntArrayRef sizes, at::ScalarType dtype,
                        at::Device device);

/// `x` times `factor`, an fp32 number on its device, in place and rounded once. Where that is
/// exactly one, it alone is read and nothing is written. What is not from emptyToScale(), and where
/// there is no kernel, is multiplied by ATen: the same numbers, in a pass over all of them.
void scaleUnlessOne(const Backend& backend, const at::Tensor& x, const at::Tensor& factor);

} // namespace kiln::runtime
