// kiln-place: offsets into shared memory, and the barriers that their reuse needs.
//
// Operations say how many bytes they need and for what (cu::SharedMemoryOp). What is staged for the
// whole kernel comes first; then what a run of the loop over tiles keeps, exchanges and lays out,
// each with a place of its own. An epilogue comes after the loop and reuses its memory from 0 on;
// the helpers of epilogues begin with a barrier. Loops know what they must put between their own
// uses.
#include "codegen/passes/Passes.h"

using namespace mlir;

namespace kiln::passes {

#define GEN_PASS_DEF_PLACE
#include "codegen/passes/Passes.h.inc"

namespace {

struct Place : impl::PlaceBase<Place> {
  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<cu::KernelOp>())
      place(kernel);
  }

  static void place(cu::KernelOp kernel) {
    SmallVector<cu::SharedMemoryOp> all;
    kernel.walk([&](cu::SharedMemoryOp op) { all.push_back(op); });
    llvm::stable_sort(all, [](cu::SharedMemoryOp a, cu::SharedMemoryOp b) {
      return a.sharedUse() < b.sharedUse();
    });
    int64_t next = 0, most = 0;
    for (cu::SharedMemoryOp op : all) {
      const bool epilogue = op.sharedUse() == cu::SharedUse::epilogue;
      const int64_t at = epilogue ? 0 : next;
      cu::setPlace(op, at);
      const int64_t end = at + op.sharedBytes();
      if (!epilogue)
        next = (end + kAlignment - 1) / kAlignment * kAlignment;
      most = std::max({most, next, epilogue ? end : 0});
    }
    kernel.setSharedBytes(most);
    kernel.walk([](cu::LoopOp loop) { loop.separateUses(); });
  }

  static constexpr int64_t kAlignment = 16; // the widest access
};

} // namespace

std::unique_ptr<Pass> createPlace() {
  return std::make_unique<Place>();
}

} // namespace kiln::passes
