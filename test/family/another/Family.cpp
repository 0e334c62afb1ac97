// A family that exists in this test alone. It anchors multiplications marked `test.another`, has a
// knob, and lowers every kernel to a function that only waits for its predecessor. It is verified
// at twice the sizes, and rounds to bf16 as it multiplies.
#include "codegen/family/Family.h"
#include "codegen/exit/Entry.h"

#include <fmt/format.h>

using namespace mlir;

namespace kiln::another {
namespace {

constexpr Knob kKnobs[] = {{"speed"}};
constexpr std::int64_t kFastest = 9;

std::string problemOf(const Schedule& schedule) {
  const int speed = schedule.values[0];
  return speed <= kFastest ? "" : fmt::format("speed = {}: 0 to {} are allowed", speed, kFastest);
}

constinit const ScheduleForm scheduleForm = {
    .family = "another", .knobs = kKnobs, .problemOf = problemOf};

Schedule ofSpeed(int speed) {
  return {&scheduleForm, {speed}};
}

class Model : public model::KernelModel {
 public:
  const ScheduleForm& form() const override { return scheduleForm; }
  std::vector<model::Violation> check(const Schedule& schedule, const Target&) const override {
    if (schedule.values[0] > least)
      return {};
    return {
        {"speed", fmt::format("speed = {}, more than {} is needed", schedule.values[0], least)}};
  }
  model::Resources resources(const Schedule&) const override { return {32, 1, 0, 16}; }
  bool isNear(const Schedule&, const Schedule&) const override { return true; }
  void noteSpill(int) override { ++least; }
  double bytesRead() const override { return 1; }
  double bytesWritten() const override { return 1; }
  model::Work work() const override { return {}; }
  model::Cost cost(const Schedule& schedule, const Target&,
                   const model::CostConstants&) const override {
    return {.total = 10.0 - schedule.values[0]};
  }
  model::Space space(const Target& target, model::Listing listing) const override {
    model::Sorter sorter(listing);
    for (int speed = 0; speed <= 3; ++speed)
      if (std::vector<model::Violation> broken = check(ofSpeed(speed), target); broken.empty())
        sorter.add(ofSpeed(speed), cost(ofSpeed(speed), target, model::kCostConstants));
      else
        sorter.refuse([&] { return broken; });
    return sorter.take(1.0);
  }
  Schedule usual(const Target& target) const override {
    return space(target, model::Listing::all).feasible.front().schedule;
  }

 private:
  int least = 0;
};

class AnotherKernel : public family::Kernel {
 public:
  using Kernel::Kernel;
  LogicalResult unify(family::SizeClasses&) override { return success(); }
  void bind(const family::Binding&) override {}
  const ScheduleForm* form() const override { return &scheduleForm; }
  std::unique_ptr<model::KernelModel> model(ArrayRef<int64_t>) const override {
    return std::make_unique<Model>();
  }
  void lower(ModuleOp module, LaunchPlan& plan) override {
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    cu::Entry entry(builder, op.getLoc(), family::entryName(op.getName()), 32, 1, *op.getSchedule(),
                    "row.cuh");
    entry.waitThenRelease(true);
    entry.finish(plan);
  }
};

class AnotherFamily : public family::KernelFamily {
 public:
  const ScheduleForm* form() const override { return &scheduleForm; }
  bool anchors(Operation* op) const override { return op->hasAttr("test.another"); }
  std::vector<family::Shape> shapes(const family::ShapeRequest& request) const override {
    return {{.name = "twice as many", .sizes = {2 * request.sizes.at(0)}, .lengths = {7}}};
  }
  double rounding(Value) const override { return 0x1p-8; }
  std::vector<std::int64_t> typicalLengths() const override { return {1 << 10}; }
  std::unique_ptr<family::Kernel> analyze(ir::KernelOp kernel,
                                          family::Refusal& refusal) const override {
    if (llvm::range_size(kernel.getBody().front().without_terminator()) == 1)
      return std::make_unique<AnotherKernel>(kernel);
    refusal.because(kernel, "the other family executes one operation");
    return nullptr;
  }
};

} // namespace

const family::Family& get() {
  static const AnotherFamily family;
  return family;
}

} // namespace kiln::another
