// Whether a program computes what its function does: results and gradients of one call.
#pragma once

#include "runtime/compile/Tape.h"

namespace kiln::compiled {

/// Numbers that were drawn can be drawn again.
class RandomState {
 public:
  explicit RandomState(const Tensors& arguments);
  void restore();

 private:
  std::vector<std::pair<at::Generator, at::Tensor>> states;
};

/// What differs, or nothing. `leaves`: whose gradients count.
std::string whatDiffers(const Tape& tape, const Tensors& expected, const Tensors& results,
                        const Tensors& leaves);

} // namespace kiln::compiled
