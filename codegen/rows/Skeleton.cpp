// See Skeleton.h. The order of a generated kernel:
//   wait; maps of the buffers; uniform values; running column sums;
//   for each tile: loads, random numbers; for each level: values of rows, pass over the elements,
//   exchange;
//   release; partial column sums.
#include "codegen/rows/Skeleton.h"

#include "codegen/exit/Exit.h"
#include "codegen/rows/PassPlan.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/MapVector.h"

#include <deque>

using namespace mlir;

namespace kiln::rows {
namespace {

using ir::ReduceKind;

bool isFull(const Node* n) {
  return n->perColumn && n->perRow;
}
bool isRowValue(const Node* n) {
  return n->perRow && !n->perColumn;
}
bool isUniform(const Node* n) {
  return !n->perRow && !n->perColumn;
}

/// Rounding to the type stored happens in the store.
Node* beforeRounding(Node* n) {
  return n->kind == Node::Kind::scalar && isa<arith::TruncFOp>(n->op()) ? n->operands[0] : n;
}

class Lowering {
 public:
  Lowering(const KernelContext& context, ModuleOp module, LaunchPlan& plan)
      : context(context), program(*context.program), schedule(context.schedule), plan(plan),
        builder(module.getContext()), location(module.getLoc()) {
    builder.setInsertionPointToEnd(module.getBody());
  }

  void run() {
    passes = planPasses(program, schedule.getKeep() != ir::Keep::global);
    collectAccesses();
    startKernel();
    emitBody();
    finishKernel();
    if (!sums.empty())
      emitFinishKernel();
  }

 private:
  // --- memory ------------------------------------------------------------------------------

  const BufferInfo* bufferOf(const Node* input) const {
    return context.inputs[cast<BlockArgument>(input->value).getArgNumber()];
  }
  SmallVector<int> mapOf(const Output& output) const {
    SmallVector<int> map;
    size_t rank = program.rank() + (output.kind == Output::Kind::full);
    for (size_t d = 0; d < rank; ++d)
      map.push_back(d);
    return map;
  }

  /// Random numbers lie like a contiguous tensor of their own shape, which is nowhere stored.
  const BufferInfo& numbersOf(const Node* random) {
    BufferInfo& numbers = imagined.emplace_back();
    numbers.tensor.name = nameOf(random, "u");
    const Extent one{1, -1}, column{program.width(), -1};
    for (int d : random->map) {
      bool isColumn = d == static_cast<int>(program.rank());
      numbers.tensor.shape.push_back(isColumn ? column : d < 0 ? one : context.space[d]);
    }
    makeContiguous(numbers.tensor);
    return numbers;
  }

  void collectAccesses() {
    for (auto& node : program.nodes)
      if (node->kind == Node::Kind::input)
        inputAccess[node.get()] = makeAccess(*bufferOf(node.get()), node->map, program.rank());
      else if (node->kind == Node::Kind::random)
        randomAccess[node.get()] = makeAccess(numbersOf(node.get()), node->map, program.rank());
    for (const Output& output : program.outputs)
      if (output.kind == Output::Kind::full || output.kind == Output::Kind::row)
        outputAccess[&output] =
            makeAccess(*context.outputs[output.index], mapOf(output), program.rank());
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

  // --- kernel arguments --------------------------------------------------------------------

  Value argument(const KernelArgument& what, Type type, StringRef name) {
    for (auto [i, known] : llvm::enumerate(arguments))
      if (argumentNames[i] == name)
        return block->getArgument(i);
    arguments.push_back(what);
    argumentNames.push_back(name.str());
    return block->addArgument(type, location);
  }
  Value pointer(const BufferInfo& buffer, Type element) {
    KernelArgument what;
    what.kind = KernelArgument::Kind::buffer;
    what.name = buffer.tensor.name;
    return argument(what, cu::PointerType::get(builder.getContext(), element), what.name);
  }
  Value product(KernelArgument::Kind kind, ArrayRef<Extent> factors, const std::string& name) {
    KernelArgument what;
    what.kind = kind;
    what.product.factors.assign(factors.begin(), factors.end());
    return argument(what, builder.getI64Type(), name);
  }
  Value strideArgument(const Access& access, const Stride& stride) {
    const std::string& name = access.buffer->tensor.name;
    if (stride.runTimeDimension >= 0) {
      KernelArgument what;
      what.kind = KernelArgument::Kind::stride;
      what.name = name;
      what.dimension = stride.runTimeDimension;
      return argument(what, builder.getI64Type(),
                      name + "_stride" + std::to_string(stride.runTimeDimension));
    }
    SmallVector<Extent> factors{Extent{stride.coefficient, -1}};
    std::string label = "step";
    for (int symbol : stride.symbols) {
      factors.push_back(Extent{0, symbol});
      label += "_d" + std::to_string(symbol);
    }
    return product(KernelArgument::Kind::size, factors,
                   label + "_" + std::to_string(stride.coefficient));
  }

  /// Sizes and strides of the merged leading dimensions, one row map for each distinct text.
  Value rowMap(const Access& access, bool withColumn) {
    SmallVector<int64_t> sizes, strides;
    SmallVector<Value> runTimeSizes, runTimeStrides;
    for (auto [i, run] : llvm::enumerate(runs)) {
      ArrayRef<Extent> extents =
          ArrayRef(context.space).slice(run.first, run.second + 1 - run.first);
      bool constant = llvm::all_of(extents, [](const Extent& e) { return e.isStatic(); });
      int64_t size = 1;
      for (const Extent& extent : extents)
        size *= extent.size;
      if (i == 0 || constant) {
        sizes.push_back(i == 0 ? 0 : size);
      } else {
        sizes.push_back(-1);
        runTimeSizes.push_back(
            product(KernelArgument::Kind::size, extents, "size" + std::to_string(run.first)));
      }
      const Stride& stride = access.leading[run.second];
      strides.push_back(stride.isConstant() ? stride.coefficient : -1);
      if (!stride.isConstant())
        runTimeStrides.push_back(strideArgument(access, stride));
    }
    if (runs.empty()) {
      sizes.push_back(0);
      strides.push_back(0);
    }
    int64_t column = withColumn ? access.column.coefficient : 1;
    for (auto& [key, value] : maps)
      if (key.getSizes() == ArrayRef(sizes) && key.getStrides() == ArrayRef(strides) &&
          static_cast<int64_t>(key.getColumnStride()) == column &&
          llvm::equal(key.getRunTimeSizes(), runTimeSizes) &&
          llvm::equal(key.getRunTimeStrides(), runTimeStrides))
        return value;
    std::string name = "rows";
    for (int64_t stride : strides)
      name += "_" + (stride < 0 ? access.buffer->tensor.name : std::to_string(stride));
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(mapsEnd);
    auto op = builder.create<cu::RowMapOp>(named(name), cu::MapType::get(builder.getContext()),
                                           sizes, strides, column, runTimeSizes, runTimeStrides);
    maps.push_back({op, op.getMap()});
    return op.getMap();
  }

  Location named(const std::string& name) { return named(name, location); }
  Location named(const std::string& name, Location at) {
    return NameLoc::get(builder.getStringAttr(name), at);
  }
  /// The name that the source gives a value, or one made from `fallback`.
  std::string nameOf(const Node* node, StringRef fallback) {
    if (node->kind == Node::Kind::input)
      return bufferOf(node)->tensor.name;
    if (auto loc = dyn_cast<NameLoc>(node->value.getLoc()))
      return loc.getName().str();
    return fallback.str();
  }

  // --- the kernel ---------------------------------------------------------------------------

  void startKernel() {
    kernel = builder.create<cu::KernelOp>(location, context.name, builder.getStrArrayAttr({}),
                                          schedule.getThreads(), schedule.getBlocks(),
                                          program.width(), schedule, 0);
    block = &kernel.getBody().emplaceBlock();
    builder.setInsertionPointToEnd(block);
    // pointers first, in the order of the kernel's inputs
    for (const BufferInfo* buffer : context.inputs)
      for (auto& node : program.nodes)
        if (node->kind == Node::Kind::input && bufferOf(node.get()) == buffer)
          pointer(*buffer, node->element());
    for (const Output& output : program.outputs)
      if (outputAccess.contains(&output))
        pointer(*context.outputs[output.index], resultElement(output));
    size_t sumWidth = 0;
    for (const Output& output : program.outputs)
      if (!outputAccess.contains(&output)) {
        sums.push_back({&output, static_cast<int64_t>(sumWidth)});
        sumWidth += output.kind == Output::Kind::columnSum ? program.width() : 1;
      }
    partialWidth = sumWidth;
    partialStride = (sumWidth + 3) / 4 * 4;
    if (!sums.empty()) {
      KernelArgument what;
      what.kind = KernelArgument::Kind::buffer;
      what.name = context.name + "_partials";
      argument(what, cu::PointerType::get(builder.getContext(), builder.getF32Type()), what.name);
    }
    rows = product(KernelArgument::Kind::rows, context.space, "row_count");
  }

  Type resultElement(const Output& output) {
    DType dtype = context.outputs[output.index]->tensor.dtype;
    MLIRContext* c = builder.getContext();
    switch (dtype) {
    case DType::bf16:
      return BFloat16Type::get(c);
    case DType::f16:
      return Float16Type::get(c);
    case DType::i1:
      return builder.getI1Type();
    case DType::i32:
      return builder.getI32Type();
    case DType::i64:
      return builder.getI64Type();
    default:
      return builder.getF32Type();
    }
  }

  void emitBody() {
    bool once = schedule.getGrid() == ir::Grid::one_shot;
    bool programmatic = schedule.getLaunch() == ir::LaunchMode::programmatic;
    mapsEnd = builder.create<cu::BarrierOp>(location); // a mark, erased below
    if (programmatic) {
      builder.create<cu::WaitOp>(location);
      if (once)
        builder.create<cu::ReleaseOp>(location);
    }
    stageColumns();
    emitUniforms();
    for (auto& [output, first] : sums)
      accumulators[output] =
          output->kind == Output::Kind::columnSum
              ? Value(builder.create<cu::ColumnSumsOp>(named(sumName(*output)),
                                                       cu::SumsType::get(builder.getContext())))
              : Value(builder.create<cu::TotalOp>(named(sumName(*output)),
                                                  cu::TotalType::get(builder.getContext())));
    auto tiles = builder.create<cu::TilesOp>(location, rows, once);
    {
      OpBuilder::InsertionGuard guard(builder);
      Block& body = tiles.getBody().emplaceBlock();
      tile = body.addArgument(cu::TileType::get(builder.getContext()), location);
      builder.setInsertionPointToEnd(&body);
      emitTile();
    }
    if (programmatic && !once)
      builder.create<cu::ReleaseOp>(location);
    for (auto& [output, first] : sums)
      emitPartial(*output, first);
    mapsEnd->erase();
  }

  /// Starts to copy the values that all rows share, if the schedule wants them in shared memory.
  /// They are awaited before their first use, or before a loop over tiles.
  void stageColumns() {
    if (schedule.getColumns() == ir::Columns::global)
      return;
    for (auto& [node, access] : inputAccess) {
      if (!node->perColumn || node->perRow)
        continue;
      Type element = node->element();
      columns[node] = builder.create<cu::StageColumnsOp>(
          named(nameOf(node, "columns") + "_s"),
          cu::ColumnsType::get(builder.getContext(), element), pointer(*access.buffer, element),
          widestAccess(access, schedule.getVector()), access.column.coefficient, 0);
    }
    if (columns.empty())
      return;
    if (schedule.getGrid() == ir::Grid::resident)
      awaitColumns();
    else
      columnsLevel =
          llvm::find_if(passes, [](Pass& pass) { return !pass.columns.empty(); }) - passes.begin();
  }
  void awaitColumns() {
    builder.create<cu::AwaitCopiesOp>(location);
    builder.create<cu::BarrierOp>(location);
  }

  std::string sumName(const Output& output) {
    return context.outputs[output.index]->tensor.name + "_sum";
  }

  void emitPartial(const Output& output, int64_t first) {
    Value partials = block->getArgument(llvm::find(argumentNames, context.name + "_partials") -
                                        argumentNames.begin());
    if (output.kind == Output::Kind::columnSum)
      builder.create<cu::StoreColumnsOp>(location, accumulators[&output], partials, rows,
                                         partialStride, first, 0);
    else
      builder.create<cu::StoreTotalOp>(location, accumulators[&output], partials, rows,
                                       partialStride, first, 0);
  }

  /// Values that are the same for all rows and columns: loaded and computed once.
  void emitUniforms() {
    for (auto& node : program.nodes) {
      if (!isUniform(node.get()))
        continue;
      if (node->kind == Node::Kind::input)
        uniforms[node.get()] = builder.create<cu::LoadUniformOp>(
            named(nameOf(node.get(), "value") + "_0"), node->element(),
            pointer(*bufferOf(node.get()), node->element()));
      else if (node->kind == Node::Kind::constant)
        uniforms[node.get()] = scalarConstant(node.get());
      else if (node->kind == Node::Kind::index)
        uniforms[node.get()] = index(node.get());
      else
        uniforms[node.get()] = scalarOp(node.get(), [&](Node* n) { return uniforms[n]; });
    }
  }

  Value scalarConstant(Node* node) {
    auto elements = cast<DenseElementsAttr>(cast<arith::ConstantOp>(node->op()).getValue());
    auto value = elements.getSplatValue<TypedAttr>();
    auto number = dyn_cast<FloatAttr>(value);
    if (!number || number.getType().isF32())
      return builder.create<arith::ConstantOp>(node->op()->getLoc(), value);
    APFloat wide = number.getValue();
    bool lossy;
    wide.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven, &lossy);
    Value constant = builder.create<arith::ConstantOp>(node->op()->getLoc(),
                                                       FloatAttr::get(builder.getF32Type(), wide));
    return builder.create<arith::TruncFOp>(node->op()->getLoc(), number.getType(), constant);
  }

  /// The current column or row; 0 along a dimension of size 1 that is repeated.
  Value index(Node* node) {
    Location at = node->op()->getLoc();
    if (node->perColumn)
      return builder.create<cu::ColumnOp>(at, node->element(), tile);
    if (node->perRow)
      return builder.create<cu::RowOp>(at, node->element(), tile);
    return builder.create<arith::ConstantOp>(at, builder.getIntegerAttr(node->element(), 0));
  }

  /// The tensor operation on single elements.
  Value scalarOp(Node* node, llvm::function_ref<Value(Node*)> operand) {
    SmallVector<Value> operands;
    for (Node* from : node->operands)
      operands.push_back(operand(from));
    Operation* clone = node->op()->cloneWithoutRegions();
    clone->setOperands(operands);
    clone->getResult(0).setType(node->element());
    builder.insert(clone);
    return clone->getResult(0);
  }

  // --- one tile -----------------------------------------------------------------------------

  void emitTile() {
    for (auto& [node, access] : inputAccess)
      if (isFull(node))
        fragments[node] = builder.create<cu::LoadOp>(
            named(nameOf(node, "x") + "_tile"),
            cu::FragmentType::get(builder.getContext(), node->element()), tile,
            pointer(*access.buffer, node->element()), rowMap(access, true),
            widestAccess(access, schedule.getVector()), schedule.getKeep(), 0);
    for (auto& [node, access] : inputAccess)
      if (isRowValue(node))
        rowValues[node] = builder.create<cu::LoadRowsOp>(
            named(nameOf(node, "row") + "_r"),
            cu::RowsType::get(builder.getContext(), node->element()), tile,
            pointer(*access.buffer, node->element()), rowMap(access, false));
    for (auto& [node, access] : randomAccess)
      emitRandom(node, access);
    if (schedule.getKeep() == ir::Keep::shared && !fragments.empty())
      builder.create<cu::AwaitCopiesOp>(location);
    int staged = 0; // the level at which the last row output is complete
    for (const Output& output : program.outputs)
      if (output.kind == Output::Kind::row)
        staged = std::max(staged, output.node->level);
    for (int level = 0; level <= program.levels; ++level) {
      emitRowValues(level);
      if (level == staged)
        stageRowOutputs();
      if (level == columnsLevel)
        awaitColumns();
      if (level < program.levels)
        emitPass(level);
    }
    sumRowOutputs();
    storeRowOutputs();
  }

  void emitRandom(Node* node, const Access& access) {
    Value seed = uniforms[node->operands[0]], offset = uniforms[node->operands[1]];
    std::string name = nameOf(node, "u");
    if (isRowValue(node))
      rowValues[node] = builder.create<cu::RandomRowsOp>(
          named(name + "_r"), cu::RowsType::get(builder.getContext(), node->element()), tile,
          rowMap(access, false), seed, offset);
    else
      randoms[node] = builder.create<cu::RandomOp>(
          named(name + "_tile"), cu::FragmentType::get(builder.getContext(), node->element()), tile,
          rowMap(access, true), seed, offset);
  }

  /// Values of rows that become computable at `level` and that elements or results need.
  void emitRowValues(int level) {
    SmallVector<Node*> targets;
    auto wanted = [&](Node* node) {
      bool computed = node->kind == Node::Kind::scalar || node->kind == Node::Kind::index;
      if (isRowValue(node) && computed && node->level == level && !rowValues.contains(node) &&
          !llvm::is_contained(targets, node))
        targets.push_back(node);
    };
    for (auto& node : program.nodes)
      for (Node* operand : node->operands)
        if (node->perColumn || node->level > operand->level)
          wanted(operand);
    for (const Output& output : program.outputs)
      if (output.kind == Output::Kind::row)
        wanted(beforeRounding(output.node));
      else
        wanted(output.node);
    if (!targets.empty())
      emitEachRow(targets);
  }

  /// Values of rows are staged together before the first pass that leaves them as they are, and
  /// stored at the end of the tile.
  void stageRowOutputs() {
    for (const Output& output : program.outputs)
      if (output.kind == Output::Kind::row)
        rowOutputs.push_back(rowOutput(output));
    if (!rowOutputs.empty())
      builder.create<cu::StageRowsOp>(location, tile, rowOutputs, 0);
  }

  void storeRowOutputs() {
    SmallVector<Value> pointers, maps;
    for (const Output& output : program.outputs) {
      if (output.kind != Output::Kind::row)
        continue;
      const Access& access = outputAccess[&output];
      pointers.push_back(pointer(*access.buffer, resultElement(output)));
      maps.push_back(rowMap(access, false));
    }
    if (!rowOutputs.empty())
      builder.create<cu::StoreRowsOp>(location, tile, rowOutputs, pointers, maps, 0);
  }

  void sumRowOutputs() {
    for (const Output& output : program.outputs) {
      if (output.kind != Output::Kind::rowSum)
        continue;
      auto each = builder.create<cu::EachRowOp>(output.location, ValueRange());
      Block& body = each.getBody().emplaceBlock();
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToEnd(&body);
      Value value = uniforms.lookup(output.node);
      if (!value) {
        each.getInputsMutable().append(rowValues[output.node]);
        value = body.addArgument(output.node->element(), output.location);
      }
      builder.create<cu::AccumulateRowOp>(output.location, value, tile, accumulators[&output]);
    }
  }

  Value rowOutput(const Output& output) {
    Node* node = beforeRounding(output.node);
    if (!isUniform(node))
      return rowValues[node];
    auto place = builder.create<cu::RowsOp>( // the same for every row
        output.location, cu::RowsType::get(builder.getContext(), node->element()));
    auto each = builder.create<cu::EachRowOp>(output.location, ValueRange());
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(&each.getBody().emplaceBlock());
    builder.create<cu::SetRowOp>(output.location, uniforms[node], place);
    return place;
  }

  void emitEachRow(ArrayRef<Node*> targets) {
    SmallVector<cu::RowsOp> places;
    for (Node* target : targets)
      places.push_back(
          builder.create<cu::RowsOp>(named(nameOf(target, "row") + "_r", target->value.getLoc()),
                                     cu::RowsType::get(builder.getContext(), target->element())));
    auto each = builder.create<cu::EachRowOp>(targets.front()->op()->getLoc(), ValueRange());
    Block& body = each.getBody().emplaceBlock();
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(&body);
    llvm::DenseMap<Node*, Value> local;
    std::function<Value(Node*)> value = [&](Node* node) -> Value {
      if (isUniform(node))
        return uniforms[node];
      if (Value known = local.lookup(node))
        return known;
      if (Value known = rowValues.lookup(node)) {
        each.getInputsMutable().append(known);
        return local[node] = body.addArgument(node->element(), known.getLoc());
      }
      if (node->kind == Node::Kind::index)
        return local[node] = index(node);
      return local[node] = scalarOp(node, value);
    };
    for (auto [target, place] : llvm::zip(targets, places))
      builder.create<cu::SetRowOp>(target->value.getLoc(), value(target), place);
    for (auto [target, place] : llvm::zip(targets, places))
      rowValues[target] = place;
  }

  // --- one pass over the elements -------------------------------------------------------------

  void emitPass(int level) {
    Pass& pass = passes[level];
    if (pass.reduces.empty() && pass.outputs.empty())
      return;
    for (Node* reduce : pass.reduces) {
      auto kind = cast<ir::ReduceOp>(reduce->op()).getKind();
      rowValues[reduce] = builder.create<cu::RowAccumulatorOp>(
          named(nameOf(reduce, ir::stringifyReduceKind(kind)) + "_r", reduce->value.getLoc()),
          cu::RowsType::get(builder.getContext(), builder.getF32Type()), kind);
    }
    for (Node* node : pass.kept)
      fragments[node] = builder.create<cu::KeepOp>(
          named(nameOf(node, "kept") + "_tile", node->value.getLoc()),
          cu::FragmentType::get(builder.getContext(), node->element()), schedule.getKeep(), 0);
    emitEach(pass);
    emitExchange(pass);
  }

  void emitEach(Pass& pass) {
    Operation* first =
        pass.reduces.empty() ? pass.outputs.front()->node->op() : pass.reduces.front()->op();
    bool guard = llvm::any_of(
        pass.outputs, [](const Output* output) { return output->kind != Output::Kind::full; });
    auto each = builder.create<cu::EachOp>(first ? first->getLoc() : location, tile, ValueRange(),
                                           builder.getDenseI64ArrayAttr({}),
                                           builder.getDenseI64ArrayAttr({}), guard);
    OpBuilder::InsertionGuard insertion(builder);
    builder.setInsertionPointToEnd(&each.getBody().emplaceBlock());
    ElementBody body(*this, each);
    body.computing.insert(pass.kept.begin(), pass.kept.end());
    for (Node* node : pass.kept)
      builder.create<cu::SetOp>(node->value.getLoc(), body.value(node), fragments[node]);
    for (Node* reduce : pass.reduces)
      builder.create<cu::AccumulateOp>(reduce->value.getLoc(), body.value(reduce->operands[0]),
                                       rowValues[reduce]);
    for (const Output* output : pass.outputs)
      emitResult(*output, body);
    each.setAccess(body.access);
    each.setColumnStrides(body.columnStrides);
  }

  /// Builds the scalar operations of one pass; every input becomes an argument of the block.
  struct ElementBody {
    ElementBody(Lowering& lowering, cu::EachOp each) : lowering(lowering), each(each) {}
    Lowering& lowering;
    cu::EachOp each;
    SmallVector<int64_t> access, columnStrides;
    llvm::DenseMap<Node*, Value> known;
    llvm::DenseSet<Node*> computing; // kept values that this pass itself computes

    Value input(Node* node, Value from, int64_t width, int64_t stride) {
      each.getInputsMutable().append(from);
      access.push_back(width);
      columnStrides.push_back(stride);
      return each.getBody().front().addArgument(node->element(), from.getLoc());
    }
    Value value(Node* node) {
      if (isUniform(node))
        return lowering.uniforms[node];
      if (Value found = known.lookup(node))
        return found;
      return known[node] = make(node);
    }
    Value make(Node* node) {
      if (isRowValue(node))
        return input(node, lowering.rowValues[node], 1, 1);
      if (Value fragment = lowering.fragments.lookup(node); fragment && !computing.contains(node))
        return input(node, fragment, 1, 1);
      if (Value random = lowering.randoms.lookup(node))
        return input(node, random, 1, 1);
      if (node->kind == Node::Kind::input) {
        if (Value staged = lowering.columns.lookup(node))
          return input(node, staged, 1, 1);
        const Access& from = lowering.inputAccess[node];
        int64_t width = widestAccess(from, lowering.schedule.getVector());
        return input(node, lowering.pointer(*from.buffer, node->element()), width,
                     from.column.coefficient);
      }
      if (node->kind == Node::Kind::index)
        return lowering.index(node);
      return lowering.scalarOp(node, [&](Node* operand) { return value(operand); });
    }
  };

  void emitResult(const Output& output, ElementBody& body) {
    if (output.kind != Output::Kind::full) {
      builder.create<cu::AccumulateOp>(output.location, body.value(output.node),
                                       accumulators[&output]);
      return;
    }
    const Access& access = outputAccess[&output];
    builder.create<cu::PutOp>(output.location, body.value(beforeRounding(output.node)),
                              pointer(*access.buffer, resultElement(output)), rowMap(access, true),
                              widestAccess(access, schedule.getVector()));
  }

  /// Reductions of one kind share an exchange; a mean is a sum that is scaled afterwards.
  void emitExchange(Pass& pass) {
    llvm::MapVector<int, SmallVector<Value>> byKind;
    for (Node* reduce : pass.reduces) {
      auto kind = cast<ir::ReduceOp>(reduce->op()).getKind();
      byKind[int(kind == ReduceKind::mean ? ReduceKind::sum : kind)].push_back(rowValues[reduce]);
    }
    for (auto& [kind, values] : byKind)
      builder.create<cu::RowReduceOp>(location, tile, values, static_cast<ReduceKind>(kind), 0);
    SmallVector<Node*> means;
    for (Node* reduce : pass.reduces)
      if (cast<ir::ReduceOp>(reduce->op()).getKind() == ReduceKind::mean)
        means.push_back(reduce);
    if (means.empty())
      return;
    SmallVector<Value> values;
    for (Node* mean : means)
      values.push_back(rowValues[mean]);
    auto each = builder.create<cu::EachRowOp>(means.front()->op()->getLoc(), values);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(&each.getBody().emplaceBlock());
    Value width = builder.create<arith::ConstantOp>(
        location, builder.getF32FloatAttr(static_cast<float>(program.width())));
    for (Value value : values) {
      Value sum = each.getBody().front().addArgument(builder.getF32Type(), value.getLoc());
      Value mean = builder.create<arith::DivFOp>(location, sum, width);
      builder.create<cu::SetRowOp>(location, mean, value);
    }
  }

  // --- launching ------------------------------------------------------------------------------

  void finishKernel() {
    SmallVector<StringRef> names(argumentNames.begin(), argumentNames.end());
    kernel.setArgumentsAttr(builder.getStrArrayAttr(names));
    std::string text;
    llvm::raw_string_ostream(text) << schedule;
    KernelLaunch launch;
    launch.name = context.name;
    launch.schedule = text;
    launch.threads = schedule.getThreads();
    launch.promisedBlocks = schedule.getBlocks();
    launch.programmatic = schedule.getLaunch() == ir::LaunchMode::programmatic;
    bool once = schedule.getGrid() == ir::Grid::one_shot;
    launch.grid = once ? KernelLaunch::Grid::oneShot : KernelLaunch::Grid::resident;
    launch.rowsPerBlock = schedule.getThreads() / schedule.getLanes() * schedule.getRows();
    launch.blocks = once ? 0 : schedule.getBlocks();
    launch.rows.factors.assign(context.space.begin(), context.space.end());
    launch.arguments = arguments;
    plan.kernels.push_back(std::move(launch));
    if (!sums.empty())
      plan.workspaces.push_back({context.name + "_partials",
                                 DType::f32,
                                 partialStride,
                                 static_cast<int>(plan.kernels.size()) - 1,
                                 {}});
    builder.setInsertionPointAfter(kernel);
  }

  void emitFinishKernel() {
    const int main = static_cast<int>(plan.kernels.size()) - 1;
    bool programmatic = plan.kernels[main].programmatic;
    std::string name = context.name + "_columns";
    kernel = builder.create<cu::KernelOp>(location, name, builder.getStrArrayAttr({}),
                                          kFinishThreads, 1, 0, ir::ScheduleAttr(), 0);
    block = &kernel.getBody().emplaceBlock();
    arguments.clear();
    argumentNames.clear();
    builder.setInsertionPointToEnd(block);
    KernelArgument partials, lines;
    partials.name = context.name + "_partials";
    lines.kind = KernelArgument::Kind::blocks;
    lines.kernel = main;
    Value from = argument(
        partials, cu::PointerType::get(builder.getContext(), builder.getF32Type()), "partials");
    Value count = argument(lines, builder.getI64Type(), "lines");
    for (auto& [output, first] : sums)
      pointer(*context.outputs[output->index], resultElement(*output));
    if (programmatic) {
      builder.create<cu::WaitOp>(location);
      builder.create<cu::ReleaseOp>(location);
    }
    auto total = builder.create<cu::SumPartialsOp>(location, builder.getF32Type(), from, count,
                                                   partialWidth, partialStride, kFinishThreads, 0);
    for (auto& [output, first] : sums)
      builder.create<cu::FinishColumnsOp>(
          location, total, pointer(*context.outputs[output->index], resultElement(*output)), first,
          output->kind == Output::Kind::columnSum ? program.width() : 1);
    SmallVector<StringRef> names(argumentNames.begin(), argumentNames.end());
    kernel.setArgumentsAttr(builder.getStrArrayAttr(names));
    KernelLaunch launch;
    launch.name = name;
    launch.threads = kFinishThreads;
    launch.promisedBlocks = 1;
    launch.programmatic = programmatic;
    launch.grid = KernelLaunch::Grid::fixed;
    launch.blocks = (partialWidth + 31) / 32;
    launch.arguments = arguments;
    plan.kernels.push_back(std::move(launch));
  }

  const KernelContext& context;
  const RowProgram& program;
  ir::ScheduleAttr schedule;
  LaunchPlan& plan;
  OpBuilder builder;
  Location location;

  std::vector<Pass> passes;
  llvm::MapVector<Node*, Access> inputAccess, randomAccess;
  std::deque<BufferInfo> imagined;
  llvm::MapVector<const Output*, Access> outputAccess;
  SmallVector<std::pair<size_t, size_t>> runs;
  SmallVector<std::pair<const Output*, int64_t>> sums; // and the first column in the partials
  int64_t partialWidth = 0, partialStride = 0;

  cu::KernelOp kernel;
  Block* block = nullptr;
  Operation* mapsEnd = nullptr;
  Value rows, tile;
  std::vector<KernelArgument> arguments;
  std::vector<std::string> argumentNames;
  SmallVector<std::pair<cu::RowMapOp, Value>> maps;
  llvm::DenseMap<Node*, Value> uniforms, rowValues, fragments, randoms, columns;
  int columnsLevel = -1; // the pass before which a tile awaits the columns
  SmallVector<Value> rowOutputs;
  llvm::DenseMap<const Output*, Value> accumulators;
};

} // namespace

void lowerKernel(const KernelContext& context, ModuleOp module, LaunchPlan& plan) {
  Lowering(context, module, plan).run();
}

} // namespace kiln::rows
