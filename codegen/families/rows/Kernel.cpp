// See Kernel.h.
#include "codegen/families/rows/Kernel.h"

#include "codegen/backend/Fail.h"
#include "codegen/families/rows/Model.h"
#include "codegen/families/rows/Nodes.h"
#include "codegen/families/rows/Skeleton.h"

using namespace mlir;

namespace kiln::rows {

RowKernel::RowKernel(ir::KernelOp op, OwningOpRef<ir::KernelOp> body,
                     std::unique_ptr<RowProgram> program)
    : Kernel(op), program(std::move(program)), body(std::move(body)) {}

LogicalResult RowKernel::unify(family::SizeClasses& sizes) {
  auto& at = sizesOf;
  at.assign(program->rank(), std::nullopt);
  auto meet = [&](Value value, int dimension, int to) {
    if (to < 0 || to >= static_cast<int>(at.size()))
      return;
    if (at[to])
      sizes.unite({value, dimension}, *at[to]);
    else
      at[to] = family::Dimension(value, dimension);
  };
  for (auto& node : program->nodes) {
    auto argument = dyn_cast_if_present<BlockArgument>(shapeSource(*node));
    for (auto [d, to] : llvm::enumerate(node->map))
      if (argument && ir::tensorType(node->value).isDynamicDim(d))
        meet(op.getInputs()[argument.getArgNumber()], d, to);
  }
  takeLentSizes(); // before those of results, which are the same
  for (const Output& output : program->outputs)
    if (output.kind == Output::Kind::full || output.kind == Output::Kind::row)
      for (auto [d, to] : llvm::enumerate(output.map))
        if (Value result = op.getResult(output.index); ir::tensorType(result).isDynamicDim(d))
          meet(result, d, to);
  for (auto [d, dimension] : llvm::enumerate(at))
    if (ShapedType::isDynamic(program->space[d]) && !dimension)
      return op.emitError("the size of dimension ")
             << d << " is that of no tensor that the kernel reads or writes";
  int64_t rows = 1;
  for (int64_t size : ArrayRef(program->space).drop_back())
    rows *= ShapedType::isDynamic(size) ? 1 : size; // tensors have up to 2^56 elements
  if (rows > maxRows)
    return op.emitError("has ") << rows << " rows, a kernel counts up to " << maxRows
                                << "; split the batch";
  return success();
}

/// Sizes that no tensor has which the kernel reads: of rows that are all the same, only an input
/// knows that a broadcast is like.
void RowKernel::takeLentSizes() {
  auto& at = sizesOf;
  Block& block = body->getBody().front();
  if (!block.getOps<ir::TransposeOp>().empty())
    return; // whose dimensions are others
  for (auto broadcast : block.getOps<ir::BroadcastOp>()) {
    auto like = dyn_cast_if_present<BlockArgument>(broadcast.getLike());
    const auto rank = like ? static_cast<size_t>(ir::tensorType(like).getRank()) : 0;
    if (rank != at.size() && rank != at.size() + 1) // neither values of rows nor rows
      continue;
    for (auto [d, dimension] : llvm::enumerate(at))
      if (!dimension && ir::tensorType(like).isDynamicDim(d))
        dimension = family::Dimension(op.getInputs()[like.getArgNumber()], static_cast<int>(d));
  }
}

void RowKernel::bind(const family::Binding& binding) {
  inputs = binding.inputs;
  outputs = binding.outputs;
  older = binding.older;
  for (auto [d, dimension] : llvm::enumerate(sizesOf)) {
    const int64_t size = program->space[d];
    space.push_back(ShapedType::isDynamic(size) ? binding.extent(*dimension) : Extent{size, -1});
  }
}

std::unique_ptr<model::KernelModel> RowKernel::model(ArrayRef<int64_t> sizes) const {
  Facts found = facts();
  double count = model::kTypicalRows;
  if (!sizes.empty()) {
    count = 1;
    for (const Extent& extent : space)
      count *= static_cast<double>(extent.isStatic()
                                       ? extent.size
                                       : sizes[std::min<size_t>(extent.symbol, sizes.size() - 1)]);
    if (count > static_cast<double>(maxRows))
      fail(ErrorKind::input, "kernel '{}': {} rows, a kernel counts up to {}; split the batch",
           ir::KernelOp(op).getName().str(), static_cast<int64_t>(std::min(count, 1e18)), maxRows);
    found.rows = static_cast<int64_t>(count);
  } else if (found.rows >= 0) {
    count = static_cast<double>(found.rows);
  }
  return std::make_unique<Model>(std::move(found), count);
}

void RowKernel::lower(ModuleOp module, LaunchPlan& plan) {
  const Schedule schedule = Schedule::of(op.getSchedule()->getSchedule());
  const Facts found = facts();
  KernelContext context{family::entryName(op.getName()),
                        *program,
                        schedule,
                        inputs,
                        outputs,
                        older,
                        space,
                        found.isSteady(schedule),
                        found.isLoose(schedule),
                        found.holdsColumns(schedule)};
  lowerKernel(context, module, plan);
}

} // namespace kiln::rows
