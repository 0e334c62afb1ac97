// See Transition.h.
#include "models/alphafold/model/Transition.h"

#include <ATen/ATen.h>

namespace kiln::alphafold {

TransitionImpl::TransitionImpl(std::int64_t channels, std::int64_t factor)
    : norm(register_module("layer_norm", LayerNorm(channels))),
      up(register_module("linear_1", Linear(channels, factor * channels, Init::he))),
      down(register_module("linear_2", Linear(factor * channels, channels, Init::zero))) {}

at::Tensor TransitionImpl::forward(const at::Tensor& x) {
  return down(at::relu(up(norm(x))));
}

} // namespace kiln::alphafold
