// See Skeleton.h. Values are emitted when they are first needed, so that each kernel holds only
// what it uses.
#include "codegen/segments/Skeleton.h"

#include "codegen/exit/Entry.h"
#include "codegen/segments/Partition.h"
#include "codegen/segments/Schedule.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace kiln::segments {
namespace {

constexpr int64_t kFinishThreads = 1024;
constexpr llvm::StringLiteral kHeader = "segment.cuh";

class Lowering {
 public:
  Lowering(const KernelContext& context, ModuleOp module, LaunchPlan& plan)
      : context(context), schedule(context.schedule), plan(plan), builder(module.getContext()),
        location(module.getLoc()), body(*context.body) {
    builder.setInsertionPointToEnd(module.getBody());
  }

  void run() {
    for (auto reduce : body.getOps<ir::ReduceOp>())
      sums.push_back(reduce);
    for (auto [i, value] : llvm::enumerate(body.getTerminator()->getOperands()))
      (isList(value) ? lists : numbers).push_back(i);
    const bool programmatic = schedule.getLaunch() == ir::LaunchMode::programmatic;
    int main = -1;
    if (!lists.empty() || !sums.empty()) {
      emitMain(programmatic);
      main = static_cast<int>(plan.kernels.size()) - 1;
    }
    if (!sums.empty())
      plan.workspaces.push_back(
          {partialsName(), DType::f32, static_cast<int64_t>(sums.size()), main, {}});
    if (!numbers.empty())
      emitFinish(programmatic, main);
  }

 private:
  Value result(unsigned i) { return body.getTerminator()->getOperand(i); }
  std::string partialsName() const { return context.name + "_partials"; }
  Location named(const std::string& name) {
    return NameLoc::get(builder.getStringAttr(name), location);
  }
  Type pointerType(Type element) { return cu::PointerType::get(builder.getContext(), element); }

  // --- the kernel over the chunks -----------------------------------------------------------

  void emitMain(bool programmatic) {
    std::string text;
    llvm::raw_string_ostream(text) << schedule;
    cu::Entry entry(builder, location, context.name, schedule.getThreads(), schedule.getBlocks(),
                    schedule, kHeader);
    this->entry = &entry;
    entry.launch.schedule = text;
    entry.launch.grid = KernelLaunch::Grid::oneShot;
    entry.launch.rowsPerBlock = schedule.getRows();
    entry.launch.rows.factors = {context.chunkCount};
    Value chunks = entry.pointer(context.chunks, builder.getI64Type());
    Value segments = entry.pointer(context.segments, builder.getI64Type());
    KernelArgument rows;
    rows.kind = KernelArgument::Kind::rows;
    rows.product.factors = {context.chunkCount};
    Value count = entry.argument(rows, builder.getI64Type(), "chunk_count");
    entry.waitThenRelease(programmatic);
    for (ir::ReduceOp sum : sums)
      totals.push_back(builder.create<cu::TotalOp>(named(nameOf(sum.getOutput(), "sum")),
                                                   cu::TotalType::get(builder.getContext())));
    auto loop = builder.create<cu::ChunksOp>(location, chunks, segments, count, chunkElements,
                                             schedule.getVector(), schedule.getThreads(),
                                             schedule.getRows(), context.lists);
    shared = loop;
    emitChunk(loop);
    builder.setInsertionPointAfter(loop);
    for (auto [i, total] : llvm::enumerate(totals))
      builder.create<cu::StoreSumOp>(location, total,
                                     entry.pointer(partialsName(), builder.getF32Type()), i, 0);
    entry.finish(plan);
    numbersHere.clear();
  }

  void emitChunk(cu::ChunksOp loop) {
    Block& chunk = loop.getBody().emplaceBlock();
    segment = chunk.addArgument(cu::SegmentType::get(builder.getContext()), location);
    builder.setInsertionPointToEnd(&chunk);
    Operation* first = nullptr; // of what is computed, for the place in the source
    for (unsigned i : lists)
      first = first ? first : result(i).getDefiningOp();
    for (ir::ReduceOp sum : sums)
      first = first ? first : sum;
    each =
        builder.create<cu::EachPieceOp>(first ? first->getLoc() : location, segment, ValueRange());
    builder.setInsertionPointToEnd(&each.getBody().emplaceBlock());
    for (BlockArgument input : body.getArguments()) // in the order of the records
      if (isList(input) && !input.use_empty())
        element(input);
    for (auto [sum, total] : llvm::zip(sums, totals))
      builder.create<cu::AccumulateOp>(sum.getLoc(), element(sum.getInput()), total);
    for (unsigned i : lists) {
      Value value = element(beforeRounding(result(i)));
      Type stored = ir::tensorType(result(i)).getElementType();
      const Place& to = context.outputs[i];
      builder.create<cu::PutPieceOp>(result(i).getLoc(), value, segment, to.list, stored, to.name);
    }
  }

  /// Rounding to the type stored happens in the store.
  static Value beforeRounding(Value value) {
    auto round = value.getDefiningOp<arith::TruncFOp>();
    return round ? round.getIn() : value;
  }

  Value list(const Place& place, Type element) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(each);
    return builder.create<cu::ListOp>(named(place.name), pointerType(element), segment, place.list);
  }

  /// The current element of a list, or a number that all elements share.
  Value element(Value value) {
    if (!isList(value))
      return sharedNumber(value);
    if (auto broadcast = value.getDefiningOp<ir::BroadcastOp>())
      return element(broadcast.getInput());
    if (Value known = elements.lookup(value))
      return known;
    if (auto input = dyn_cast<BlockArgument>(value)) {
      Type type = ir::tensorType(value).getElementType();
      each.getInputsMutable().append(list(context.inputs[input.getArgNumber()], type));
      return elements[value] = each.getBody().front().addArgument(type, location);
    }
    return elements[value] = clone(value, [&](Value operand) { return element(operand); });
  }

  Value sharedNumber(Value value) {
    if (Value known = sharedNumbers.lookup(value))
      return known;
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(shared);
    Value here = number(value);
    if (!isa<cu::LoadUniformOp, arith::ConstantOp>(here.getDefiningOp()))
      here = builder.create<cu::NumberOp>(here.getLoc(), here.getType(), here);
    return sharedNumbers[value] = here;
  }

  // --- numbers ------------------------------------------------------------------------------

  /// A value without dimensions, computed where the builder stands.
  Value number(Value value) {
    if (auto broadcast = value.getDefiningOp<ir::BroadcastOp>())
      return number(broadcast.getInput());
    if (Value known = numbersHere.lookup(value))
      return known;
    Type type = ir::tensorType(value).getElementType();
    if (auto input = dyn_cast<BlockArgument>(value)) {
      const std::string& name = context.inputs[input.getArgNumber()].name;
      return numbersHere[value] = builder.create<cu::LoadUniformOp>(named(name + "_0"), type,
                                                                    entry->pointer(name, type));
    }
    if (auto constant = value.getDefiningOp<arith::ConstantOp>())
      return numbersHere[value] = scalarConstant(constant);
    return numbersHere[value] = clone(value, [&](Value operand) { return number(operand); });
  }

  Value scalarConstant(arith::ConstantOp op) {
    auto value = cast<DenseElementsAttr>(op.getValue()).getSplatValue<TypedAttr>();
    auto narrow = dyn_cast<FloatAttr>(value);
    if (!narrow || narrow.getType().isF32())
      return builder.create<arith::ConstantOp>(op.getLoc(), value);
    Value wide = builder.create<arith::ConstantOp>(
        op.getLoc(), builder.getF32FloatAttr(static_cast<float>(narrow.getValueAsDouble())));
    return builder.create<arith::TruncFOp>(op.getLoc(), narrow.getType(), wide);
  }

  /// The tensor operation on single elements.
  Value clone(Value value, llvm::function_ref<Value(Value)> operand) {
    Operation* op = value.getDefiningOp();
    SmallVector<Value> operands;
    for (Value from : op->getOperands())
      operands.push_back(operand(from));
    Operation* single = op->cloneWithoutRegions();
    single->setOperands(operands);
    single->getResult(0).setType(ir::tensorType(value).getElementType());
    builder.insert(single);
    return single->getResult(0);
  }

  static std::string nameOf(Value value, StringRef fallback) {
    auto name = dyn_cast<NameLoc>(value.getLoc());
    return name ? name.getName().str() : fallback.str();
  }

  // --- sums and what depends on them --------------------------------------------------------

  void emitFinish(bool programmatic, int main) {
    const int64_t threads = sums.empty() ? 32 : kFinishThreads;
    cu::Entry entry(builder, location, context.name + "_finish", threads, 1, ir::ScheduleAttr(),
                    kHeader);
    this->entry = &entry;
    entry.launch.grid = KernelLaunch::Grid::fixed;
    entry.launch.blocks = 1;
    if (!sums.empty()) {
      KernelArgument lines;
      lines.kind = KernelArgument::Kind::blocks;
      lines.kernel = main;
      Value partials = entry.pointer(partialsName(), builder.getF32Type());
      Value count = entry.argument(lines, builder.getI64Type(), "lines");
      entry.waitThenRelease(programmatic);
      for (auto [i, sum] : llvm::enumerate(sums))
        numbersHere[sum.getOutput()] = builder.create<cu::SumOfPartialsOp>(
            named(nameOf(sum.getOutput(), "sum")), builder.getF32Type(), partials, count, i,
            kFinishThreads, 0);
    } else {
      entry.waitThenRelease(programmatic);
    }
    for (unsigned i : numbers) {
      Value value = number(beforeRounding(result(i)));
      Type stored = ir::tensorType(result(i)).getElementType();
      builder.create<cu::StoreScalarOp>(result(i).getLoc(), value,
                                        entry.pointer(context.outputs[i].name, stored));
    }
    entry.finish(plan);
  }

  const KernelContext& context;
  ir::ScheduleAttr schedule;
  LaunchPlan& plan;
  OpBuilder builder;
  Location location;
  Block& body;

  SmallVector<ir::ReduceOp> sums;
  SmallVector<unsigned> lists, numbers; // results of the kernel
  cu::Entry* entry = nullptr;           // under construction
  SmallVector<Value> totals;            // running sums
  Operation* shared = nullptr;          // before it stands what all elements share
  Value segment;
  cu::EachPieceOp each;
  llvm::DenseMap<Value, Value> elements, sharedNumbers, numbersHere;
};

} // namespace

void lowerKernel(const KernelContext& context, ModuleOp module, LaunchPlan& plan) {
  Lowering(context, module, plan).run();
}

} // namespace kiln::segments
