// An attention kernel as the cost model, the tuner and the commands see it.
#pragma once

#include "codegen/families/attention/Resources.h"
#include "codegen/families/attention/cost/Cost.h"
#include "codegen/model/TypedModel.h"

namespace kiln::attention {

model::Resources resourcesOf(const Schedule& schedule, const Facts& facts);
/// One or two knobs changed, numbers by a factor of two at most.
bool areNear(const Schedule& from, const Schedule& to);

using Model = model::TypedModel<Schedule, Facts, scheduleForm>;

} // namespace kiln::attention
