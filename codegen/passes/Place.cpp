// kiln-place: offsets into shared memory, and the barriers that their reuse needs.
//
// While a tile is worked on, kept rows and the scratch of every exchange between threads (row
// reductions, stores of row values) have places of their own. An exchange writes its scratch,
// passes a barrier, and reads it; so the next write of the same scratch is safe once one other
// barrier lies between, which any second exchange in the loop provides. Only a lone exchange in a
// repeated loop needs a barrier at the loop's end.
// Sums are combined after the loop and reuse its memory; their helpers begin with a barrier.
#include "codegen/passes/FunctionPlan.h"

using namespace mlir;

namespace kiln::passes {

#define GEN_PASS_DEF_PLACE
#include "codegen/passes/Passes.h.inc"

namespace {

int elementBytes(Value fragment) {
  Type element = cast<cu::FragmentType>(fragment.getType()).getElement();
  return sizeInBytes(dtypeOf(element));
}

struct Place : impl::PlaceBase<Place> {
  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<cu::KernelOp>())
      place(kernel);
  }

  void place(cu::KernelOp kernel) {
    int64_t most = 0;
    if (auto attribute = kernel.getSchedule()) {
      rows::Schedule schedule = scheduleOf(*attribute);
      kernel.walk([&](cu::TilesOp tiles) {
        most = std::max(most, placeTiles(tiles, schedule, kernel.getColumns()));
      });
      kernel.walk([&](cu::StoreColumnsOp op) {
        op.setScratch(0);
        most = std::max(most, rows::columnSumBytes(schedule, kernel.getColumns()));
      });
      kernel.walk([&](cu::StoreTotalOp op) {
        op.setScratch(0);
        most = std::max<int64_t>(most, 128);
      });
    }
    kernel.walk([&](cu::SumPartialsOp op) {
      op.setScratch(0);
      most = std::max<int64_t>(most, op.getThreads() * 16);
    });
    kernel.setSharedBytes(most);
  }

  int64_t placeTiles(cu::TilesOp tiles, const rows::Schedule& schedule, int64_t width) {
    int64_t next = 0;
    auto take = [&](int64_t bytes) {
      int64_t at = next;
      next += (bytes + 15) / 16 * 16;
      return at;
    };
    SmallVector<cu::RowReduceOp> exchanges;
    for (Operation& op : tiles.getBody().front()) {
      if (auto load = dyn_cast<cu::LoadOp>(op))
        load.setScratch(
            take(rows::fragmentBytes(schedule, width, elementBytes(load.getFragment()))));
      else if (auto keep = dyn_cast<cu::KeepOp>(op))
        keep.setScratch(
            take(rows::fragmentBytes(schedule, width, elementBytes(keep.getFragment()))));
      else if (auto reduce = dyn_cast<cu::RowReduceOp>(op))
        exchanges.push_back(reduce);
    }
    int meetings = 0; // operations that write scratch, meet at a barrier, and read it
    for (cu::RowReduceOp reduce : exchanges) {
      int64_t bytes = rows::exchangeBytes(schedule, reduce.getValues().size());
      reduce.setScratch(take(bytes));
      meetings += bytes > 0;
    }
    for (auto store : tiles.getBody().front().getOps<cu::StoreRowsOp>()) {
      int64_t bytes = rows::rowStoreBytes(schedule, store.getValues().size());
      store.setScratch(take(bytes));
      meetings += bytes > 0;
    }
    if (meetings == 1 && !tiles.getOnce())
      OpBuilder::atBlockEnd(&tiles.getBody().front()).create<cu::BarrierOp>(tiles.getLoc());
    return next;
  }
};

} // namespace

std::unique_ptr<Pass> createPlace() {
  return std::make_unique<Place>();
}

} // namespace kiln::passes
