// See Model.h.
#include "codegen/families/rows/Model.h"

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

model::Resources resourcesOf(const Schedule& schedule, const Facts& facts) {
  return {schedule.threads, schedule.blocks, sharedBytes(schedule, facts),
          estimatedRegisters(schedule, facts)};
}

bool areNear(const Schedule& a, const Schedule& b) {
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

double bytesReadOf(const Facts& facts, double rows) {
  return rows * bytesOfRow(facts.inputs, facts.width, facts.rowInputs);
}

double bytesWrittenOf(const Facts& facts, double rows) {
  return rows * bytesOfRow(facts.outputs, facts.width, facts.rowOutputs);
}

/// For as many rows as the facts say, or a typical number.
model::Space spaceOf(const Facts& facts, const Target& target, double, model::Listing listing) {
  return enumerate(facts, target, listing);
}

} // namespace kiln::rows
