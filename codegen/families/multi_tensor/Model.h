// A kernel over lists of tensors as the cost model, the tuner and the commands see it. No key knows
// how long lists are: a typical number of elements stands for them.
#pragma once

#include "codegen/families/multi_tensor/cost/Cost.h"
#include "codegen/model/TypedModel.h"

namespace kiln::multi_tensor {

model::Resources resourcesOf(const Schedule& schedule, const Facts& facts);
/// One or two knobs changed, numbers by a factor of two at most.
bool areNear(const Schedule& from, const Schedule& to);
double bytesReadOf(const Facts& facts, double elements);
double bytesWrittenOf(const Facts& facts, double elements);
model::Space spaceOf(const Facts& facts, const Target& target, double elements,
                     model::Listing listing);

/// Of lists of so many elements together.
using Model = model::TypedModel<Schedule, Facts, scheduleForm>;

} // namespace kiln::multi_tensor
