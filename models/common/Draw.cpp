// See Draw.h.
#include "models/common/Draw.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>

namespace kiln::models {

void drawNormal(at::Tensor weight, double deviation, double cut) {
  const at::NoGradGuard constant;
  const double edge = std::erf(cut / std::sqrt(2.0)); // by the inverse of the distribution
  weight.uniform_(-edge, edge).erfinv_().mul_(deviation * std::sqrt(2.0));
}

KeptRandom::KeptRandom(at::Device device)
    : generator(at::globalContext().defaultGenerator(device)), before(generator.get_state()) {}

KeptRandom::~KeptRandom() {
  generator.set_state(before);
}

} // namespace kiln::models
