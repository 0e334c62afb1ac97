// The family of rows, which takes every kernel that no other family is an anchor of: any DAG of
// elementwise math, broadcasts, reductions of rows and sums down columns that its analysis can
// reach.
#include "codegen/family/Family.h"

#include "codegen/families/rows/FusionLimits.h"
#include "codegen/families/rows/Kernel.h"
#include "codegen/family/Elementary.h"

using namespace mlir;

namespace kiln::rows {
namespace {

class RowFamily : public family::KernelFamily {
 public:
  const ScheduleForm* form() const override { return &scheduleForm; }

  std::vector<family::Shape> shapes(const family::ShapeRequest& request) const override {
    return family::leadingShapes(request, {.tail = 997, .few = 131});
  }

  std::unique_ptr<family::Kernel> analyze(ir::KernelOp kernel, Refusal& refusal) const override {
    return analyzeRows(kernel, refusal);
  }

  std::string reasonAgainst(const family::Considered& considered,
                            const std::optional<family::FusionLimits>& limits) const override {
    Refusal refusal;
    std::unique_ptr<RowKernel> kernel = analyzeRows(considered.kernel, refusal);
    if (!kernel || !limits)
      return refusal.reason;
    return tooMuch(*kernel, considered, *limits);
  }

 private:
  static std::unique_ptr<RowKernel> analyzeRows(ir::KernelOp kernel, Refusal& refusal) {
    OwningOpRef<ir::KernelOp> body = family::elementaryCopy(kernel);
    std::unique_ptr<RowProgram> program = rows::analyze(body->getBody().front(), refusal);
    if (!program)
      return nullptr;
    return std::make_unique<RowKernel>(kernel, std::move(body), std::move(program));
  }
};

} // namespace

const family::Family& get() {
  static const RowFamily family;
  return family;
}

} // namespace kiln::rows
