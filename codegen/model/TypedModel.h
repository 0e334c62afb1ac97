// The model of a kernel whose family has facts and a schedule of its own types: it turns general
// schedules into typed ones, and counts spills. What it asks are functions of the family's, found
// by the types of their arguments:
//   check(schedule, facts, target), resourcesOf(schedule, facts), areNear(from, to),
//   bytesReadOf(facts, count), bytesWrittenOf(facts, count), workOf(facts, count),
//   costOf(schedule, facts, target, count, constants), spaceOf(facts, target, count, listing),
//   defaultSchedule(facts, target)
// with the count of what the kernel works through, where the facts do not fix it.
#pragma once

#include "codegen/model/KernelModel.h"

#include <utility>

namespace kiln::model {

template <class Typed, class Facts>
std::vector<Violation> violationsOf(const Typed& schedule, const Facts& facts,
                                    const Target& target) {
  return check(schedule, facts, target); // which a member of that name would hide
}

template <class Typed, class Facts, const ScheduleForm& scheduleForm>
class TypedModel final : public KernelModel {
 public:
  TypedModel(Facts facts, double count) : facts(std::move(facts)), count(count) {}

  const ScheduleForm& form() const override { return scheduleForm; }
  std::vector<Violation> check(const Schedule& schedule, const Target& target) const override {
    return violationsOf(Typed::of(schedule), facts, target);
  }
  Resources resources(const Schedule& schedule) const override {
    return resourcesOf(Typed::of(schedule), facts);
  }
  bool isNear(const Schedule& from, const Schedule& to) const override {
    return areNear(Typed::of(from), Typed::of(to));
  }
  void noteSpill(int registers) override {
    facts.spilledRegisters = registers;
    ++facts.spills;
  }

  double bytesRead() const override { return bytesReadOf(facts, count); }
  double bytesWritten() const override { return bytesWrittenOf(facts, count); }
  Work work() const override { return workOf(facts, count); }

  Cost cost(const Schedule& schedule, const Target& target, const CostConstants& k) const override {
    return costOf(Typed::of(schedule), facts, target, count, k);
  }
  Space space(const Target& target, Listing listing) const override {
    return spaceOf(facts, target, count, listing);
  }
  Schedule usual(const Target& target) const override {
    return defaultSchedule(facts, target).general();
  }

 private:
  Facts facts;
  double count;
};

} // namespace kiln::model
