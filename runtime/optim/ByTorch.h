// What torch's AdamW lacks, by ATen's ops, for steps that Kiln's kernels do not take.
#pragma once

#include "runtime/optim/StepOf.h"

namespace kiln::optim {

/// Gradients as torch's step shall see them: of the parameter's dtype, unscaled and clipped; set
/// while this lives, what was there before is put back.
class PreparedGradients {
 public:
  explicit PreparedGradients(const StepOf& step);
  ~PreparedGradients();
  PreparedGradients(const PreparedGradients&) = delete;
  PreparedGradients& operator=(const PreparedGradients&) = delete;

  at::Tensor norm; // of all, before the clip; undefined if nothing is clipped

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> before; // parameter and gradient
};

/// Copies and averages of the parameters as they are now.
void writeCopies(const StepOf& step);

} // namespace kiln::optim
