// What the choice of a kernel's schedule depends on, read off its analysis and its buffers.
#include "codegen/families/rows/Kernel.h"
#include "codegen/families/rows/PassPlan.h"

#include "mlir/Dialect/Math/IR/Math.h"

#include <map>
#include <vector>

using namespace mlir;

namespace kiln::rows {
namespace {

/// Elements one access may move, up to 16.
Facts::Stream streamOf(const Access& access, int64_t width) {
  Facts::Stream stream{static_cast<int>(sizeInBytes(access.buffer->tensor.dtype)),
                       widestAccess(access, 16)};
  stream.transposed = isTransposed(access, width);
  if (stream.transposed) // threads reach it through shared memory
    stream.widest = 16;
  return stream;
}

const BufferInfo& bufferOf(const RowKernel& kernel, Value input) {
  return *kernel.inputs[cast<BlockArgument>(input).getArgNumber()];
}
Access accessOf(const RowKernel& kernel, const Node& input) {
  return makeAccess(bufferOf(kernel, input.value), input.map, kernel.program->rank(), input.pairs);
}

bool repeatsRows(const Access& access, ArrayRef<Extent> space) {
  return llvm::any_of(llvm::zip_equal(space, access.leading), [](auto dimension) {
    const auto& [extent, stride] = dimension;
    return stride == Stride() && !(extent.isStatic() && extent.size == 1);
  });
}

/// Rows that there are of a tensor which has some of them again; 0: known at run time.
int64_t distinctRows(const Access& access, ArrayRef<Extent> space) {
  int64_t rows = 1;
  for (auto [extent, stride] : llvm::zip_equal(space, access.leading))
    if (stride != Stride())
      rows *= extent.isStatic() ? extent.size : 0;
  return rows;
}

/// Instructions an element of values that equal others: angles of two tensors that are turned
/// alike.
int operationsAgain(const RowProgram& program) {
  std::map<std::vector<const void*>, const Node*> first;
  llvm::DenseMap<const Node*, const Node*> equal;
  int again = 0;
  for (const auto& node : program.nodes) {
    const Node* n = node.get();
    equal[n] = n;
    if (n->kind != Node::Kind::scalar && n->kind != Node::Kind::constant &&
        n->kind != Node::Kind::index)
      continue;
    std::vector<const void*> key = {n->op()->getName().getAsOpaquePointer(),
                                    n->op()->getAttrDictionary().getAsOpaquePointer(),
                                    n->element().getAsOpaquePointer()};
    if (n->kind == Node::Kind::index) // of which dimension
      for (int dimension : n->map)
        key.push_back(reinterpret_cast<const void*>(static_cast<std::intptr_t>(dimension)));
    for (const Node* operand : n->operands)
      key.push_back(equal.lookup(operand));
    const auto [entry, isNew] = first.try_emplace(std::move(key), n);
    equal[n] = entry->second;
    if (!isNew && n->kind == Node::Kind::scalar && n->perRow && n->perColumn)
      again += operationsOf(n);
  }
  return again;
}

/// Whether bulk copies can move every input that differs by row.
bool hasDenseRows(const RowKernel& kernel) {
  const RowProgram& program = *kernel.program;
  return llvm::all_of(program.nodes, [&](const std::unique_ptr<Node>& node) {
    if (node->kind == Node::Kind::gather)
      return false;
    if (node->kind != Node::Kind::input || !node->perRow)
      return true;
    return family::hasDenseRows(accessOf(kernel, *node), kernel.space,
                                node->perColumn ? program.width() : 1);
  });
}

/// Whether vectors may overlap the ends of rows: what is next to a row must be the next row, in
/// everything that differs by row and by column. What all rows share is not read by pairs.
bool hasPackedRows(const RowKernel& kernel) {
  const RowProgram& program = *kernel.program;
  auto packed = [&](const Access& access) {
    return family::hasPackedRows(access, kernel.space, program.width());
  };
  for (const auto& node : program.nodes) {
    if (!node->perColumn)
      continue;
    using Kind = Node::Kind;
    if (node->kind == Kind::gather || node->kind == Kind::random)
      return false;
    if (node->kind != Kind::input)
      continue;
    if (node->perRow ? !packed(accessOf(kernel, *node)) : bool(node->pairs))
      return false;
  }
  return llvm::all_of(program.outputs, [&](const Output& output) {
    return output.kind != Output::Kind::full ||
           packed(makeAccess(*kernel.outputs[output.index], output.map, program.rank()));
  });
}

} // namespace

Facts RowKernel::facts() const {
  const RowKernel& kernel = *this;
  const RowProgram& program = *this->program;
  Facts facts;
  facts.width = program.width();
  facts.rows = 1;
  for (const Extent& extent : kernel.space)
    facts.rows = extent.isStatic() && facts.rows >= 0 ? facts.rows * extent.size : -1;
  facts.passes = program.levels;
  std::vector<int> exchanges(program.levels + 1, 0);
  for (auto& node : program.nodes) {
    if (node->kind == Node::Kind::rowReduce) {
      ++facts.reductions;
      facts.widestExchange = std::max(facts.widestExchange, ++exchanges[node->level]);
    }
    facts.rowInputs += node->kind == Node::Kind::pick;
    facts.exponentials += node->kind == Node::Kind::scalar && node->perRow && node->perColumn &&
                          isa<math::ExpOp, math::Exp2Op, math::TanhOp>(node->op());
    facts.randoms += node->kind == Node::Kind::random && node->perColumn;
    if (node->kind == Node::Kind::gather) {
      Value table = cast<ir::GatherOp>(node->op()).getTable();
      facts.inputs.push_back(streamOf(makeAccess(bufferOf(kernel, table), {0, 1}, 1), facts.width));
    }
    if (node->kind != Node::Kind::input)
      continue;
    const Access access = accessOf(kernel, *node);
    facts.neighbours |= node->pairs && node->pairs.getKind() == ir::Pairing::interleaved;
    auto stream = streamOf(access, facts.width);
    stream.repeats = repeatsRows(access, kernel.space);
    stream.distinctRows = stream.repeats ? distinctRows(access, kernel.space) : 0;
    stream.again = node->pairs && llvm::any_of(program.nodes, [&](auto& other) {
                     return other->value == node->value && other->map == node->map && !other->pairs;
                   });
    stream.older = kernel.older[cast<BlockArgument>(node->value).getArgNumber()];
    if (node->perColumn && node->perRow)
      facts.inputs.push_back(stream);
    else if (node->perColumn)
      facts.columns.push_back(stream);
    else if (node->perRow)
      ++facts.rowInputs;
  }
  facts.dense = hasDenseRows(kernel);
  facts.packed = hasPackedRows(kernel);
  auto passes = planPasses(program);
  auto reads = [](const Pass& pass) { return !pass.columns.empty(); };
  facts.columnsPass = llvm::find_if(passes, reads) - passes.begin();
  for (const Pass& pass : passes) {
    facts.kept += pass.kept.size();
    facts.operations += pass.operations;
    facts.columnOperations += pass.columnOperations;
    facts.erfs += pass.erfs;
    facts.roots += pass.roots;
  }
  facts.operationsAgain = operationsAgain(program);
  for (const Output& output : program.outputs) {
    if (output.kind == Output::Kind::full)
      facts.outputs.push_back(streamOf(
          makeAccess(*kernel.outputs[output.index], output.map, program.rank()), facts.width));
    else if (output.kind == Output::Kind::row)
      ++facts.rowOutputs;
    else
      ++(output.kind == Output::Kind::columnSum ? facts.columnSums : facts.totalSums);
  }
  facts.waiting = mostWaiting(program);
  return facts;
}

} // namespace kiln::rows
