// What a kernel computes of attention's output: rows of the tensors that it reads, and for each
// result the scalar operations of an element (device/attention_epilogue.cuh). See Lowering.h.
#include "codegen/families/attention/Lowering.h"
#include "codegen/families/rows/Nodes.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using kiln::family::Access;
using kiln::rows::Node;

namespace kiln::attention {

Lowering::LikeOutput Lowering::likeOutput(const family::BufferInfo& buffer,
                                          ArrayRef<int> map) const {
  const Access given = family::makeAccess(buffer, map, rank - 1);
  Access access = order.access(buffer, ArrayRef(given.leading).drop_back());
  access.column = given.column;
  return {access, given.leading.back(), walkOf(order.sizes(order.all()), access)};
}

/// Rows of a tensor whose dimensions are those of the output that `map` tells.
Value Lowering::rowsLikeOutput(cu::Entry& entry, const family::BufferInfo& buffer,
                               ArrayRef<int> map, Type element, bool stored) {
  const LikeOutput like = likeOutput(buffer, map);
  return headRows(entry, like.walk, like.access, like.row, element, program.valueWidth(), stored);
}

/// Random numbers of a tensor that lies densely, and nowhere.
Value Lowering::randomLikeOutput(cu::Entry& entry, Node* node, ArrayRef<int> map) {
  auto random = cast<ir::RandomOp>(node->op());
  const std::vector<Extent>& query = buffer(program.form.query).tensor.shape;
  family::BufferInfo numbers;
  for (int d : map)
    numbers.tensor.shape.push_back(d < 0 ? Extent{1, -1}
                                   : d + 1 == static_cast<int>(rank)
                                       ? Extent{program.valueWidth(), -1}
                                       : query[d]);
  numbers.tensor.name = "random";
  family::makeContiguous(numbers.tensor);
  const LikeOutput like = likeOutput(numbers, map);
  Value rows = cu::rowMap(entry, like.walk, like.access, numbers.tensor.name);
  Value step = cu::stride(entry, like.access, like.row);
  const auto word = [&](Value of) {
    return entry.pointer(buffer(of).tensor.name, builder.getI64Type());
  };
  Value seed = word(random.getSeed());
  Value offset = word(random.getOffset());
  const bool isEven = program.valueWidth() % 2 == 0 && node->perColumn;
  return builder.create<cu::RandomHeadsOp>(location, cu::HeadsType::get(builder.getContext()), seed,
                                           offset, rows, step, node->element(), random.getBits(),
                                           isEven);
}

/// Of results of 16 bits: an epilogue is few elements of a kernel whose every instruction counts,
/// and what these lack is far less than the rounding of the result.
static void takeFastMath(Operation* op) {
  if (isa_and_present<math::ExpOp, arith::DivFOp>(op))
    op->setAttr("fastmath",
                arith::FastMathFlagsAttr::get(op->getContext(), arith::FastMathFlags::afn));
}

/// The operations of an element of one result.
class Lowering::ElementsOfOutput {
 public:
  ElementsOfOutput(Lowering& lowering, cu::Entry& entry, const Epilogue::Result& result)
      : lowering(lowering), entry(entry), result(result) {}

  /// What is read for it, before the operations that read it.
  void read(Node* node) {
    if (!seen.insert(node).second || isOutput(node))
      return;
    for (Node* operand : node->operands)
      if (node->kind == Node::Kind::scalar)
        read(operand);
    const SmallVector<int> map = result.toOutput(node->map);
    if (node->kind == Node::Kind::input)
      inputs.insert({node, lowering.rowsLikeOutput(entry, lowering.buffer(node->value), map,
                                                   node->element(), false)});
    else if (node->kind == Node::Kind::random)
      inputs.insert({node, lowering.randomLikeOutput(entry, node, map)});
  }
  Value compute(Node* node, Value rows, Type outputElement) {
    OpBuilder& builder = lowering.builder;
    const Location at = node->op() ? node->op()->getLoc() : lowering.location;
    SmallVector<Value> read;
    for (const auto& input : inputs)
      read.push_back(input.second);
    auto computed =
        builder.create<cu::ComputedRowsOp>(at, rows.getType(), rows, read, outputElement);
    OpBuilder::InsertionGuard guard(builder);
    Block& block = computed.getBody().emplaceBlock();
    builder.setInsertionPointToEnd(&block);
    output = block.addArgument(outputElement, at);
    for (const auto& input : inputs)
      values[input.first] = block.addArgument(input.first->element(), at);
    Value element = value(node);
    if (!element.getType().isF32())
      element = builder.create<arith::ExtFOp>(at, builder.getF32Type(), element);
    builder.create<cu::GiveOp>(at, element);
    return computed.getHeads();
  }

 private:
  bool isOutput(Node* node) const { return lowering.program.epilogue->isOutput(node->value); }
  Value value(Node* node) {
    if (isOutput(node))
      return output;
    if (Value found = values.lookup(node))
      return found;
    if (node->kind == Node::Kind::constant)
      return values[node] = rows::scalarConstant(lowering.builder, node);
    Value made = rows::scalarOp(lowering.builder, node, [&](Node* n) { return value(n); });
    if (ir::tensorType(result.output().node->value).getElementTypeBitWidth() == 16)
      takeFastMath(made.getDefiningOp());
    return values[node] = made;
  }

  Lowering& lowering;
  cu::Entry& entry;
  const Epilogue::Result& result;
  llvm::DenseSet<Node*> seen;
  llvm::MapVector<Node*, Value> inputs;
  llvm::DenseMap<Node*, Value> values;
  Value output;
};

/// Rows as they are where the result is the output, rounded or not.
Value Lowering::resultOfOutput(cu::Entry& entry, const Epilogue::Result& result) {
  const family::BufferInfo& buffer = *context.outputs[result.number];
  Node* node = rows::beforeRounding(result.output().node);
  ElementsOfOutput elements(*this, entry, result);
  elements.read(node);
  Value rows = rowsLikeOutput(entry, buffer, result.toOutput(result.output().map),
                              elementOf(buffer.tensor.dtype), true);
  if (program.epilogue->isOutput(node->value))
    return rows;
  auto attention = cast<ir::AttentionOp>(program.op);
  return elements.compute(node, rows, ir::tensorType(attention.getOutput()).getElementType());
}

Value Lowering::outputRows(cu::Entry& entry) {
  if (!program.epilogue)
    return result(entry, 0, true);
  Value all;
  for (const Epilogue::Result& result : program.epilogue->results) {
    Value one = resultOfOutput(entry, result);
    all =
        all ? builder.create<cu::TwoResultsOp>(location, one.getType(), all, one).getHeads() : one;
  }
  return all;
}

} // namespace kiln::attention
