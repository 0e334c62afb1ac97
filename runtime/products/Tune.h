// Which of cuBLASLt's algorithms is the fastest for a product.
#pragma once

#include "runtime/products/BlasLt.h"

#include <functional>

namespace kiln::runtime {

/// The operands of a product, and how ATen computes it into `c` where something is added to what is
/// there, else into memory of its own.
struct ProductCall {
  at::Tensor a, b;
  at::Tensor c;   // that is added to, as it is; undefined: nothing is
  at::Tensor row; // likewise
  std::function<at::Tensor(const at::Tensor& c)> byATen;
};

/// Times all that cuBLASLt names beside ATen's own choice, in turns, as replays of graphs; one is
/// chosen that takes at least a hundredth less time, and whose error against fp64 is as small.
/// Waits for the device.
Choice tuneProduct(const Product& product, const BlasLt& lt, const ProductCall& call);

} // namespace kiln::runtime
