// A kernel of rows as the cost model, the tuner and the commands see it.
#pragma once

#include "codegen/families/rows/Schedule.h"
#include "codegen/model/KernelModel.h"

namespace kiln::rows {

class Model : public model::KernelModel {
 public:
  /// `rows`: how many, where the facts do not fix it.
  Model(Facts facts, double rows) : facts(std::move(facts)), rows(rows) {}

  const ScheduleForm& form() const override { return scheduleForm; }
  std::vector<Violation> check(const kiln::Schedule& schedule, const Target& target) const override;
  model::Resources resources(const kiln::Schedule& schedule) const override;
  bool isNear(const kiln::Schedule& from, const kiln::Schedule& to) const override;
  void noteSpill(int registers) override;

  double bytesRead() const override;
  double bytesWritten() const override;
  model::Work work() const override;

  model::Cost cost(const kiln::Schedule& schedule, const Target& target,
                   const model::CostConstants& k) const override;
  model::Space space(const Target& target, bool explain) const override;
  kiln::Schedule usual(const Target& target) const override;

 private:
  Facts facts;
  double rows;
};

} // namespace kiln::rows
