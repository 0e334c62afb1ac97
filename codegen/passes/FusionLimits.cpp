// See FusionLimits.h.
#include "codegen/passes/FusionLimits.h"

#include "codegen/passes/FunctionPlan.h"
#include "codegen/rows/PassPlan.h"

#include <fmt/format.h>

using namespace mlir;

namespace kiln::passes {
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
  explicit Buffers(const rows::RowProgram& program) : program(program) {}

  const rows::BufferInfo* add(func::FuncOp function, Value value, ArrayRef<int> map) {
    auto extent = [&](int64_t d) -> Extent {
      int64_t size = ir::tensorType(value).getDimSize(d);
      if (!ShapedType::isDynamic(size))
        return {size, -1};
      bool walked = d < static_cast<int64_t>(map.size()) && map[d] >= 0;
      return {0, walked ? map[d] : static_cast<int>(program.space.size() + strangers++)};
    };
    all.push_back(describeBuffer(value, layoutOf(function, value), extent));
    return &all.back();
  }

 private:
  const rows::RowProgram& program;
  int strangers = 0;
  std::deque<rows::BufferInfo> all;
};

int operationsOf(const rows::RowProgram& program) {
  return llvm::count_if(program.nodes, [](const std::unique_ptr<rows::Node>& node) {
    return node->kind == rows::Node::Kind::scalar;
  });
}

} // namespace

std::string tooMuch(Considered considered, int most, const Target& target) {
  const rows::RowProgram& program = *considered.program;
  if (int operations = operationsOf(program); operations > most)
    return fmt::format("{} operations an element; a kernel has up to {}", operations, most);
  if (size_t tensors = considered.inputs.size() + considered.results.size(); tensors > kMostTensors)
    return fmt::format("{} tensors read or written; a kernel has up to {}", tensors, kMostTensors);
  if (int waiting = rows::mostWaiting(program); waiting > kMostWaiting)
    return fmt::format("{} values of an element wait for their last reader; a kernel has registers "
                       "for {}",
                       waiting, kMostWaiting);
  llvm::DenseMap<Value, ArrayRef<int>> maps;
  for (const auto& node : program.nodes)
    if (node->kind == rows::Node::Kind::input)
      maps.try_emplace(node->value, node->map);
  Buffers buffers(program);
  PlannedKernel kernel{considered.kernel, {}, nullptr, {}, {}, {}, {}, {}};
  Block& body = considered.kernel.getBody().front();
  for (auto [value, argument] : llvm::zip_equal(considered.inputs, body.getArguments())) {
    kernel.inputs.push_back(buffers.add(considered.function, value, maps.lookup(argument)));
    kernel.older.push_back(false);
  }
  for (auto [value, output] : llvm::zip_equal(considered.results, program.outputs))
    kernel.outputs.push_back(buffers.add(considered.function, value, output.map));
  for (size_t d = 0; d < program.rank(); ++d) {
    const int64_t size = program.space[d];
    kernel.space.push_back(ShapedType::isDynamic(size) ? Extent{0, static_cast<int>(d)}
                                                       : Extent{size, -1});
  }
  kernel.program = std::move(considered.program);
  if (rows::anyFits(factsOf(kernel), target))
    return "";
  return fmt::format("a kernel with {} inputs, {} results and {} operations fits no schedule on {}",
                     kernel.inputs.size(), kernel.outputs.size(), operationsOf(*kernel.program),
                     target.arch);
}

} // namespace kiln::passes
