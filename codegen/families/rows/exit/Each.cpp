// How passes over the tiles and rows of a thread, and what reduces them, print themselves.
#include "codegen/families/rows/exit/Keeper.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cu;

static constexpr const char* kEachChunk = "for (int c = 0; c < Tile::chunks; ++c)";
static constexpr int64_t kUnrolled = 16; // chunks; more are a loop where they can be
static constexpr const char* kEachRow = "for (int r = 0; r < Tile::rows; ++r)";
static constexpr const char* kEachElement = "for (int i = 0; i < Tile::vector; ++i)";

static const char* combiner(ir::ReduceKind kind) {
  switch (kind) {
  case ir::ReduceKind::max:
    return "Max";
  case ir::ReduceKind::min:
    return "Min";
  default:
    return "Sum";
  }
}

void RowAccumulatorOp::emit(Emitter& e) {
  std::string name = e.declare(getValues(), ir::stringifyReduceKind(getKind()));
  if (getKind() == ir::ReduceKind::sum || getKind() == ir::ReduceKind::mean) {
    e.line("float " + name + "[Tile::rows] = {};");
    return;
  }
  e.line("float " + name + "[Tile::rows];");
  e.unrolled(kEachRow);
  e.line(name + "[r] = " + combiner(getKind()) + "::identity();");
  e.close();
}

/// Opens the loop over the chunks of a row that a thread has. Registers are named by constants;
/// what lies in memory is walked by a loop.
static void openChunks(Emitter& e, Operation* op, const std::string& tile, bool inMemory) {
  auto kernel = op->getParentOfType<KernelOp>();
  const rows::Schedule schedule = rows::scheduleOf(kernel);
  int64_t columns = kernel.getColumns(), across = schedule.lanes * schedule.vector;
  inMemory &= schedule.keep != rows::Keep::registers && schedule.keep != rows::Keep::ring;
  e.unrolled(kEachChunk, inMemory && columns > kUnrolled * across ? 4 : 0);
  if (columns % across != 0)
    e.line("if (!" + tile + ".has(c)) continue;");
}

void CombineTileOp::emit(Emitter& e) {
  e.location(*this);
  std::string tile = e.name(getTile()), values = e.name(getInto());
  openChunks(e, *this, tile, true);
  e.unrolled(kEachRow);
  e.line(values + "[r] = combine_chunk<" + combiner(getKind()) + ">(" + tile + ", c, " +
         e.name(getFragment()) + ".get(r, c), " + values + "[r]);");
  e.close();
  e.close();
}

void CombineExponentialsOp::emit(Emitter& e) {
  e.location(*this);
  e.line("combine_exponentials<" + std::to_string(getParts()) + ">(" + e.name(getTile()) + ", " +
         e.name(getFragment()) + ", " + e.name(getLargest()) + ", " + e.name(getSum()) + ");");
}

/// Whether all elements of vectors that overlap the ends of rows are computed, and only what lies
/// in the row is added up: warps that have an end then run the same instructions as the others.
static bool masksSums(KernelOp kernel) {
  const rows::Schedule schedule = rows::scheduleOf(kernel);
  return schedule.overlaps(kernel.getColumns()) && schedule.keep == rows::Keep::ring;
}
/// Sums of columns have a place for each column: what is added to others is never read.
static bool masks(AccumulateOp sum) {
  return !isa<SumsType>(sum.getInto().getType()) && sum->getParentOfType<EachOp>() &&
         masksSums(sum->getParentOfType<KernelOp>());
}

void EachOp::emit(Emitter& e) {
  e.location(*this);
  Block& block = getBody().front();
  std::string tile = e.name(getTile());
  auto kernel = (*this)->getParentOfType<KernelOp>();
  const rows::Schedule schedule = rows::scheduleOf(kernel);
  // The assembler asks in each chunk what is asked in its loop, which single elements feel.
  const bool hasNarrowTiles = schedule.keep == rows::Keep::ring && kernel.getColumns() % 4 != 0;
  const bool asksOnce =
      getGuardRows() && schedule.rows == 1 && (hasNarrowTiles || rows::isLoose(kernel));
  if (asksOnce)
    e.open("if (" + tile + ".valid(0))");
  openChunks(e, *this, tile, llvm::none_of(block.getOps<AccumulateOp>(), [](AccumulateOp sum) {
               return isa<SumsType>(sum.getInto().getType());
             }));
  for (auto [i, input] : llvm::enumerate(getInputs())) {
    if (!isa<PointerType, ColumnsType>(input.getType()))
      continue;
    std::string vector = e.fresh(e.name(input) + "_c");
    std::string stride =
        getColumnStrides()[i] == 1 ? "" : ", " + std::to_string(getColumnStrides()[i]);
    if (isa<ColumnsType>(input.getType()))
      e.line("const auto " + vector + " = staged_columns(" + tile + ", c, " + e.name(input) + ");");
    else
      e.line("const auto " + vector + " = load_columns<" + std::to_string(getAccess()[i]) + ">(" +
             tile + ", c, " + e.name(input) + stride + ");");
    e.alias(block.getArgument(i), vector + "[i]");
  }
  e.unrolled(kEachRow);
  if (getGuardRows() && !asksOnce)
    e.line("if (!" + tile + ".valid(r)) continue;");
  for (auto [i, input] : llvm::enumerate(getInputs())) {
    if (isa<RowsType>(input.getType()))
      e.alias(block.getArgument(i), e.name(input) + "[r]");
    if (!isa<FragmentType>(input.getType()))
      continue;
    std::string vector = e.fresh(e.name(input) + "_c");
    e.line("const auto " + vector + " = " + e.name(input) + ".get(r, c);");
    e.alias(block.getArgument(i), vector + "[i]");
  }
  std::vector<std::string> after; // what is stored once a vector is complete
  for (Operation& op : block) {
    Value value, to;
    if (auto put = dyn_cast<PutOp>(op))
      value = put.getValue(), to = put.getTo();
    else if (auto set = dyn_cast<SetOp>(op))
      value = set.getValue(), to = set.getFragment();
    else
      continue;
    std::string vector = e.fresh(e.name(to) + "_c");
    e.line("Vec<" + e.memoryType(value.getType()) + ", Tile::vector> " + vector + ";");
    e.aliasTarget(&op, vector);
    if (auto put = dyn_cast<PutOp>(op))
      after.push_back("store<" + std::to_string(put.getAccess()) + ">(" + tile + ", r, c, " +
                      e.name(to) + ", " + e.name(put.getMap()) + ", " + vector + ");");
    else
      after.push_back(e.name(to) + ".set(r, c, " + vector + ");");
  }
  const bool overlaps = schedule.overlaps(kernel.getColumns());
  const bool isMasked =
      llvm::any_of(block.getOps<AccumulateOp>(), [](AccumulateOp sum) { return masks(sum); });
  if (isMasked)
    e.open(tile + ".each(c, [&](int i, bool in_row)");
  else if (overlaps && !masksSums(kernel))
    e.open(tile + ".each_in_row(c, [&](int i)");
  else
    e.unrolled(kEachElement);
  e.block(block);
  e.close(isMasked || (overlaps && !masksSums(kernel)) ? ");" : "");
  for (const std::string& line : after)
    e.line(line);
  e.close();
  e.close();
  if (asksOnce)
    e.close();
}

void EachRowOp::emit(Emitter& e) {
  e.location(*this);
  Block& block = getBody().front();
  e.unrolled(kEachRow);
  for (auto [input, argument] : llvm::zip(getInputs(), block.getArguments()))
    e.alias(argument, e.name(input) + "[r]");
  e.block(block);
  e.close();
}

void ColumnOp::emit(Emitter& e) {
  e.line("const " + e.scalarType(getColumn().getType()) + " " + e.declare(getColumn(), "column") +
         " = " + e.name(getTile()) + ".column(c) + i;");
}
void RowOp::emit(Emitter& e) {
  e.line("const " + e.scalarType(getRow().getType()) + " " + e.declare(getRow(), "row") + " = " +
         e.name(getTile()) + ".row(r);");
}
void AccumulateOp::emit(Emitter& e) {
  std::string value = e.expression(getValue());
  if (isa<SumsType>(getInto().getType()))
    return e.line(e.name(getInto()) + "[c][i] += " + value + ";");
  const std::string mask = masks(*this) ? "if (in_row) " : "";
  if (isa<TotalType>(getInto().getType()))
    return e.line(mask + e.name(getInto()) + " += " + value + ";");
  auto kind = getInto().getDefiningOp<RowAccumulatorOp>().getKind();
  std::string place = e.name(getInto()) + "[r]";
  if (kind == ir::ReduceKind::sum || kind == ir::ReduceKind::mean)
    return e.line(mask + place + " += " + value + ";");
  e.line(mask + place + " = " + std::string(combiner(kind)) + "::combine(" + place + ", " + value +
         ");");
}
void AccumulateRowOp::emit(Emitter& e) {
  std::string tile = e.name(getTile());
  e.line("if (" + tile + ".lane == 0 && " + tile + ".valid(r)) " + e.name(getInto()) +
         " += " + e.expression(getValue()) + ";");
}
void SetOp::emit(Emitter& e) {
  e.line(e.target(*this) + "[i] = " + e.expression(getValue()) + ";");
}
void PutOp::emit(Emitter& e) {
  e.line(e.target(*this) + "[i] = " + e.expression(getValue()) + ";");
}
void SetRowOp::emit(Emitter& e) {
  e.line(e.name(getRows()) + "[r] = " + e.expression(getValue()) + ";");
}

void RowReduceOp::emit(Emitter& e) {
  std::string values;
  for (Value value : getValues())
    values += ", " + e.name(value);
  assertBytes(e, *this, "row_reduce_bytes<Tile>(" + std::to_string(getValues().size()) + ")");
  e.line("row_reduce<" + std::string(combiner(getKind())) + ">(" + e.name(getTile()) + ", " +
         sharedAt(*this) + values + ");");
}
