// See Epilogue.h.
#include "codegen/families/attention/Epilogue.h"

#include "codegen/family/Elementary.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using kiln::family::Refusal;
using kiln::rows::Node;

namespace kiln::attention {

bool Epilogue::isOutput(Value value) const {
  Block& block = body.get().getBody().front();
  return value == block.getArgument(block.getNumArguments() - 1);
}

int Epilogue::operations() const {
  int count = 0;
  for (const Result& result : results)
    count += static_cast<int>(llvm::count_if(
        result.program->nodes, [](const auto& node) { return node->kind == Node::Kind::scalar; }));
  return count;
}

int Epilogue::tensors() const {
  llvm::DenseSet<Value> read;
  for (const Result& result : results)
    for (const auto& node : result.program->nodes)
      if (node->kind == Node::Kind::input && (node->perRow || node->perColumn) &&
          !isOutput(node->value))
        read.insert(node->value);
  return static_cast<int>(read.size());
}

SmallVector<int> Epilogue::Result::toOutput(ArrayRef<int> map) const {
  SmallVector<int> dimensions;
  for (int d : map)
    dimensions.push_back(d < 0 ? -1 : ofOutput[d]);
  return dimensions;
}

namespace {

/// Whether a value comes from the logarithms of sums, through roundings.
bool isLse(Value value) {
  while (auto round = value.getDefiningOp<arith::TruncFOp>())
    value = round.getIn();
  auto attention = value.getDefiningOp<ir::AttentionOp>();
  return attention && value == attention.getLse();
}

/// Takes the attention out of a kernel's copy: its output becomes an argument, and what is left is
/// elementwise math. Returns the numbers of the results that are left.
SmallVector<unsigned> takeOut(ir::KernelOp copy) {
  Block& block = copy.getBody().front();
  ir::AttentionOp attention = *block.getOps<ir::AttentionOp>().begin();
  SmallVector<unsigned> numbers;
  SmallVector<Value> left;
  Operation* yield = block.getTerminator();
  for (OpOperand& operand : yield->getOpOperands())
    if (!isLse(operand.get())) {
      numbers.push_back(operand.getOperandNumber());
      left.push_back(operand.get());
    }
  yield->setOperands(left);
  Value output = block.addArgument(attention.getOutput().getType(), attention.getLoc());
  attention.getOutput().replaceAllUsesWith(output);
  SmallVector<Operation*> operations;
  for (Operation& op : block.without_terminator())
    operations.push_back(&op);
  for (Operation* op : llvm::reverse(operations)) // users before what they use
    if (op->use_empty())
      op->erase();
  return numbers;
}

/// Whether a kernel of attention can compute the value of an element.
bool isElementwise(const Node& node, Operation* attention, Refusal& refusal) {
  Operation* op = node.op();
  if (node.pairs)
    return refusal.because(attention, "has an output that is taken at the other column of a pair; "
                                      "an epilogue takes each element by itself");
  if (auto random = dyn_cast_if_present<ir::RandomOp>(op))
    return (isa<BlockArgument>(random.getSeed()) && isa<BlockArgument>(random.getOffset())) ||
           refusal.because(op, "has a seed or an offset that the kernel computes");
  constexpr Node::Kind known[] = {Node::Kind::input, Node::Kind::constant, Node::Kind::scalar};
  return llvm::is_contained(known, node.kind) ||
         refusal.because(op, "is no elementwise math, as attention's output is taken by");
}

/// Finds how the space lies over attention's output: the same dimensions, the last one last.
bool findOrder(const Epilogue& epilogue, Epilogue::Result& result, Operation* attention,
               Refusal& refusal) {
  const size_t rank = result.program->space.size();
  for (const auto& node : result.program->nodes) {
    if (!epilogue.isOutput(node->value))
      continue;
    SmallVector<int> order(rank, -1);
    for (auto [d, to] : llvm::enumerate(node->map))
      if (to >= 0)
        order[to] = static_cast<int>(d);
    const bool isWhole = !llvm::is_contained(order, -1) && rank == node->map.size() &&
                         order.back() + 1 == static_cast<int>(rank);
    if (!isWhole || (!result.ofOutput.empty() && result.ofOutput != order))
      return refusal.because(attention, "has an output that is repeated, or taken in two orders");
    result.ofOutput = order;
  }
  return !result.ofOutput.empty() ||
         refusal.because(attention, "stands in a kernel with a result that is not computed of its "
                                    "output");
}

bool isResult(const rows::Output& output, Operation* attention, Refusal& refusal) {
  return (output.kind == rows::Output::Kind::full &&
          isa<FloatType>(ir::tensorType(output.node->value).getElementType()) &&
          output.map.back() + 1 == static_cast<int>(output.map.size())) ||
         refusal.because(attention, "has an output of which a result is computed that is no tensor "
                                    "of floats in the order of its rows");
}

} // namespace

std::shared_ptr<const Epilogue> analyzeEpilogue(ir::KernelOp kernel, ir::AttentionOp attention,
                                                Refusal& refusal) {
  auto epilogue = std::make_shared<Epilogue>();
  epilogue->body = family::elementaryCopy(kernel);
  const SmallVector<unsigned> numbers = takeOut(*epilogue->body);
  Block& block = epilogue->body->getBody().front();
  const SmallVector<Value> values(block.getTerminator()->getOperands());
  for (auto [number, value] : llvm::zip_equal(numbers, values)) {
    block.getTerminator()->setOperands(value); // each result has a space of its own
    Epilogue::Result result{number, rows::analyze(block, refusal), {}};
    if (!result.program)
      return nullptr;
    for (const auto& node : result.program->nodes)
      if (!isElementwise(*node, attention, refusal))
        return nullptr;
    if (!isResult(result.output(), attention, refusal) ||
        !findOrder(*epilogue, result, attention, refusal))
      return nullptr;
    epilogue->results.push_back(std::move(result));
  }
  if (epilogue->results.empty()) {
    refusal.because(attention, "has an output that nothing stores");
    return nullptr;
  }
  return epilogue;
}

} // namespace kiln::attention
