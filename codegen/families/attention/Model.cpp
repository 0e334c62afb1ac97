// See Model.h.
#include "codegen/families/attention/Model.h"

#include <algorithm>

namespace kiln::attention {

model::Resources resourcesOf(const Schedule& schedule, const Facts& facts) {
  model::Resources most{0, schedule.blocks, 0, 0};
  for (const Part& part : partsOf(schedule, facts)) {
    most.threads = std::max(most.threads, threadsOf(part.schedule, part.facts));
    most.sharedBytes = std::max(most.sharedBytes, sharedBytes(part.schedule, part.facts));
    most.registers = std::max(most.registers, estimatedRegisters(part.schedule, part.facts));
  }
  return most;
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
