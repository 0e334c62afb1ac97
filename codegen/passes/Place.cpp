// kiln-place: offsets into shared memory, and the barriers that their reuse needs.
//
// Staged columns and rings have places for the whole kernel. While a tile is worked on, kept rows
// and the scratch of every exchange between threads (row reductions, staged values of rows) have
// places of their own. An exchange writes its scratch, passes a barrier and reads it. A row
// reduction brings its barrier; staged rows use one that lies between, or get one. In a repeated
// loop the next write of a scratch must lie behind another barrier than that: if there is none, the
// loop ends with one. Sums are combined after the loop and reuse its memory; their helpers begin
// with a barrier.
#include "codegen/families/row_sums/RowSum.h"
#include "codegen/passes/FunctionPlan.h"

using namespace mlir;

namespace kiln::passes {

#define GEN_PASS_DEF_PLACE
#include "codegen/passes/Passes.h.inc"

namespace {

/// Offsets one after another, each a multiple of 16.
struct Places {
  int64_t next = 0;
  int64_t take(int64_t bytes) {
    int64_t at = next;
    next += (bytes + 15) / 16 * 16;
    return at;
  }
};

int elementBytes(Type element) {
  return sizeInBytes(family::dtypeOf(element));
}

struct Place : impl::PlaceBase<Place> {
  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<cu::KernelOp>())
      place(kernel);
  }

  void place(cu::KernelOp kernel) {
    int64_t most = 0;
    if (kernel.getColumns() > 0) {
      rows::Schedule schedule = cu::scheduleOf(kernel);
      Places places;
      kernel.walk([&](cu::StageColumnsOp op) {
        op.setScratch(places.take(rows::columnBytes(
            schedule, kernel.getColumns(), elementBytes(op.getColumns().getType().getElement()))));
      });
      kernel.walk([&](cu::RingOp op) {
        op.setScratch(places.take(op.getStages() * (op.getStageBytes() + 16)));
      });
      kernel.walk([&](cu::TilesOp tiles) {
        most = placeTiles(tiles, schedule, kernel.getColumns(), places);
        separate(tiles, schedule);
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
      most = std::max<int64_t>(most, op.getThreads() * 4);
    });
    kernel.walk([&](cu::SumRowsOp op) { most = std::max(most, placeSum(op)); });
    kernel.walk([&](cu::ListRowsOp op) {
      op.setScratch(0);
      most = std::max(most, row_sums::listBytes());
    });
    kernel.walk([&](cu::StoreSumOp op) {
      op.setScratch(0);
      most = std::max<int64_t>(most, 128);
    });
    kernel.walk([&](cu::SumOfPartialsOp op) {
      op.setScratch(0);
      most = std::max<int64_t>(most, 128);
    });
    kernel.setSharedBytes(most);
  }

  /// Threads that have a unit of their own exchange nothing, unless some have far more terms.
  static int64_t placeSum(cu::SumRowsOp op) {
    op.setScratch(0);
    bool alike = isa<cu::StridedTermsOp>(op.getTerms().getDefiningOp());
    return op.getBlockUnits() > 1 && alike ? 0 : op.getThreads() * op.getVector() * 4;
  }

  /// The first byte behind everything that tiles need.
  int64_t placeTiles(cu::TilesOp tiles, const rows::Schedule& schedule, int64_t width,
                     Places places) {
    auto keep = [&](auto op) {
      int bytes = elementBytes(op.getFragment().getType().getElement());
      op.setScratch(places.take(rows::fragmentBytes(schedule, width, bytes)));
    };
    auto turn = [&](auto op) {
      int bytes = elementBytes(op.getFragment().getType().getElement());
      op.setScratch(places.take(rows::turnedBytes(schedule, width, bytes)));
    };
    Block& body = tiles.getBody().front();
    for (Operation& op : body)
      if (auto load = dyn_cast<cu::LoadOp>(op))
        keep(load);
      else if (auto gather = dyn_cast<cu::GatherOp>(op))
        keep(gather);
      else if (auto room = dyn_cast<cu::KeepOp>(op))
        keep(room);
      else if (auto load = dyn_cast<cu::LoadTurnedOp>(op))
        turn(load);
      else if (auto result = dyn_cast<cu::TurnedOp>(op))
        turn(result);
    for (auto reduce : body.getOps<cu::RowReduceOp>())
      reduce.setScratch(places.take(rows::exchangeBytes(schedule, reduce.getValues().size())));
    for (auto stage : body.getOps<cu::StageRowsOp>())
      stage.setScratch(places.take(rows::rowStoreBytes(schedule, stage.getValues().size())));
    for (auto store : body.getOps<cu::StoreRowsOp>())
      store.setScratch((*body.getOps<cu::StageRowsOp>().begin()).getScratch());
    return places.next;
  }

  /// Puts barriers between writes and reads of scratch where exchanges do not bring them.
  void separate(cu::TilesOp tiles, const rows::Schedule& schedule) {
    Block& body = tiles.getBody().front();
    int barriers = 0, reductions = 0, whileStaged = 0;
    bool stages = false, staged = false;
    for (Operation& op : body) {
      auto reduce = dyn_cast<cu::RowReduceOp>(op);
      if (reduce && rows::exchangeBytes(schedule, 1) > 0)
        ++reductions, ++barriers, whileStaged += staged;
      else if (isa<cu::BarrierOp>(op))
        ++barriers, whileStaged += staged;
      else if (isa<cu::StageRowsOp>(op))
        stages = staged = rows::rowStoreBytes(schedule, 1) > 0;
      else if (isa<cu::StoreRowsOp>(op) && staged) {
        staged = false;
        if (whileStaged > 0)
          continue;
        OpBuilder(&op).create<cu::BarrierOp>(op.getLoc());
        ++barriers, ++whileStaged;
      }
    }
    bool lone = (reductions == 1 && barriers == 1) || (stages && barriers == whileStaged);
    if (lone && !tiles.getOnce())
      OpBuilder::atBlockEnd(&body).create<cu::BarrierOp>(tiles.getLoc());
  }
};

} // namespace

std::unique_ptr<Pass> createPlace() {
  return std::make_unique<Place>();
}

} // namespace kiln::passes
