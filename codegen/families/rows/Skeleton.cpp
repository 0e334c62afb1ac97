// One kernel around its tiles: arguments, uniform values, columns, running sums; and the kernel
// that finishes the sums. See Lowering.h.
#include "codegen/families/rows/Skeleton.h"

#include "codegen/families/rows/Lowering.h"
#include "codegen/families/rows/Schedule.h"

using namespace mlir;

namespace kiln::rows {

/// Random numbers lie like a contiguous tensor of their own shape, which is nowhere stored.
const BufferInfo& Lowering::numbersOf(const Node* random) {
  BufferInfo& numbers = imagined.emplace_back();
  numbers.tensor.name = nameOf(random, "u");
  const Extent one{1, -1}, column{program.width(), -1};
  for (int d : random->map) {
    bool isColumn = d == static_cast<int>(program.rank());
    numbers.tensor.shape.push_back(isColumn ? column : d < 0 ? one : context.space[d]);
  }
  family::makeContiguous(numbers.tensor);
  return numbers;
}

void Lowering::collectAccesses() {
  for (auto& node : program.nodes)
    if (node->kind == Node::Kind::input)
      inputAccess[node.get()] =
          makeAccess(*bufferOf(node.get()), node->map, program.rank(), node->pairs);
    else if (node->kind == Node::Kind::random)
      randomAccess[node.get()] = makeAccess(numbersOf(node.get()), node->map, program.rank());
  for (const Output& output : program.outputs)
    if (output.kind == Output::Kind::full || output.kind == Output::Kind::row)
      outputAccess[&output] =
          makeAccess(*context.outputs[output.index], output.map, program.rank());
  SmallVector<Access> all;
  for (auto& [node, access] : inputAccess)
    if (node->perRow)
      all.push_back(access);
  for (auto& [node, access] : randomAccess)
    all.push_back(access);
  for (auto& [output, access] : outputAccess)
    all.push_back(access);
  runs = mergeDimensions(context.space, all);
}

/// What the text calls Tile: see RowTile in device/tile.cuh.
std::string Lowering::tileText() const {
  const auto number = [](int64_t value, const char* what) {
    return std::to_string(value) + " /*" + what + "*/";
  };
  const char* kind = context.isSteady ? "Steady" : context.isLoose ? "Loose" : "Row";
  std::string text = "using Tile = " + std::string(kind) + "Tile<";
  text += number(program.width(), "columns") + ", " + number(schedule.lanes, "lanes") + ", " +
          number(schedule.vector, "vector") + ", ";
  if (!context.isSteady)
    text += number(schedule.rows, "rows") + ", ";
  text += number(schedule.threads, "threads");
  if (hasRing() && (context.isSteady || !context.isLoose))
    text += ", " + number(1, "movers");
  else if (schedule.cluster > 1)
    text += ", " + number(0, "movers") + ", " + number(schedule.cluster, "cluster");
  return text + ">;";
}

void Lowering::startKernel() {
  entry.emplace(builder, location, context.name, schedule.allThreads(), schedule.blocks,
                scheduleAttr(), hasRing() ? "ring.cuh" : "row.cuh");
  entry->op().setColumns(program.width());
  entry->op().setPrologue(tileText());
  // pointers first, in the order of the kernel's inputs
  for (const BufferInfo* buffer : context.inputs)
    for (auto& node : program.nodes)
      if ((node->kind == Node::Kind::input && bufferOf(node.get()) == buffer) ||
          (node->kind == Node::Kind::gather && tableOf(node.get()) == buffer))
        pointer(*buffer, node->element());
  for (const Output& output : program.outputs)
    if (outputAccess.contains(&output))
      pointer(*context.outputs[output.index], resultElement(output));
  size_t sumWidth = 0;
  for (bool ofColumns : {true, false}) // first, so that their vectors are aligned as rows' are
    for (const Output& output : program.outputs)
      if (!outputAccess.contains(&output) &&
          (output.kind == Output::Kind::columnSum) == ofColumns) {
        sums.push_back({&output, static_cast<int64_t>(sumWidth)});
        sumWidth += ofColumns ? program.width() : 1;
      }
  partialWidth = sumWidth;
  partialStride = (sumWidth + 3) / 4 * 4;
  if (!sums.empty())
    partials();
  rows = product(KernelArgument::Kind::rows, context.space, "row_count");
}

void Lowering::emitBody() {
  bool once = schedule.grid == Grid::oneShot;
  mapsEnd = builder.create<cu::BarrierOp>(location, false); // a mark, erased below
  if (hasRing())
    startRing();
  if (schedule.cluster > 1)
    builder.create<cu::ClusterArriveOp>(location);
  if (!loadsAhead())
    awaitPredecessor();
  for (auto& [output, first] : sums)
    accumulators[output] =
        output->kind == Output::Kind::columnSum
            ? Value(builder.create<cu::ColumnSumsOp>(named(sumName(*output)),
                                                     cu::SumsType::get(builder.getContext())))
            : Value(builder.create<cu::TotalOp>(named(sumName(*output)),
                                                cu::TotalType::get(builder.getContext())));
  auto tiles = builder.create<cu::TilesOp>(location, rows, once, schedule.cluster);
  {
    OpBuilder::InsertionGuard guard(builder);
    Block& body = tiles.getBody().emplaceBlock();
    tile = body.addArgument(cu::TileType::get(builder.getContext()), location);
    builder.setInsertionPointToEnd(&body);
    emitTile();
  }
  if (isProgrammatic() && !once && !hasRing())
    builder.create<cu::ReleaseOp>(location);
  for (auto& [output, first] : sums)
    emitPartial(*output, first);
  mapsEnd->erase();
}

/// The stages of the ring, and the warp that fills them.
void Lowering::startRing() {
  const int64_t tileRows = schedule.rowsPerBlock();
  int64_t bytes = 0;
  SmallVector<Value> inputs;
  SmallVector<int64_t> elements, at;
  SmallVector<bool> older;
  for (auto& [node, access] : inputAccess) {
    if (!node->perRow)
      continue;
    places[node] = bytes;
    inputs.push_back(pointer(*access.buffer, node->element()));
    elements.push_back(isFull(node) ? program.width() : 0);
    at.push_back(bytes);
    older.push_back(isOlder(node));
    int size = isFull(node) ? sizeInBytes(access.buffer->tensor.dtype) : 8;
    if (comesThroughRing(node))
      bytes += stagePart(tileRows, std::max<int64_t>(elements.back(), 1), size, context.isLoose);
  }
  ring = builder.create<cu::RingOp>(named("ring"), cu::RingType::get(builder.getContext()),
                                    schedule.stages, bytes);
  // Nobody needs to promise anything for what comes to a cache only.
  const bool prefetch = schedule.launch == Launch::programmatic;
  builder.create<cu::MoveOp>(location, ring, rows, inputs, elements, at, older, context.isLoose,
                             prefetch);
}

/// From here on everything that the predecessor wrote may be read. A kernel that will not wait
/// again lets its successor start.
void Lowering::awaitPredecessor() {
  if (isProgrammatic()) {
    builder.create<cu::WaitOp>(location);
    if (schedule.grid == Grid::oneShot || hasRing())
      builder.create<cu::ReleaseOp>(location);
  }
  if (schedule.grid == Grid::resident)
    stageColumns();
  emitUniforms();
}

/// Starts to copy the values that all rows share, if the schedule wants them in shared memory.
/// They are awaited before their first use, or before a loop over tiles. Where there is no loop the
/// tile is read first: compilers may await copies early, but start no later loads before that.
void Lowering::stageColumns() {
  const bool holds = context.holdsColumns;
  if (schedule.columns == Columns::global && !holds)
    return;
  for (auto& [node, access] : inputAccess) {
    if (!node->perColumn || node->perRow || node->pairs)
      continue;
    Type element = node->element();
    if (holds) {
      columns[node] = builder.create<cu::HoldColumnsOp>(
          named(nameOf(node, "columns") + "_h"),
          cu::ColumnsType::get(builder.getContext(), element), pointer(*access.buffer, element),
          rows, access.column.coefficient);
      continue;
    }
    columns[node] = builder.create<cu::StageColumnsOp>(
        named(nameOf(node, "columns") + "_s"), cu::ColumnsType::get(builder.getContext(), element),
        pointer(*access.buffer, element), context.isSteady ? rows : Value(), accessWidth(access),
        access.column.coefficient);
  }
  if (columns.empty() || holds)
    return;
  if (schedule.grid == Grid::resident)
    awaitColumns();
  else
    columnsLevel =
        llvm::find_if(passes, [](Pass& pass) { return !pass.columns.empty(); }) - passes.begin();
}

void Lowering::awaitColumns() {
  builder.create<cu::AwaitCopiesOp>(location);
  builder.create<cu::BarrierOp>(location, hasRing());
}

std::string Lowering::sumName(const Output& output) {
  return context.outputs[output.index]->tensor.name + "_sum";
}

/// Where the main kernel puts its partial sums.
Value Lowering::partials() {
  return entry->pointer(context.name + "_partials", builder.getF32Type());
}

void Lowering::emitPartial(const Output& output, int64_t first) {
  if (output.kind == Output::Kind::columnSum)
    builder.create<cu::StoreColumnsOp>(location, accumulators[&output], partials(), rows,
                                       partialStride, first);
  else
    builder.create<cu::StoreTotalOp>(location, accumulators[&output], partials(), rows,
                                     partialStride, first);
}

/// Values that are the same for all rows and columns: loaded and computed once.
void Lowering::emitUniforms() {
  for (auto& node : program.nodes) {
    if (!isUniform(node.get()))
      continue;
    if (node->kind == Node::Kind::input)
      uniforms[node.get()] = builder.create<cu::LoadUniformOp>(
          named(nameOf(node.get(), "value") + "_0"), node->element(),
          pointer(*bufferOf(node.get()), node->element()));
    else if (node->kind == Node::Kind::constant)
      uniforms[node.get()] = scalarConstant(builder, node.get());
    else if (node->kind == Node::Kind::index)
      uniforms[node.get()] = index(node.get());
    else
      uniforms[node.get()] = scalarOp(builder, node.get(), [&](Node* n) { return uniforms[n]; });
  }
}

/// What the first kernel of a program reads ahead of its predecessor's end, whoever launches the
/// program must know to be complete.
void Lowering::notePromises() {
  if (schedule.launch != Launch::olderFirst || !plan.kernels.empty())
    return;
  for (auto& [node, access] : inputAccess)
    if (node->perRow && isOlder(node))
      for (TensorInfo& input : plan.inputs)
        input.older |= input.name == access.buffer->tensor.name;
}

void Lowering::finishKernel() {
  notePromises();
  KernelLaunch& launch = entry->launch;
  launch.schedule = toText(schedule);
  launch.threads = static_cast<int>(schedule.allThreads());
  launch.programmatic = isProgrammatic();
  bool once = schedule.grid == Grid::oneShot;
  launch.grid = once ? KernelLaunch::Grid::oneShot : KernelLaunch::Grid::resident;
  launch.cluster = static_cast<int>(schedule.cluster);
  launch.rowsPerBlock = schedule.rowsPerBlock();
  launch.blocks = once ? 0 : schedule.blocks;
  if (context.isSteady)
    launch.blocksMultiple = schedule.blocksOfOneShift(program.width());
  launch.rows.factors.assign(context.space.begin(), context.space.end());
  entry->finish(plan);
  if (!sums.empty())
    plan.workspaces.push_back({context.name + "_partials",
                               DType::f32,
                               partialStride,
                               static_cast<int>(plan.kernels.size()) - 1,
                               {}});
}

/// Few columns take all threads there are for their lines. Of many, what counts is that all blocks
/// run at once, beside those of the main kernel that are left.
static FinishShape finishShape(int64_t columns) {
  constexpr int64_t kMany = 4000;
  return columns < kMany ? FinishShape{512, 1, 32} : FinishShape{256, 4, 64};
}

void Lowering::emitFinishKernel() {
  const int main = static_cast<int>(plan.kernels.size()) - 1;
  bool programmatic = plan.kernels[main].programmatic;
  const FinishShape shape = finishShape(partialWidth);
  entry.emplace(builder, location, context.name + "_columns", shape.threads, shape.blocks,
                ir::ScheduleAttr(), "row.cuh");
  KernelArgument stored, lines;
  stored.name = context.name + "_partials";
  lines.kind = KernelArgument::Kind::blocks;
  lines.kernel = main;
  Value from = entry->argument(
      stored, cu::PointerType::get(builder.getContext(), builder.getF32Type()), "partials");
  Value count = entry->argument(lines, builder.getI64Type(), "lines");
  for (auto& [output, first] : sums)
    pointer(*context.outputs[output->index], resultElement(*output));
  // Whoever comes next waits for this kernel, which waits for the main one; with a ring it may
  // start at once to load what is older than both.
  if (programmatic && hasRing())
    builder.create<cu::ReleaseOp>(location);
  if (programmatic)
    builder.create<cu::WaitOp>(location);
  if (programmatic && !hasRing())
    builder.create<cu::ReleaseOp>(location);
  auto total =
      builder.create<cu::SumPartialsOp>(location, builder.getF32Type(), from, count, partialWidth,
                                        partialStride, shape.threads, shape.columns);
  for (auto& [output, first] : sums)
    builder.create<cu::FinishColumnsOp>(
        location, total, pointer(*context.outputs[output->index], resultElement(*output)), first,
        output->kind == Output::Kind::columnSum ? program.width() : 1, shape.columns);
  entry->launch.programmatic = programmatic;
  entry->launch.grid = KernelLaunch::Grid::fixed;
  entry->launch.blocks = (partialWidth + shape.columns - 1) / shape.columns;
  entry->finish(plan);
}

void Lowering::run() {
  passes = planPasses(program, schedule.keep != Keep::global);
  collectAccesses();
  startKernel();
  emitBody();
  finishKernel();
  if (!sums.empty())
    emitFinishKernel();
}

void lowerKernel(const KernelContext& context, ModuleOp module, LaunchPlan& plan) {
  Lowering(context, module, plan).run();
}

} // namespace kiln::rows
