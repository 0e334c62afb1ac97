// What the choice of a kernel's schedule depends on, read off its analysis and its buffers.
#include "codegen/passes/FunctionPlan.h"
#include "codegen/rows/PassPlan.h"

using namespace mlir;

namespace kiln::passes {
namespace {

/// Elements one access may move, up to 16.
rows::Facts::Stream streamOf(const rows::Access& access, int64_t width) {
  rows::Facts::Stream stream{static_cast<int>(sizeInBytes(access.buffer->tensor.dtype)),
                             rows::widestAccess(access, 16)};
  stream.turned = rows::isTurned(access, width);
  if (stream.turned) // threads reach it through shared memory
    stream.widest = 16;
  return stream;
}

const rows::BufferInfo& bufferOf(const PlannedKernel& kernel, Value input) {
  return *kernel.inputs[cast<BlockArgument>(input).getArgNumber()];
}
rows::Access accessOf(const PlannedKernel& kernel, const rows::Node& input) {
  return rows::makeAccess(bufferOf(kernel, input.value), input.map, kernel.program->rank(),
                          input.pairs);
}

/// Whether bulk copies can move every input that differs by row.
bool hasDenseRows(const PlannedKernel& kernel) {
  const rows::RowProgram& program = *kernel.program;
  return llvm::all_of(program.nodes, [&](const std::unique_ptr<rows::Node>& node) {
    if (node->kind == rows::Node::Kind::gather)
      return false;
    if (node->kind != rows::Node::Kind::input || !node->perRow)
      return true;
    return rows::hasDenseRows(accessOf(kernel, *node), kernel.space,
                              node->perColumn ? program.width() : 1);
  });
}

/// Whether vectors may overlap the ends of rows: what is next to a row must be the next row, in
/// everything that the kernel reads or writes by column.
bool hasPackedRows(const PlannedKernel& kernel) {
  const rows::RowProgram& program = *kernel.program;
  auto packed = [&](const rows::Access& access) {
    return rows::hasPackedRows(access, kernel.space, program.width());
  };
  for (const auto& node : program.nodes) {
    if (!node->perColumn)
      continue;
    using Kind = rows::Node::Kind;
    if (node->kind == Kind::gather || node->kind == Kind::random)
      return false;
    if (node->kind != Kind::input)
      continue;
    if (!node->perRow || !packed(accessOf(kernel, *node)))
      return false;
  }
  return llvm::all_of(program.outputs, [&](const rows::Output& output) {
    return output.kind == rows::Output::Kind::full
               ? packed(rows::makeAccess(*kernel.outputs[output.index], output.map, program.rank()))
               : output.kind != rows::Output::Kind::columnSum;
  });
}

} // namespace

rows::Facts factsOf(const PlannedKernel& kernel) {
  const rows::RowProgram& program = *kernel.program;
  rows::Facts facts;
  facts.width = program.width();
  facts.rows = 1;
  for (const Extent& extent : kernel.space)
    facts.rows = extent.isStatic() && facts.rows >= 0 ? facts.rows * extent.size : -1;
  facts.passes = program.levels;
  std::vector<int> exchanges(program.levels + 1, 0);
  for (auto& node : program.nodes) {
    if (node->kind == rows::Node::Kind::rowReduce) {
      ++facts.reductions;
      facts.widestExchange = std::max(facts.widestExchange, ++exchanges[node->level]);
    }
    facts.rowInputs += node->kind == rows::Node::Kind::pick;
    facts.randoms += node->kind == rows::Node::Kind::random && node->perColumn;
    if (node->kind == rows::Node::Kind::gather) {
      Value table = cast<ir::GatherOp>(node->op()).getTable();
      facts.inputs.push_back(
          streamOf(rows::makeAccess(bufferOf(kernel, table), {0, 1}, 1), facts.width));
    }
    if (node->kind != rows::Node::Kind::input)
      continue;
    auto stream = streamOf(accessOf(kernel, *node), facts.width);
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
  auto passes = rows::planPasses(program);
  auto reads = [](const rows::Pass& pass) { return !pass.columns.empty(); };
  facts.columnsPass = llvm::find_if(passes, reads) - passes.begin();
  for (const rows::Pass& pass : passes) {
    facts.kept += pass.kept.size();
    facts.operations += pass.operations;
    facts.columnOperations += pass.columnOperations;
    facts.erfs += pass.erfs;
  }
  for (const rows::Output& output : program.outputs) {
    if (output.kind == rows::Output::Kind::full)
      facts.outputs.push_back(
          streamOf(rows::makeAccess(*kernel.outputs[output.index], output.map, program.rank()),
                   facts.width));
    else if (output.kind == rows::Output::Kind::row)
      ++facts.rowOutputs;
    else
      ++(output.kind == rows::Output::Kind::columnSum ? facts.columnSums : facts.totalSums);
  }
  facts.waiting = rows::mostWaiting(program);
  return facts;
}

} // namespace kiln::passes
