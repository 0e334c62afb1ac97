// See FusionLimits.h.
#include "codegen/families/rows/FusionLimits.h"

#include "codegen/families/rows/PassPlan.h"
#include "codegen/families/rows/cost/Cost.h"

#include <fmt/format.h>

using namespace mlir;

namespace kiln::rows {
namespace {

/// How a value of the function lies in memory, if its layout is given.
ir::LayoutAttr layoutOf(func::FuncOp function, Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return function.getArgAttrOfType<ir::LayoutAttr>(argument.getArgNumber(), ir::kLayoutAttr);
  Operation* end = function.getBody().front().getTerminator();
  for (OpOperand& use : value.getUses())
    if (use.getOwner() == end)
      return function.getResultAttrOfType<ir::LayoutAttr>(use.getOperandNumber(), ir::kLayoutAttr);
  return {};
}

/// Buffers of a kernel whose run-time sizes are those of its space, by dimension.
class Buffers {
 public:
  explicit Buffers(const RowProgram& program) : program(program) {}

  const BufferInfo* add(func::FuncOp function, Value value, ArrayRef<int> map) {
    auto extent = [&](int64_t d) -> Extent {
      int64_t size = ir::tensorType(value).getDimSize(d);
      if (!ShapedType::isDynamic(size))
        return {size, -1};
      bool walked = d < static_cast<int64_t>(map.size()) && map[d] >= 0;
      return {0, walked ? map[d] : static_cast<int>(program.space.size() + strangers++)};
    };
    all.push_back(family::describeBuffer(value, layoutOf(function, value), extent));
    return &all.back();
  }

 private:
  const RowProgram& program;
  int strangers = 0;
  std::deque<BufferInfo> all;
};

int operationsOf(const RowProgram& program) {
  return llvm::count_if(program.nodes, [](const std::unique_ptr<Node>& node) {
    return node->kind == Node::Kind::scalar;
  });
}

} // namespace

std::string tooMuch(RowKernel& kernel, const family::Considered& considered,
                    const family::FusionLimits& limits) {
  const RowProgram& program = *kernel.program;
  if (int operations = operationsOf(program); operations > limits.operations)
    return fmt::format("{} operations an element; a kernel has up to {}", operations,
                       limits.operations);
  if (size_t tensors = considered.inputs.size() + considered.results.size(); tensors > kMostTensors)
    return fmt::format("{} tensors read or written; a kernel has up to {}", tensors, kMostTensors);
  if (int waiting = mostWaiting(program); waiting > kMostWaiting)
    return fmt::format("{} values of an element wait for their last reader; a kernel has registers "
                       "for {}",
                       waiting, kMostWaiting);
  llvm::DenseMap<unsigned, ArrayRef<int>> maps; // by the number of the argument
  for (const auto& node : program.nodes)
    if (node->kind == Node::Kind::input)
      maps.try_emplace(cast<BlockArgument>(node->value).getArgNumber(), node->map);
  Buffers buffers(program);
  for (auto [i, value] : llvm::enumerate(considered.inputs)) {
    kernel.inputs.push_back(buffers.add(considered.function, value, maps.lookup(i)));
    kernel.older.push_back(false);
  }
  for (auto [value, output] : llvm::zip_equal(considered.results, program.outputs))
    kernel.outputs.push_back(buffers.add(considered.function, value, output.map));
  for (size_t d = 0; d < program.rank(); ++d) {
    const int64_t size = program.space[d];
    kernel.space.push_back(ShapedType::isDynamic(size) ? Extent{0, static_cast<int>(d)}
                                                       : Extent{size, -1});
  }
  if (anyFits(kernel.facts(), limits.target))
    return "";
  return fmt::format("a kernel with {} inputs, {} results and {} operations fits no schedule on {}",
                     kernel.inputs.size(), kernel.outputs.size(), operationsOf(program),
                     limits.target.arch);
}

} // namespace kiln::rows
