// See Skeleton.h. Values are emitted when they are first needed, so that each kernel holds only
// what it uses.
#include "codegen/families/multi_tensor/Skeleton.h"

#include "codegen/exit/Entry.h"
#include "codegen/families/multi_tensor/Partition.h"
#include "codegen/families/multi_tensor/Schedule.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace kiln::multi_tensor {
namespace {

constexpr llvm::StringLiteral kHeader = "segment.cuh";

class Lowering {
 public:
  Lowering(const KernelContext& context, ModuleOp module, LaunchPlan& plan)
      : context(context), schedule(context.schedule), plan(plan), builder(module.getContext()),
        location(module.getLoc()), body(*context.body) {
    builder.setInsertionPointToEnd(module.getBody());
  }

  void run() {
    divide();
    if (parts.empty())
      return emitNumbers();
    const int main = static_cast<int>(plan.kernels.size());
    emitMain(main);
    int64_t partials = 0; // of a block
    for (const Part& part : parts)
      partials = std::max<int64_t>(partials, part.firstSum + part.sums.size());
    if (partials > 0)
      plan.workspaces.push_back({partialsName(), DType::f32, partials, main, {}});
  }

 private:
  Value result(unsigned i) { return body.getTerminator()->getOperand(i); }
  bool isProgrammatic() const { return schedule.launch == Launch::programmatic; }
  std::string partialsName() const { return context.name + "_partials"; }
  Location named(const std::string& name) {
    return NameLoc::get(builder.getStringAttr(name), location);
  }
  Type pointerType(Type element) { return cu::PointerType::get(builder.getContext(), element); }

  /// What the kernel makes of the lists of one part.
  struct Part {
    int number = 0;
    SmallVector<ir::ReduceOp> sums;
    SmallVector<unsigned> lists; // results of the kernel
    size_t firstSum = 0;         // of those of a block
    bool isFirstOfBlock = true;
  };

  /// That no lists of two parts meet, the planning has checked.
  void divide() {
    const auto partOf = *partsOf(body, [&](unsigned i) { return context.inputs[i].part; });
    std::map<int, Part> byNumber;
    for (auto reduce : body.getOps<ir::ReduceOp>())
      byNumber[partOf.lookup(reduce.getInput())].sums.push_back(reduce);
    for (auto [i, value] : llvm::enumerate(body.getTerminator()->getOperands()))
      if (isList(value))
        byNumber[context.outputs[i].part].lists.push_back(i);
      else
        numbers.push_back(i);
    for (auto& [number, part] : byNumber) {
      part.number = number;
      if (isResident(context.facts) && !parts.empty()) {
        part.firstSum = parts.back().firstSum + parts.back().sums.size();
        part.isFirstOfBlock = false;
      }
      parts.push_back(part);
    }
  }
  bool hasSums() const {
    return llvm::any_of(parts, [](const Part& part) { return !part.sums.empty(); });
  }
  /// A block beside those of the lists. It stores the numbers that no sum decides; where sums are
  /// taken it makes sure that there is a block at all.
  bool hasBlockMore() const { return !numbers.empty() || hasSums(); }

  // --- the kernel over the chunks -----------------------------------------------------------

  void emitMain(int main) {
    cu::Entry entry(builder, location, context.name, schedule.threads, schedule.blocks,
                    ir::ScheduleAttr::get(builder.getContext(), schedule.general()), kHeader);
    this->entry = &entry;
    entry.launch.schedule = toText(schedule.general());
    entry.launch.rowsPerBlock = schedule.chunks;
    std::vector<SizeProduct> rows;
    for (const Part& part : parts)
      rows.push_back({{context.tables[part.number].chunkCount}});
    if (hasBlockMore())
      rows.emplace_back();
    entry.launch.rows = rows.front();
    entry.launch.further.assign(rows.begin() + 1, rows.end());
    if (isResident(context.facts)) {
      entry.launch.grid = KernelLaunch::Grid::resident;
      entry.launch.blocks = schedule.blocks;
      for (Part& part : parts)
        inRegion(Value(), Value(), parts.size() > 1, [&] { emitPart(part, Value()); });
    } else {
      entry.launch.grid = KernelLaunch::Grid::oneShot;
      for (size_t i = 0; i < rows.size(); ++i)
        if (i < parts.size() || !hasSums() || isProgrammatic())
          emitBlocks(i, rows.size(), main);
    }
    if (hasSums())
      emitLastBlock(main);
    entry.finish(plan);
  }

  /// What the blocks of one part do, or the one more.
  void emitBlocks(size_t i, size_t count, int main) {
    Value begin = i > 0 ? firstBlock(i, main) : Value();
    Value end = i + 1 < count ? firstBlock(i + 1, main) : Value();
    inRegion(begin, end, count > 1, [&] {
      if (i < parts.size())
        return emitPart(parts[i], begin);
      entry->waitThenRelease(isProgrammatic());
      if (!hasSums())
        storeNumbers();
    });
  }

  /// Emits what some blocks do. What is known in there is not known behind it.
  void inRegion(Value begin, Value end, bool isNeeded, llvm::function_ref<void()> emit) {
    OpBuilder::InsertionGuard guard(builder);
    if (isNeeded) {
      auto part = builder.create<cu::PartOp>(location, begin, end);
      builder.setInsertionPointToEnd(&part.getBody().emplaceBlock());
    }
    emit();
    for (auto* known : {&elements, &sharedNumbers, &numbersHere})
      known->clear();
  }

  /// The first block of a part of the main kernel, which is not the first part.
  Value firstBlock(size_t part, int main) {
    KernelArgument what;
    what.kind = KernelArgument::Kind::blocks;
    what.kernel = main;
    what.parts = static_cast<int>(part);
    return entry->argument(what, builder.getI64Type(), numbered("first_block", part));
  }
  static std::string numbered(const char* name, size_t number) {
    return number == 0 ? name : name + ("_" + std::to_string(number));
  }

  void emitPart(Part& part, Value first) {
    const Table& table = context.tables[part.number];
    Value chunks = entry->pointer(table.chunks, builder.getI64Type());
    Value segments = entry->pointer(table.segments, builder.getI64Type());
    KernelArgument rows;
    rows.kind = KernelArgument::Kind::rows;
    rows.product.factors = {table.chunkCount};
    Value count = entry->argument(rows, builder.getI64Type(), numbered("chunk_count", part.number));
    if (!part.isFirstOfBlock)
      builder.create<cu::BarrierOp>(location, false); // the sums before it have been stored
    Value found = builder.create<cu::LookUpOp>(
        location, cu::SegmentsType::get(builder.getContext()), chunks, segments, count, first,
        chunkElements, context.vectors.at(part.number), schedule.threads, schedule.chunks,
        table.lists, lookedUp(schedule, context.facts), isResident(context.facts));
    if (part.isFirstOfBlock)
      entry->waitThenRelease(isProgrammatic());
    const SmallVector<Value> totals = totalsOf(part);
    if (isResident(context.facts))
      emitStream(found, part, totals);
    else
      emitChunks(found, part, totals);
    for (auto [i, total] : llvm::enumerate(totals))
      builder.create<cu::StoreSumOp>(
          location, total, entry->pointer(partialsName(), builder.getF32Type()), part.firstSum + i);
  }

  bool reads(const Part& part, BlockArgument input) const {
    const Place& place = context.inputs[input.getArgNumber()];
    return place.list >= 0 && place.part == part.number && !input.use_empty();
  }
  SmallVector<Value> totalsOf(const Part& part) {
    SmallVector<Value> totals;
    for (ir::ReduceOp sum : part.sums)
      totals.push_back(builder.create<cu::TotalOp>(named(nameOf(sum.getOutput(), "sum")),
                                                   cu::TotalType::get(builder.getContext())));
    return totals;
  }

  /// Each chunk is summed by itself, lest rounding errors grow with the number of chunks.
  void emitStream(Value found, Part& part, ArrayRef<Value> totals) {
    OpBuilder::InsertionGuard guard(builder);
    SmallVector<BlockArgument> inputs;
    SmallVector<int64_t> lists;
    SmallVector<Type> types;
    SmallVector<StringRef> names;
    for (auto [input, place] : llvm::zip(body.getArguments(), context.inputs))
      if (reads(part, input)) {
        inputs.push_back(input);
        lists.push_back(place.list);
        types.push_back(ir::tensorType(input).getElementType());
        names.push_back(place.name);
      }
    auto stream = builder.create<cu::StreamOp>(part.sums.front().getLoc(), found, totals, lists,
                                               builder.getTypeArrayAttr(types),
                                               builder.getStrArrayAttr(names));
    shared = stream;
    Block& block = stream.getBody().emplaceBlock();
    builder.setInsertionPointToEnd(&block);
    for (BlockArgument input : inputs)
      elements[input] = block.addArgument(ir::tensorType(input).getElementType(), location);
    for (ir::ReduceOp sum : part.sums) {
      Value own = block.addArgument(cu::TotalType::get(builder.getContext()), location);
      builder.create<cu::AccumulateOp>(sum.getLoc(), element(sum.getInput()), own);
    }
  }

  void emitChunks(Value found, Part& part, ArrayRef<Value> totals) {
    OpBuilder::InsertionGuard guard(builder);
    auto loop = builder.create<cu::ChunksOp>(location, found);
    shared = loop;
    Block& chunk = loop.getBody().emplaceBlock();
    segment = chunk.addArgument(cu::SegmentType::get(builder.getContext()), location);
    builder.setInsertionPointToEnd(&chunk);
    Operation* first = nullptr; // of what is computed, for the place in the source
    for (unsigned i : part.lists)
      first = first ? first : result(i).getDefiningOp();
    for (ir::ReduceOp sum : part.sums)
      first = first ? first : sum;
    each =
        builder.create<cu::EachPieceOp>(first ? first->getLoc() : location, segment, ValueRange());
    builder.setInsertionPointToEnd(&each.getBody().emplaceBlock());
    for (BlockArgument input : body.getArguments()) // as in the records
      if (reads(part, input))
        element(input);
    for (auto [sum, total] : llvm::zip(part.sums, totals))
      builder.create<cu::AccumulateOp>(sum.getLoc(), element(sum.getInput()), total);
    for (unsigned i : part.lists) {
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

  /// The last block adds up what all blocks have stored.
  void emitLastBlock(int main) {
    OpBuilder::InsertionGuard guard(builder);
    auto last = builder.create<cu::LastBlockOp>(
        location, entry->pointer(context.counter, builder.getI32Type()));
    builder.setInsertionPointToEnd(&last.getBody().emplaceBlock());
    addPartials(main);
    storeNumbers();
  }

  /// The sums of each part, over the blocks that worked on it.
  void addPartials(int main) {
    Value partials = entry->pointer(partialsName(), builder.getF32Type());
    for (auto [p, part] : llvm::enumerate(parts)) {
      const bool ofAll = isResident(context.facts);
      Value first = p > 0 && !ofAll ? firstBlock(p, main) : Value();
      Value end = ofAll ? Value() : firstBlock(p + 1, main);
      for (auto [i, sum] : llvm::enumerate(part.sums))
        numbersHere[sum.getOutput()] = builder.create<cu::SumOfPartialsOp>(
            named(nameOf(sum.getOutput(), "sum")), builder.getF32Type(), partials, first, end,
            part.firstSum + i, schedule.threads);
    }
  }

  /// A kernel without lists.
  void emitNumbers() {
    cu::Entry entry(builder, location, context.name, 32, 1, ir::ScheduleAttr(), kHeader);
    this->entry = &entry;
    entry.launch.grid = KernelLaunch::Grid::fixed;
    entry.launch.blocks = 1;
    entry.waitThenRelease(isProgrammatic());
    storeNumbers();
    entry.finish(plan);
  }

  void storeNumbers() {
    for (unsigned i : numbers) {
      Value value = number(beforeRounding(result(i)));
      Type stored = ir::tensorType(result(i)).getElementType();
      builder.create<cu::StoreScalarOp>(result(i).getLoc(), value,
                                        entry->pointer(context.outputs[i].name, stored));
    }
  }

  const KernelContext& context;
  Schedule schedule;
  LaunchPlan& plan;
  OpBuilder builder;
  Location location;
  Block& body;

  SmallVector<Part> parts;
  SmallVector<unsigned> numbers; // results of the kernel
  cu::Entry* entry = nullptr;    // under construction
  Operation* shared = nullptr;   // before it stands what all elements share
  Value segment;
  cu::EachPieceOp each;
  llvm::DenseMap<Value, Value> elements, sharedNumbers, numbersHere;
};

} // namespace

void lowerKernel(const KernelContext& context, ModuleOp module, LaunchPlan& plan) {
  Lowering(context, module, plan).run();
}

} // namespace kiln::multi_tensor
