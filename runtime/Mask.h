// Random masks without the kernel of a call: element by element those that it draws. What draws
// numbers may not draw others by when its kernel is there, so that until then, and where there
// never is one, this does; one kernel serves all shapes and probabilities.
#pragma once

#include "runtime/Backend.h"

#include <ATen/core/Tensor.h>

namespace kiln::runtime {

/// Whether masks can be drawn on a device. The first call for one compiles the kernel and waits for
/// it, in a capture too; the answer then stays as it is for the life of the process.
bool canDrawMasks(const Backend& backend, int device);
/// The same, of those that maskOf() draws.
bool canDrawMasks(const Backend& backend, int device, double p);

/// The smallest number, of 32 bits and signed, with which an element is kept that is dropped with
/// probability p.
std::int32_t leastKept(double p);

/// Bools, as `like` lies in memory, which is dense: true where the number that kiln.random has for
/// the element's place there is at least `least`. Advances the generator as kernels do.
at::Tensor drawMask(const Backend& backend, const at::Tensor& like, std::int32_t least);

/// True where kiln.dropout keeps an element of that shape with this probability of dropping it,
/// for the seed and the offset in these tensors of the device.
at::Tensor maskOf(const Backend& backend, at::Device device, at::IntArrayRef sizes,
                  const at::Tensor& seed, const at::Tensor& offset, double p);

/// A dense tensor's memory as one row; and such a row, or its beginning, as `like` lies.
at::Tensor flat(const at::Tensor& dense);
at::Tensor shapedLike(const at::Tensor& row, const at::Tensor& like);

} // namespace kiln::runtime
