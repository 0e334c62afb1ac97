// The programs of an optimizer's step as MLIR text: the global norm of gradients with the clip
// factor, and AdamW's update, each over lists of tensors.
//
// Numbers that the launches share lie in device memory. A counter holds how many steps are done. It
// is advanced by a program that runs anyway: by the last norm, or by the last update that reads it.
#pragma once

#include "kiln/kiln.h"

#include <optional>
#include <string>

namespace kiln::optim {

/// Sums the squares of the gradients of one dtype. Inputs: the list g; `before` unless `first`; if
/// `last`: max_norm, then `unscale` if `unscales`, then the counters. Outputs: the sum; if `last`:
/// norm, factor (clip times unscale) and the counters advanced.
struct NormText {
  DType grad = DType::f32;
  bool first = true, last = true, unscales = false;
  int counters = 0;
  std::string text() const;
};

/// Updates one group's parameters. Inputs: the lists p, g, m, v and, if it has one, ema; the
/// numbers lr, count and scale. Outputs: the lists p, m, v, then, if there are, copy and ema; the
/// counter if `advances`.
struct UpdateText {
  DType grad = DType::f32;
  std::optional<DType> copy;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, decay = 0.01;
  double emaDecay = 0;   // 0: no average
  bool counted = false;  // whether the counter was advanced before, for this step already
  bool advances = false; // whether it is advanced here
  std::string text() const;
  bool operator==(const UpdateText&) const = default;
};

} // namespace kiln::optim
