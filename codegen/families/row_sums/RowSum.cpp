// See RowSum.h.
#include "codegen/families/row_sums/RowSum.h"

#include "codegen/families/rows/RowProgram.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include <algorithm>
#include <bit>

using namespace mlir;
using namespace kiln::ir;

namespace kiln::row_sums {

bool standsAlone(Operation* op) {
  if (isa<SegmentSumOp>(op))
    return true;
  auto reduce = dyn_cast<ReduceOp>(op);
  if (!reduce || reduce.getKind() != ReduceKind::sum)
    return false;
  auto type = tensorType(reduce.getInput());
  const int64_t last = type.getRank() - 1;
  bool keepsLast = reduce.getDims().back() != last;
  return keepsLast && (!reduce.isOverLeading() || type.isDynamicDim(last) ||
                       type.getDimSize(last) > rows::runningSums(type.getDimSize(last)));
}

std::optional<RowSum> analyze(Block& block, std::string& reason) {
  reason = "a sum of segments, of very wide rows or over some of the leading dimensions reads its "
           "rows from memory, in a kernel of its own";
  RowSum sum;
  for (Operation& op : block.without_terminator())
    if (standsAlone(&op) && !sum.op)
      sum.op = &op;
    else if (!isa<arith::ExtFOp, arith::TruncFOp>(op))
      return std::nullopt;
  Operation* end = block.getTerminator();
  if (!sum.op || end->getNumOperands() != 1)
    return std::nullopt;
  auto beforeWidening = [](Value value) {
    auto widen = value ? value.getDefiningOp<arith::ExtFOp>() : arith::ExtFOp();
    return widen ? widen.getIn() : value;
  };
  Value result = end->getOperand(0), rows = beforeWidening(sum.op->getOperand(0));
  if (auto round = result.getDefiningOp<arith::TruncFOp>())
    result = round.getIn();
  sum.rows = dyn_cast<BlockArgument>(rows);
  if (result != sum.op->getResult(0) || !sum.rows)
    return std::nullopt;
  if (tensorType(rows).getElementType().isF64()) {
    reason = "fp64 exists in references only; kernels compute in fp32";
    return std::nullopt;
  }
  if (tensorType(rows).getShape().back() == 0) {
    reason = "rows of 0 elements are summed; a row has at least 1";
    return std::nullopt;
  }
  sum.summed.resize(tensorType(rows).getRank());
  if (auto segments = dyn_cast<SegmentSumOp>(sum.op)) {
    sum.index = dyn_cast<BlockArgument>(segments.getIndex());
    sum.like = dyn_cast_if_present<BlockArgument>(beforeWidening(segments.getLike()));
    sum.padding = segments.getPaddingIndex().value_or(-1);
    std::fill(sum.summed.begin(), sum.summed.end() - 1, true);
    if (!sum.index || (segments.getLike() && !sum.like))
      return std::nullopt;
    return sum;
  }
  for (int64_t d : cast<ReduceOp>(sum.op).getDims())
    sum.summed[d] = true;
  return sum;
}

std::int64_t listBytes() { // device/lists.cuh: a count a segment and warp, a total, what is below
  constexpr int64_t warps = kListThreads / 32;
  return 4 * (warps * kListSegments + kListSegments + warps);
}

/// Few terms a row of the result, or threads of which each has a row of its own side by side: a
/// group for each. Else a block for each, and where that makes too few blocks, or may make too few,
/// the terms are divided, so that each part still has far more to read than to write.
Tiling tilingOf(const Sizes& sizes) {
  constexpr int64_t few = 32, enoughBlocks = 512, termsOfPart = 64, mostParts = 16;
  Tiling tiling;
  tiling.vector = sizes.vector;
  const auto vectors = static_cast<uint64_t>(sizes.columns / sizes.vector);
  tiling.lanes = std::min<int64_t>(32, std::bit_ceil(vectors));
  if (sizes.listed) // the block looks through the units of all its groups for long lists
    tiling.lanes = std::max<int64_t>(tiling.lanes, 8);
  const int64_t width = tiling.lanes * tiling.vector;
  const int64_t chunks = (sizes.columns + width - 1) / width;
  const bool known = sizes.outputs >= 0;
  const int64_t blocks = std::max<int64_t>(1, known ? sizes.outputs * chunks : chunks);
  const bool manyLists = sizes.listed && (!known || blocks >= enoughBlocks);
  const bool fewTerms = sizes.terms >= 0 && sizes.terms <= few;
  if (fewTerms || manyLists || (sizes.columns == 1 && !sizes.listed)) {
    tiling.units = kThreads / tiling.lanes;
    return tiling;
  }
  tiling.parts = (enoughBlocks + blocks - 1) / blocks;
  if (sizes.terms >= 0)
    tiling.parts = std::min(tiling.parts, sizes.terms / termsOfPart);
  if (!known) // parts need memory for each row of the result
    tiling.parts = sizes.terms >= 0 ? std::min(tiling.parts, mostParts) : 1;
  tiling.parts = std::max<int64_t>(tiling.parts, 1);
  return tiling;
}

} // namespace kiln::row_sums
