// One pass over the elements of a tile, and the exchange that ends it. See Lowering.h.
#include "codegen/families/rows/Lowering.h"

using namespace mlir;

namespace kiln::rows {

using ir::ReduceKind;

/// Builds the scalar operations of one pass; every input becomes an argument of the block.
struct Lowering::ElementBody {
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
      int64_t width = lowering.accessWidth(from);
      return input(node, lowering.source(from, node->element()), width, from.column.coefficient);
    }
    if (node->kind == Node::Kind::index)
      return lowering.index(node);
    return scalarOp(lowering.builder, node, [&](Node* operand) { return value(operand); });
  }
};

void Lowering::emitPass(int level) {
  Pass& pass = passes[level];
  if (pass.reduces.empty() && pass.outputs.empty())
    return;
  for (Node* reduce : pass.reduces)
    if (reduce != onlineSum)
      rowValues[reduce] = accumulator(reduce);
  for (Node* node : pass.kept)
    fragments[node] =
        builder.create<cu::KeepOp>(named(nameOf(node, "kept") + "_tile", node->value.getLoc()),
                                   cu::FragmentType::get(builder.getContext(), node->element()),
                                   hasRing() ? ir::Keep::registers : keep());
  for (const Output* output : pass.outputs)
    if (output->kind == Output::Kind::full && transposes(outputAccess[output])) {
      std::string name = context.outputs[output->index]->tensor.name + "_transposed";
      auto type = cu::FragmentType::get(builder.getContext(), resultElement(*output));
      transposed[output] =
          builder.create<cu::TransposedOp>(named(name, output->location), type, tile);
    }
  if (llvm::is_contained(pass.reduces, onlineSum))
    scaleOnline(passes.front().reduces.front());
  if (!emitOnline(pass) && !emitExtremes(pass))
    emitEach(pass);
  emitExchange(pass);
}

Value Lowering::accumulator(Node* reduce) {
  auto kind = cast<ir::ReduceOp>(reduce->op()).getKind();
  return builder.create<cu::RowAccumulatorOp>(
      named(nameOf(reduce, ir::stringifyReduceKind(kind)) + "_r", reduce->value.getLoc()),
      cu::RowsType::get(builder.getContext(), builder.getF32Type()), kind);
}

/// Builds a cu.each_row whose `body` gets a scalar for each of the inputs, of fp32.
void Lowering::computeRows(Location at, ArrayRef<Value> inputs,
                           llvm::function_ref<void(ValueRange)> body) {
  auto each = builder.create<cu::EachRowOp>(at, inputs);
  OpBuilder::InsertionGuard guard(builder);
  Block& block = each.getBody().emplaceBlock();
  builder.setInsertionPointToEnd(&block);
  for (Value input : inputs)
    block.addArgument(builder.getF32Type(), input.getLoc());
  body(block.getArguments());
}

/// The kept tile that a reduction is the largest or smallest of, if it is.
Value Lowering::extremeOf(Node* reduce) const {
  auto kind = cast<ir::ReduceOp>(reduce->op()).getKind();
  if (kind != ReduceKind::max && kind != ReduceKind::min)
    return {};
  return fragments.lookup(beforeWidening(reduce->operands[0]));
}

/// Whether the pass only looks for the largest or smallest of tiles; emits it if so.
bool Lowering::emitExtremes(Pass& pass) {
  if (!pass.kept.empty() || !pass.outputs.empty() ||
      !llvm::all_of(pass.reduces, [&](Node* reduce) { return bool(extremeOf(reduce)); }))
    return false;
  for (Node* reduce : pass.reduces)
    builder.create<cu::CombineTileOp>(reduce->value.getLoc(),
                                      cast<ir::ReduceOp>(reduce->op()).getKind(), tile,
                                      extremeOf(reduce), rowValues[reduce]);
  return true;
}

void Lowering::emitEach(Pass& pass) {
  auto isOnline = [&](Node* reduce) { return reduce == onlineSum; };
  if (llvm::all_of(pass.reduces, isOnline) && pass.outputs.empty() && pass.kept.empty())
    return;
  Operation* first =
      pass.reduces.empty() ? pass.outputs.front()->node->op() : pass.reduces.front()->op();
  const bool sums = llvm::any_of(
      pass.outputs, [](const Output* output) { return output->kind != Output::Kind::full; });
  const bool guard = sums || keepsGuarded; // of a row left out nothing was kept
  keepsGuarded |= guard && !pass.kept.empty();
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
    if (!isOnline(reduce))
      builder.create<cu::AccumulateOp>(reduce->value.getLoc(), body.value(reduce->operands[0]),
                                       rowValues[reduce]);
  for (const Output* output : pass.outputs)
    emitResult(*output, body);
  each.setAccess(body.access);
  each.setColumnStrides(body.columnStrides);
}

void Lowering::emitResult(const Output& output, ElementBody& body) {
  if (output.kind != Output::Kind::full) {
    builder.create<cu::AccumulateOp>(output.location, body.value(output.node),
                                     accumulators[&output]);
    return;
  }
  const Access& access = outputAccess[&output];
  if (Value tile = transposed.lookup(&output)) {
    builder.create<cu::SetOp>(output.location, body.value(beforeRounding(output.node)), tile);
    return;
  }
  builder.create<cu::PutOp>(output.location, body.value(beforeRounding(output.node)),
                            pointer(*access.buffer, resultElement(output)), rowMap(access, true),
                            accessWidth(access));
}

/// Reductions of one kind share an exchange; a mean is a sum that is scaled afterwards.
void Lowering::emitExchange(Pass& pass) {
  llvm::MapVector<int, SmallVector<Value>> byKind;
  for (Node* reduce : pass.reduces) {
    auto kind = cast<ir::ReduceOp>(reduce->op()).getKind();
    byKind[int(kind == ReduceKind::mean ? ReduceKind::sum : kind)].push_back(rowValues[reduce]);
  }
  if (schedule.cluster > 1 && &pass == &passes.front())
    builder.create<cu::ClusterWaitOp>(location); // the other block runs
  for (auto& [kind, values] : byKind)
    builder.create<cu::RowReduceOp>(location, tile, values, static_cast<ReduceKind>(kind));
  SmallVector<Node*> means;
  for (Node* reduce : pass.reduces)
    if (cast<ir::ReduceOp>(reduce->op()).getKind() == ReduceKind::mean)
      means.push_back(reduce);
  if (means.empty())
    return;
  SmallVector<Value> values;
  for (Node* mean : means)
    values.push_back(rowValues[mean]);
  computeRows(means.front()->op()->getLoc(), values, [&](ValueRange sums) {
    Value width = builder.create<arith::ConstantOp>(
        location, builder.getF32FloatAttr(static_cast<float>(program.width())));
    for (auto [sum, place] : llvm::zip(sums, values))
      builder.create<cu::SetRowOp>(location, builder.create<arith::DivFOp>(location, sum, width),
                                   place);
  });
}

} // namespace kiln::rows
