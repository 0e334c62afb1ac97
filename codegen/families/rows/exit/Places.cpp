// What the exit operations of rows need of shared memory, by the formulas of the schedule's rules,
// and the barriers that a loop over tiles needs between uses of one place.
#include "codegen/families/rows/exit/Keeper.h"
#include "codegen/family/Buffers.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cu;

rows::Schedule kiln::rows::scheduleOf(KernelOp kernel) {
  return Schedule::of(kernel.getSchedule()->getSchedule());
}

namespace {

int elementBytes(Type element) {
  return static_cast<int>(sizeInBytes(family::dtypeOf(element)));
}
KernelOp kernelOf(Operation* op) {
  return op->getParentOfType<KernelOp>();
}
int64_t fragmentBytes(Operation* op, FragmentType fragment) {
  return rows::fragmentBytes(rows::scheduleOf(kernelOf(op)), kernelOf(op).getColumns(),
                             elementBytes(fragment.getElement()));
}
int64_t transposedBytes(Operation* op, FragmentType fragment) {
  return rows::transposedBytes(rows::scheduleOf(kernelOf(op)), kernelOf(op).getColumns(),
                               elementBytes(fragment.getElement()));
}

} // namespace

int64_t StageColumnsOp::sharedBytes() {
  return rows::columnBytes(rows::scheduleOf(kernelOf(*this)), kernelOf(*this).getColumns(),
                           elementBytes(getColumns().getType().getElement()));
}
SharedUse StageColumnsOp::sharedUse() {
  return SharedUse::columns;
}

/// And two barriers for each stage.
int64_t RingOp::sharedBytes() {
  return getStages() * (getStageBytes() + 16);
}
SharedUse RingOp::sharedUse() {
  return SharedUse::stages;
}

int64_t LoadOp::sharedBytes() {
  return fragmentBytes(*this, getFragment().getType());
}
SharedUse LoadOp::sharedUse() {
  return SharedUse::tile;
}
int64_t GatherOp::sharedBytes() {
  return fragmentBytes(*this, getFragment().getType());
}
SharedUse GatherOp::sharedUse() {
  return SharedUse::tile;
}
int64_t KeepOp::sharedBytes() {
  return fragmentBytes(*this, getFragment().getType());
}
SharedUse KeepOp::sharedUse() {
  return SharedUse::tile;
}
int64_t LoadTransposedOp::sharedBytes() {
  return transposedBytes(*this, getFragment().getType());
}
SharedUse LoadTransposedOp::sharedUse() {
  return SharedUse::tile;
}
int64_t TransposedOp::sharedBytes() {
  return transposedBytes(*this, getFragment().getType());
}
SharedUse TransposedOp::sharedUse() {
  return SharedUse::tile;
}

int64_t RowReduceOp::sharedBytes() {
  return rows::exchangeBytes(rows::scheduleOf(kernelOf(*this)),
                             static_cast<int>(getValues().size()));
}
SharedUse RowReduceOp::sharedUse() {
  return SharedUse::exchange;
}

int64_t StageRowsOp::sharedBytes() {
  return rows::rowStoreBytes(rows::scheduleOf(kernelOf(*this)),
                             static_cast<int>(getValues().size()));
}
SharedUse StageRowsOp::sharedUse() {
  return SharedUse::results;
}
int64_t StoreColumnsOp::sharedBytes() {
  return rows::columnSumBytes(rows::scheduleOf(kernelOf(*this)), kernelOf(*this).getColumns());
}
SharedUse StoreColumnsOp::sharedUse() {
  return SharedUse::epilogue;
}
/// A number of each of a block's 32 warps at most.
int64_t StoreTotalOp::sharedBytes() {
  return 128;
}
SharedUse StoreTotalOp::sharedUse() {
  return SharedUse::epilogue;
}
int64_t SumPartialsOp::sharedBytes() {
  return getThreads() / 32 * getOfBlock() * 4;
}
SharedUse SumPartialsOp::sharedUse() {
  return SharedUse::epilogue;
}

/// An exchange writes its memory, passes a barrier and reads it. A row reduction brings its
/// barrier; staged rows use one that lies between, or get one. In a repeated loop the next write
/// must lie behind another barrier than that: if there is none, the loop ends with one.
void TilesOp::separateUses() {
  const rows::Schedule schedule = rows::scheduleOf(kernelOf(*this));
  const bool ofTile = schedule.keep == rows::Keep::ring;
  Block& body = getBody().front();
  int barriers = 0, reductions = 0, whileStaged = 0;
  bool stages = false, staged = false;
  for (Operation& op : body) {
    auto reduce = dyn_cast<RowReduceOp>(op);
    if (reduce && rows::exchangeBytes(schedule, 1) > 0)
      ++reductions, ++barriers, whileStaged += staged;
    else if (isa<BarrierOp>(op))
      ++barriers, whileStaged += staged;
    else if (isa<StageRowsOp>(op))
      stages = staged = rows::rowStoreBytes(schedule, 1) > 0;
    else if (isa<StoreRowsOp>(op) && staged) {
      staged = false;
      if (whileStaged > 0)
        continue;
      OpBuilder(&op).create<BarrierOp>(op.getLoc(), ofTile);
      ++barriers, ++whileStaged;
    }
  }
  bool lone = (reductions == 1 && barriers == 1) || (stages && barriers == whileStaged);
  if (lone && !getOnce())
    OpBuilder::atBlockEnd(&body).create<BarrierOp>(getLoc(), ofTile);
}
