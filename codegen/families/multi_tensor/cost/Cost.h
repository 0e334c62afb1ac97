// What the schedules of a kernel over lists cost, and which there are.
#pragma once

#include "codegen/families/multi_tensor/Schedule.h"
#include "codegen/model/Calibration.h"

namespace kiln::multi_tensor {

/// Of a kernel over lists of so many elements together.
model::Cost costOf(const Schedule& schedule, const Facts& facts, const Target& target,
                   double elements, const model::CostConstants& k = model::kCostConstants);
model::Work workOf(const Facts& facts, double elements);

/// All schedules that fit, the default first if it does.
model::Space enumerate(const Facts& facts, const Target& target, double elements,
                       model::Listing listing = model::Listing::explained);

} // namespace kiln::multi_tensor
