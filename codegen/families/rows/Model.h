// A kernel of rows as the cost model, the tuner and the commands see it.
#pragma once

#include "codegen/families/rows/cost/Cost.h"
#include "codegen/model/TypedModel.h"

namespace kiln::rows {

model::Resources resourcesOf(const Schedule& schedule, const Facts& facts);
/// One or two knobs changed, numbers by a factor of two at most. What belongs together is one knob.
bool areNear(const Schedule& from, const Schedule& to);
double bytesReadOf(const Facts& facts, double rows);
double bytesWrittenOf(const Facts& facts, double rows);
model::Space spaceOf(const Facts& facts, const Target& target, double rows, model::Listing listing);

/// Of so many rows, where the facts do not fix it.
using Model = model::TypedModel<Schedule, Facts, scheduleForm>;

} // namespace kiln::rows
