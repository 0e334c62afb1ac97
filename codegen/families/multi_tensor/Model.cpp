// See Model.h. No key knows how long lists are: a typical number of elements stands for them.
#include "codegen/families/multi_tensor/Model.h"

#include "codegen/families/multi_tensor/cost/Cost.h"

namespace kiln::multi_tensor {

using model::kTypicalElements;

std::vector<Violation> Model::check(const kiln::Schedule& schedule, const Target& target) const {
  return multi_tensor::check(Schedule::of(schedule), facts, target);
}

model::Resources Model::resources(const kiln::Schedule& schedule) const {
  const Schedule s = Schedule::of(schedule);
  return {s.threads, s.blocks, 0, estimatedRegisters(facts)};
}

/// One or two knobs changed, numbers by a factor of two at most.
bool Model::isNear(const kiln::Schedule& from, const kiln::Schedule& to) const {
  const Schedule a = Schedule::of(from), b = Schedule::of(to);
  int changed = a.launch != b.launch ? 1 : 0;
  bool stepped = true;
  for (auto knob : {&Schedule::vector, &Schedule::chunks, &Schedule::threads, &Schedule::blocks}) {
    changed += a.*knob != b.*knob;
    stepped &= std::max(a.*knob, b.*knob) <= 2 * std::min(a.*knob, b.*knob);
  }
  return stepped && changed >= 1 && changed <= 2;
}

void Model::noteSpill(int registers) {
  facts.spilledRegisters = registers;
  ++facts.spills;
}

double Model::bytesRead() const {
  return kTypicalElements * facts.bytesRead;
}

double Model::bytesWritten() const {
  return kTypicalElements * facts.bytesWritten;
}

model::Work Model::work() const {
  return workOf(facts, kTypicalElements);
}

model::Cost Model::cost(const kiln::Schedule& schedule, const Target& target,
                        const model::CostConstants& k) const {
  return costOf(Schedule::of(schedule), facts, target, kTypicalElements, k);
}

model::Space Model::space(const Target& target, bool explain) const {
  return enumerate(facts, target, kTypicalElements, explain);
}

kiln::Schedule Model::usual(const Target& target) const {
  return defaultSchedule(facts, target).general();
}

} // namespace kiln::multi_tensor
