// Attention for modules, with what aten::scaled_dot_product_attention has no argument for.
#pragma once

#include "runtime/ops/AttentionCall.h"

namespace kiln::runtime {

/// [..., s, dv], with gradients. Kiln's where the routers are on for the query's place, and take
/// the call; else ATen's scaled_dot_product_attention, of bias and mask as one.
at::Tensor attend(const AttentionTensors& given, const AttentionForm& form);

} // namespace kiln::runtime
