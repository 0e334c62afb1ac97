// See Model.h.
#include "codegen/families/multi_tensor/Model.h"

namespace kiln::multi_tensor {

model::Resources resourcesOf(const Schedule& schedule, const Facts& facts) {
  return {schedule.threads, schedule.blocks, 0, estimatedRegisters(schedule, facts)};
}

bool areNear(const Schedule& a, const Schedule& b) {
  int changed = a.launch != b.launch ? 1 : 0;
  bool stepped = true;
  for (auto knob : {&Schedule::vector, &Schedule::chunks, &Schedule::threads, &Schedule::blocks}) {
    changed += a.*knob != b.*knob;
    stepped &= std::max(a.*knob, b.*knob) <= 2 * std::min(a.*knob, b.*knob);
  }
  return stepped && changed >= 1 && changed <= 2;
}

double bytesReadOf(const Facts& facts, double elements) {
  return elements * facts.bytesRead;
}

double bytesWrittenOf(const Facts& facts, double elements) {
  return elements * facts.bytesWritten;
}

model::Space spaceOf(const Facts& facts, const Target& target, double elements,
                     model::Listing listing) {
  return enumerate(facts, target, elements, listing);
}

} // namespace kiln::multi_tensor
