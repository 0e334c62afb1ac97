// A kernel over lists of tensors as the cost model, the tuner and the commands see it.
#pragma once

#include "codegen/families/multi_tensor/Schedule.h"
#include "codegen/model/KernelModel.h"

namespace kiln::multi_tensor {

class Model : public model::KernelModel {
 public:
  explicit Model(Facts facts) : facts(facts) {}

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
};

} // namespace kiln::multi_tensor
