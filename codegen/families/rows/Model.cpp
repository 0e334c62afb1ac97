// See Model.h.
#include "codegen/families/rows/Model.h"

#include "codegen/families/rows/cost/Cost.h"

#include <algorithm>

namespace kiln::rows {
namespace {

/// Values that differ by row have 4 bytes.
double bytesOfRow(const std::vector<Facts::Stream>& streams, std::int64_t width, int rowValues) {
  double bytes = 4.0 * rowValues;
  for (const Facts::Stream& stream : streams)
    bytes += static_cast<double>(stream.bytes * width);
  return bytes;
}

} // namespace

std::vector<Violation> Model::check(const kiln::Schedule& schedule, const Target& target) const {
  return rows::check(Schedule::of(schedule), facts, target);
}

model::Resources Model::resources(const kiln::Schedule& schedule) const {
  const Schedule s = Schedule::of(schedule);
  return {s.threads, s.blocks, sharedBytes(s, facts), estimatedRegisters(s, facts)};
}

/// One or two knobs changed, numbers by a factor of two at most. What belongs together is one knob.
bool Model::isNear(const kiln::Schedule& from, const kiln::Schedule& to) const {
  const Schedule a = Schedule::of(from), b = Schedule::of(to);
  int changed = 0;
  bool stepped = true;
  auto number = [&](std::int64_t before, std::int64_t after) {
    changed += before != after;
    stepped &= std::max(before, after) <= 2 * std::min(before, after);
  };
  number(a.lanes, b.lanes);
  number(a.vector, b.vector);
  number(a.rows, b.rows);
  // Of a cluster all threads, and how many are resident: a block of twice the threads is near.
  number(a.threads * a.cluster, b.threads * b.cluster);
  number(a.blocks * b.cluster, b.blocks * a.cluster);
  changed += (a.columns != b.columns) + (a.cluster != b.cluster);
  // A ring has its stages and its launch.
  changed += a.keep != b.keep || a.stages != b.stages || a.grid != b.grid || a.launch != b.launch;
  return stepped && changed >= 1 && changed <= 2;
}

void Model::noteSpill(int registers) {
  facts.spilledRegisters = registers;
  ++facts.spills;
}

double Model::bytesRead() const {
  return rows * bytesOfRow(facts.inputs, facts.width, facts.rowInputs);
}

double Model::bytesWritten() const {
  return rows * bytesOfRow(facts.outputs, facts.width, facts.rowOutputs);
}

model::Work Model::work() const {
  return workOf(facts, rows);
}

model::Cost Model::cost(const kiln::Schedule& schedule, const Target& target,
                        const model::CostConstants& k) const {
  return costOf(Schedule::of(schedule), facts, target, rows, k);
}

model::Space Model::space(const Target& target, bool explain) const {
  return enumerate(facts, target, explain);
}

kiln::Schedule Model::usual(const Target& target) const {
  return defaultSchedule(facts, target).general();
}

} // namespace kiln::rows
