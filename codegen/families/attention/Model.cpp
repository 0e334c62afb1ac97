// See Model.h.
#include "codegen/families/attention/Model.h"

#include <algorithm>

namespace kiln::attention {

model::Resources resourcesOf(const Schedule& schedule, const Facts& facts) {
  return {threadsOf(schedule, facts), schedule.blocks, sharedBytes(schedule, facts),
          estimatedRegisters(schedule, facts)};
}

bool areNear(const Schedule& a, const Schedule& b) {
  if (a.products != b.products || a.bias != b.bias)
    return false;
  int changed = a.launch != b.launch ? 1 : 0;
  bool stepped = true;
  for (auto knob : {&Schedule::queries, &Schedule::keys, &Schedule::stages, &Schedule::blocks,
                    &Schedule::groups, &Schedule::side}) {
    changed += a.*knob != b.*knob;
    stepped &= std::max(a.*knob, b.*knob) <= 2 * std::min(a.*knob, b.*knob);
  }
  return stepped && changed >= 1 && changed <= 2;
}

} // namespace kiln::attention
