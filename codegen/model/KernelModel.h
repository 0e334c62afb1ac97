// One kernel as all see it that choose schedules: the passes, the cost model, the tuner, the
// commands. Its family implements this; nothing else knows what the kernel computes. Immutable but
// for what compiling has taught. Plain C++.
#pragma once

#include "codegen/model/Calibration.h"
#include "codegen/model/Space.h"

namespace kiln::model {

/// What a schedule asks of a multiprocessor.
struct Resources {
  std::int64_t threads = 0;     // of a block
  std::int64_t blocks = 0;      // that must fit
  std::int64_t sharedBytes = 0; // of a block
  std::int64_t registers = 0;   // of a thread, roughly; the assembler's count decides
};

class KernelModel {
 public:
  virtual ~KernelModel() = default;

  virtual const ScheduleForm& form() const = 0;
  /// What a schedule breaks on a target, each rule with its numbers; none: it may run.
  virtual std::vector<Violation> check(const Schedule& schedule, const Target& target) const = 0;
  virtual Resources resources(const Schedule& schedule) const = 0;
  /// Whether a search counts the step from one schedule to the other as small.
  virtual bool isNear(const Schedule& from, const Schedule& to) const = 0;
  /// The assembler spilled although a schedule left so many registers a thread.
  virtual void noteSpill(int registers) = 0;

  // What it moves and does, by any schedule.
  virtual double bytesRead() const = 0;
  virtual double bytesWritten() const = 0;
  virtual Work work() const = 0;

  // What schedules cost.
  virtual Cost cost(const Schedule& schedule, const Target& target,
                    const CostConstants& k = kCostConstants) const = 0;
  /// The schedules that fit, cheapest first.
  virtual Space space(const Target& target, Listing listing = Listing::explained) const = 0;
  /// The schedule to run without tuning. Throws Error(infeasible) with the reasons if none fits.
  virtual Schedule usual(const Target& target) const = 0;
};

/// Any schedule of the kernel with its cost and time, also one that its space leaves out.
Candidate candidateOf(const Schedule& schedule, const KernelModel& kernel, const Target& target);

} // namespace kiln::model
