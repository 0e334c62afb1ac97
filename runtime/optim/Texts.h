// An optimizer's step as MLIR text: the global norm of gradients with the clip factor, and AdamW's
// update, over lists of tensors in parts. A part is a kind of parameter: what may differ between
// two parameters in a launch are the numbers of their group and the dtypes of gradient and copy.
//
// Numbers that the step shares lie in device memory. A counter holds how many steps are done, and
// the step returns it advanced: to the same memory with a clip, to another without (kiln/lists.h).
#pragma once

#include "kiln/kiln.h"

#include <optional>
#include <string>
#include <vector>

namespace kiln::optim {

/// Inputs: the lists p, g, m and v and, if averages are kept, ema of each part; the numbers
/// max_norm if it clips, `unscale` if it unscales, the rates of the groups, the counters. Outputs:
/// the lists p, m, v, then, if there are, copy and ema of each part; the norm if it clips, and the
/// counters.
struct StepText {
  struct Part {
    DType grad = DType::f32;
    std::optional<DType> copy{};
    double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, decay = 0.01;
    int rate = 0, counter = 0; // which of them
  };
  std::vector<Part> parts{};
  int rates = 1, counters = 1;
  bool clips = false, unscales = false;
  double emaDecay = 0; // 0: no averages
  std::string text() const;
};

} // namespace kiln::optim
