// What all kernels of attention are lowered with: their arguments, entries and grids. Where blocks
// take the heads that share a bias, those are counted first that have a bias of their own, then
// those that share it.
#pragma once

#include "codegen/exit/Maps.h"
#include "codegen/families/attention/HeadOrder.h"
#include "codegen/families/attention/Resources.h"
#include "codegen/families/attention/Skeleton.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace kiln::attention {

class Lowering {
 protected:
  Lowering(const KernelContext& context, mlir::ModuleOp module, LaunchPlan& plan);

  // --- arguments ------------------------------------------------------------------------------

  const family::BufferInfo& buffer(mlir::Value argument) const {
    return *context.inputs[mlir::cast<mlir::BlockArgument>(argument).getArgNumber()];
  }
  const family::BufferInfo& output(unsigned result) const {
    return *context.outputs[program.outputs[result]];
  }

  mlir::Value rowsOf(cu::Entry& entry, mlir::Value argument);
  /// One fp32 a row.
  mlir::Value numbersOf(cu::Entry& entry, mlir::Value argument);
  /// Of a backward: the log of the sum of each row of queries, and its delta.
  llvm::SmallVector<mlir::Value> numbersOfQueries(cu::Entry& entry) {
    return {numbersOf(entry, program.lse), numbersOf(entry, program.delta)};
  }
  /// Of a backward: query, key, value, the output's gradient, and those numbers.
  llvm::SmallVector<mlir::Value> operandsOfBackward(cu::Entry& entry) {
    llvm::SmallVector<mlir::Value> operands{
        rowsOf(entry, program.form.query), rowsOf(entry, program.form.key),
        rowsOf(entry, program.form.value), rowsOf(entry, program.outputGradient)};
    operands.append(numbersOfQueries(entry));
    return operands;
  }
  mlir::Value result(cu::Entry& entry, unsigned number, bool hasRows,
                     llvm::ArrayRef<size_t> chosen);
  mlir::Value result(cu::Entry& entry, unsigned number, bool hasRows) {
    return result(entry, number, hasRows, order.all());
  }
  /// Where attention's output goes, or what is computed of it.
  mlir::Value outputRows(cu::Entry& entry);
  /// `hasBias`: false where the bias comes another way.
  mlir::Value scores(cu::Entry& entry, bool hasBias = true);

  mlir::Type elementOf(DType dtype);
  mlir::Type element() const {
    return mlir::cast<mlir::RankedTensorType>(program.form.query.getType()).getElementType();
  }
  mlir::Value size(cu::Entry& entry, const Extent& extent, const char* name) {
    return entry.size(KernelArgument::Kind::size, extent, name);
  }
  Extent queryRows() const { return buffer(program.form.query).tensor.shape[rank - 2]; }
  Extent keyRows() const { return buffer(program.form.key).tensor.shape[rank - 2]; }

  /// Tensor maps, and the heads of the third dimension of each; 0: all.
  struct Maps {
    llvm::SmallVector<mlir::Value> maps, inner;
  };
  void addMap(cu::Entry& entry, Maps& to, mlir::Value argument, const TensorMapInfo& map);
  /// Of query, key and value.
  Maps mapsOf(cu::Entry& entry);

  llvm::SmallVector<Extent> ownBiases() const { return order.sizes(order.own()); }
  llvm::SmallVector<Extent> sharedSizes() const { return order.sizes(order.shared()); }
  /// How many biases there are, and heads that share each.
  struct Sharers {
    mlir::Value biases, sharing;
  };
  Sharers sharersOf(cu::Entry& entry);

  // --- entries --------------------------------------------------------------------------------

  std::unique_ptr<cu::Entry> begin(const std::string& name, llvm::StringRef header);
  /// Warps that compute, and the warpgroup that loads.
  void setRoles(cu::Entry& entry, const Registers& registers) const;
  /// A block for each tile of rows of each head.
  void finish(cu::Entry& entry, llvm::ArrayRef<TileCount> tiles);
  static TileCount tiles(const Extent& extent, int64_t tile) { return {{{extent}}, tile}; }
  static TileCount each(llvm::ArrayRef<Extent> space) { return {{std::vector<Extent>(space)}, 1}; }
  int64_t bytes() const { return sharedBytes(context.schedule, context.facts); }

  /// `count` numbers of fp32 for each of a product of sizes, unless they are there.
  void addWorkspace(const std::string& name, int64_t count, llvm::ArrayRef<Extent> each);
  /// A workspace of so many partial sums of each place of each bias.
  std::string addPartials(int64_t count);
  /// Its sum, the bias's gradient, a kernel of its own.
  void emitSumOfGroups(const std::string& partials, int64_t groups);

  const KernelContext& context;
  const Program& program;
  LaunchPlan& plan;
  mlir::OpBuilder builder;
  mlir::Location location;
  size_t rank;
  HeadOrder order;

 private:
  mlir::Value heads(cu::Entry& entry, const family::BufferInfo& buffer, mlir::Type element,
                    bool hasRows, bool stored, llvm::ArrayRef<size_t> chosen);
  mlir::Value headRows(cu::Entry& entry, const cu::Walk& walk, const family::Access& access,
                       const family::Stride& row, mlir::Type element, int64_t width, bool stored);
  // LoweringEpilogue.cpp
  class ElementsOfOutput;
  /// Strides between its heads, its rows and its columns, seen through those of the output.
  struct LikeOutput {
    family::Access access;
    family::Stride row;
    cu::Walk walk;
  };
  LikeOutput likeOutput(const family::BufferInfo& buffer, llvm::ArrayRef<int> map) const;
  mlir::Value rowsLikeOutput(cu::Entry& entry, const family::BufferInfo& buffer,
                             llvm::ArrayRef<int> map, mlir::Type element, bool stored);
  mlir::Value randomLikeOutput(cu::Entry& entry, rows::Node* node, llvm::ArrayRef<int> map);
  mlir::Value resultOfOutput(cu::Entry& entry, const Epilogue::Result& result);
  cu::Walk walkOf(llvm::ArrayRef<Extent> space, const family::Access& access) const;
  mlir::Value ofScores(cu::Entry& entry, mlir::Value argument);
};

/// The kernel of a schedule with bias = held.
void lowerHoldingBias(const KernelContext& context, mlir::ModuleOp module, LaunchPlan& plan);
/// The kernel of a schedule with products = threads.
void lowerByThreads(const KernelContext& context, mlir::ModuleOp module, LaunchPlan& plan);
/// All gradients in one kernel whose blocks take turns, between one that begins these and one that
/// rounds their sums.
void lowerTakingTurns(const KernelContext& context, mlir::ModuleOp module, LaunchPlan& plan);

} // namespace kiln::attention
