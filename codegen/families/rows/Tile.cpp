// One tile: loads, random numbers, values of rows, results of rows. See Lowering.h.
#include "codegen/families/rows/Lowering.h"

using namespace mlir;

namespace kiln::rows {

/// The current column or row; 0 along a dimension of size 1 that is repeated.
Value Lowering::index(Node* node) {
  Location at = node->op()->getLoc();
  if (node->perColumn)
    return builder.create<cu::ColumnOp>(at, node->element(), tile);
  if (node->perRow)
    return builder.create<cu::RowOp>(at, node->element(), tile);
  return builder.create<arith::ConstantOp>(at, builder.getIntegerAttr(node->element(), 0));
}

void Lowering::emitInput(Node* node, const Access& access) {
  MLIRContext* c = builder.getContext();
  auto fragment = cu::FragmentType::get(c, node->element());
  auto values = cu::RowsType::get(c, node->element());
  Value from = source(access, node->element());
  if (hasRing() && isFull(node))
    fragments[node] =
        builder.create<cu::ReadOp>(named(nameOf(node, "x") + "_tile"), fragment, tile, ring,
                                   context.isLoose ? from : Value(), places[node]);
  else if (comesThroughRing(node))
    rowValues[node] = builder.create<cu::ReadRowsOp>(named(nameOf(node, "row") + "_r"), values,
                                                     tile, ring, from, places[node]);
  else if (isFull(node) && transposes(access))
    fragments[node] = builder.create<cu::LoadTransposedOp>(
        named(nameOf(node, "x") + "_tile"), fragment, tile, from, rowMap(access, true));
  else if (isFull(node))
    fragments[node] =
        builder.create<cu::LoadOp>(named(nameOf(node, "x") + "_tile"), fragment, tile, from,
                                   rowMap(access, true), accessWidth(access), keep());
  else
    rowValues[node] = builder.create<cu::LoadRowsOp>(named(nameOf(node, "row") + "_r"), values,
                                                     tile, from, rowMap(access, false));
}

/// What is read of the tile's rows: whole rows first, then values of rows.
void Lowering::emitInputs() {
  auto emit = [&](auto chosen) {
    for (bool full : {true, false})
      for (auto& [node, access] : inputAccess)
        if (node->perRow && isFull(node) == full && chosen(node))
          emitInput(node, access);
  };
  if (hasRing()) { // what does not come through it need not wait for it
    emit([&](Node* node) { return !comesThroughRing(node); });
    builder.create<cu::AwaitRingOp>(location, ring);
    emit([&](Node* node) { return comesThroughRing(node); });
    builder.create<cu::ReleaseRingOp>(location, ring);
  } else if (loadsAhead()) {
    emit([&](Node* node) { return isOlder(node); });
    awaitPredecessor();
    emit([&](Node* node) { return !isOlder(node); });
  } else {
    emit([](Node*) { return true; });
  }
  for (auto& node : program.nodes)
    if (node->kind == Node::Kind::pick)
      emitPick(node.get());
}

void Lowering::emitPick(Node* node) {
  const Access& access = inputAccess[node->operands[0]];
  rowValues[node] = builder.create<cu::PickRowsOp>(
      named(nameOf(node, "picked") + "_r"),
      cu::RowsType::get(builder.getContext(), node->element()), tile,
      pointer(*access.buffer, node->element()), rowMap(access, true), rowValues[node->operands[1]]);
}

void Lowering::emitTile() {
  emitInputs();
  if (schedule.grid == Grid::oneShot)
    stageColumns();
  for (auto& [node, access] : randomAccess)
    emitRandom(node, access);
  if (schedule.keep == Keep::shared && !fragments.empty())
    awaited = builder.create<cu::AwaitCopiesOp>(location);
  if (readsTransposed())
    builder.create<cu::BarrierOp>(location, hasRing());
  int staged = 0; // the level at which the last row output is complete
  for (const Output& output : program.outputs)
    if (output.kind == Output::Kind::row)
      staged = std::max(staged, output.node->level);
  for (int level = 0; level <= program.levels; ++level) {
    emitRowValues(level);
    if (level == 0)
      emitGathers();
    if (level == staged)
      stageRowOutputs();
    if (level == columnsLevel)
      awaitColumns();
    if (level < program.levels)
      emitPass(level);
  }
  sumRowOutputs();
  storeTransposed();
  storeRowOutputs();
  if (schedule.grid == Grid::resident && (!transposed.empty() || readsTransposed()))
    builder.create<cu::BarrierOp>(location, hasRing()); // the next tile comes to the same place
}

bool Lowering::readsTransposed() {
  return llvm::any_of(inputAccess, [&](const auto& input) {
    return isFull(input.first) && transposes(input.second);
  });
}

/// Each thread stores what others computed.
void Lowering::storeTransposed() {
  if (!transposed.empty())
    builder.create<cu::BarrierOp>(location, hasRing());
  for (auto& [output, fragment] : transposed) {
    const Access& access = outputAccess[output];
    builder.create<cu::StoreTransposedOp>(output->location, tile, fragment,
                                          pointer(*access.buffer, resultElement(*output)),
                                          rowMap(access, true));
  }
}

void Lowering::emitRandom(Node* node, const Access& access) {
  Value seed = uniforms[node->operands[0]], offset = uniforms[node->operands[1]];
  const uint64_t bits = cast<ir::RandomOp>(node->op()).getBits();
  std::string name = nameOf(node, "u");
  if (isRowValue(node))
    rowValues[node] = builder.create<cu::RandomRowsOp>(
        named(name + "_r"), cu::RowsType::get(builder.getContext(), node->element()), tile,
        rowMap(access, false), seed, offset, bits);
  else
    randoms[node] = builder.create<cu::RandomOp>(
        named(name + "_tile"), cu::FragmentType::get(builder.getContext(), node->element()), tile,
        rowMap(access, true), seed, offset, bits);
}

/// Rows of tables, once it is known which.
void Lowering::emitGathers() {
  for (auto& node : program.nodes) {
    if (node->kind != Node::Kind::gather)
      continue;
    const BufferInfo& table = *tableOf(node.get());
    const Access access = makeAccess(table, {0, 1}, 1);
    const Extent& rowsOfTable = table.tensor.shape[0];
    const Stride& step = access.leading[0];
    auto constant = [&](int64_t value) -> Value {
      return builder.create<arith::ConstantOp>(location, builder.getI64IntegerAttr(value));
    };
    Value count = rowsOfTable.isStatic() ? constant(rowsOfTable.size)
                                         : product(KernelArgument::Kind::size, rowsOfTable,
                                                   table.tensor.name + "_rows");
    Value stride = step.isConstant() ? constant(step.coefficient) : strideArgument(access, step);
    fragments[node.get()] = builder.create<cu::GatherOp>(
        named(nameOf(node.get(), "gathered") + "_tile", node->op()->getLoc()),
        cu::FragmentType::get(builder.getContext(), node->element()), tile,
        pointer(table, node->element()), valuesOfRows(node->operands[0], node->op()->getLoc()),
        count, stride, access.column.coefficient, accessWidth(access), keep());
  }
}

/// Values of rows that become computable at `level` and that elements or results need.
void Lowering::emitRowValues(int level) {
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
    if (output.kind == Output::Kind::row || output.kind == Output::Kind::full)
      wanted(beforeRounding(output.node)); // stores round
    else
      wanted(output.node);
  if (!targets.empty())
    emitEachRow(targets);
}

/// Values of rows are staged together before the first pass that leaves them as they are, and
/// stored at the end of the tile.
void Lowering::stageRowOutputs() {
  for (const Output& output : program.outputs)
    if (output.kind == Output::Kind::row)
      rowOutputs.push_back(valuesOfRows(beforeRounding(output.node), output.location));
  if (!rowOutputs.empty())
    builder.create<cu::StageRowsOp>(location, tile, rowOutputs);
}

void Lowering::storeRowOutputs() {
  SmallVector<Value> pointers, maps;
  for (const Output& output : program.outputs) {
    if (output.kind != Output::Kind::row)
      continue;
    const Access& access = outputAccess[&output];
    pointers.push_back(pointer(*access.buffer, resultElement(output)));
    maps.push_back(rowMap(access, false));
  }
  if (!rowOutputs.empty())
    builder.create<cu::StoreRowsOp>(location, tile, rowOutputs, pointers, maps);
}

void Lowering::sumRowOutputs() {
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

/// One value a row, also where it is the same for every row.
Value Lowering::valuesOfRows(Node* node, Location at) {
  if (!isUniform(node))
    return rowValues[node];
  auto place =
      builder.create<cu::RowsOp>(at, cu::RowsType::get(builder.getContext(), node->element()));
  auto each = builder.create<cu::EachRowOp>(at, ValueRange());
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(&each.getBody().emplaceBlock());
  builder.create<cu::SetRowOp>(at, uniforms[node], place);
  return place;
}

void Lowering::emitEachRow(ArrayRef<Node*> targets) {
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
    return local[node] = scalarOp(builder, node, value);
  };
  for (auto [target, place] : llvm::zip(targets, places))
    builder.create<cu::SetRowOp>(target->value.getLoc(), value(target), place);
  for (auto [target, place] : llvm::zip(targets, places))
    rowValues[target] = place;
}

} // namespace kiln::rows
