// See Noise.h.
#include "codegen/program/Noise.h"

#include "codegen/family/Buffers.h"
#include "codegen/family/Family.h"
#include "dialect/Ranges.h"

#include <algorithm>
#include <bit>
#include <cmath>

using namespace mlir;

namespace kiln::program {
namespace {

/// Of the numbers that fp32 holds; narrower types are left as they are.
double nearest(DType dtype, double value) {
  return dtype == DType::f32 ? static_cast<double>(static_cast<float>(value)) : value;
}
bool held(DType dtype, double value) {
  return dtype == DType::f32 && nearest(dtype, value) == value;
}

/// How the family that executes an operation rounds within it, result by result.
SmallVector<double> roundingsWithin(func::FuncOp function, Operation& op) {
  const family::Family& family = family::executing(function, &op);
  SmallVector<double> units;
  for (Value result : op.getResults())
    units.push_back(family.rounding(result));
  return units;
}
/// 0: nothing is rounded beyond what the types in the text say.
double unitWithin(Value value) {
  const auto noted = value.getLoc()->findInstanceOf<FusedLocWith<DenseF64ArrayAttr>>();
  if (!noted || !value.getDefiningOp())
    return 0.0;
  const ArrayRef<double> units = noted.getMetadata().asArrayRef(); // one where it was decomposed
  return units[std::min<size_t>(cast<OpResult>(value).getResultNumber(), units.size() - 1)];
}

/// Null for what adds nothing up.
ir::ReduceOp asSum(Operation* op) {
  auto reduce = dyn_cast_if_present<ir::ReduceOp>(op);
  const bool adds = reduce && (reduce.getKind() == ir::ReduceKind::sum ||
                               reduce.getKind() == ir::ReduceKind::mean);
  return adds ? reduce : ir::ReduceOp();
}

/// Chains that kernels add up are some of a row's elements, so that this much of what is off after
/// a chain of all is more than enough.
constexpr double kShareOfChain = 0.25;
constexpr std::int64_t kShortestChain = 8; // of a row's elements, one of so many

struct Chain {
  std::int64_t terms = 0;
  float rounded = 0.0F;
  double exact = 0.0, squares = 0.0, worst = 0.0;

  void add(float v, std::int64_t all) {
    ++terms;
    if (!std::isfinite(v))
      return;
    rounded += v;
    exact += static_cast<double>(v);
    squares += static_cast<double>(v) * static_cast<double>(v);
    if (terms * kShortestChain < all)
      return;
    const double off = std::abs(static_cast<double>(rounded) - exact);
    if (std::isfinite(off))
      worst = std::max(worst, off * static_cast<double>(all) / static_cast<double>(terms));
  }
};

} // namespace

double halfUlp(DType dtype) {
  switch (dtype) {
  case DType::bf16:
    return 0x1p-8;
  case DType::f16:
    return 0x1p-11;
  case DType::f32:
    return 0x1p-24;
  default:
    return 0.0;
  }
}

bool movesItself(func::FuncOp function, Operation& op, std::uint64_t seed) {
  auto named = dyn_cast<ir::KilnOpInterface>(op);
  double unit = 0.0;
  for (double ofResult : roundingsWithin(function, op))
    unit = std::max(unit, ofResult);
  return named && unit > 0.0 && named.perturb(unit, seed);
}

void noteArithmetic(func::FuncOp function) {
  for (Operation& op : function.getBody().front()) {
    if (movesItself(function, op, 0))
      continue;
    const SmallVector<double> units = roundingsWithin(function, op);
    if (llvm::all_of(units, [](double unit) { return unit == 0.0; }))
      continue;
    const auto noted = DenseF64ArrayAttr::get(op.getContext(), units);
    op.setLoc(FusedLocWith<DenseF64ArrayAttr>::get(op.getLoc(), noted, op.getContext()));
  }
}

/// In [-1, -0.5] or [0.5, 1]: never next to nothing, for one number may be what a whole row's
/// error hangs on. Equal numbers are rounded alike, so that their errors add up where they are
/// added up: what is drawn follows from the number. By splitmix64: many millions are drawn.
double Noise::draw(double value) const {
  std::uint64_t z = state + std::bit_cast<std::uint64_t>(value) * 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  z ^= z >> 31;
  const double size = 0.5 + static_cast<double>(z >> 12) * 0x1p-53;
  return (z & 1) != 0 ? size : -size;
}

void Noise::operator()(Value value, ir::Tensor64& tensor) {
  const DType dtype = family::dtypeOf(ir::tensorType(value).getElementType());
  const ir::ReduceOp sum = asSum(value.getDefiningOp());
  const bool isResult = llvm::all_of(
      value.getUsers(), [](Operation* user) { return user->hasTrait<OpTrait::IsTerminator>(); });
  if (halfUlp(dtype) == 0.0)
    return;
  // Of a family that rounds further; it adds up in fp32.
  const double within = sum ? 0.0 : unitWithin(value);
  const bool isNarrower = within >= halfUlp(dtype);
  double unit = 2.0 * std::max(halfUlp(dtype), within);
  if (isResult && !sum && !isNarrower) // rounding a result is allowed for by itself
    return;
  if (sum)
    unit *= 4.0; // partial sums are rounded too, a dozen in a row or so
  // Inputs were rounded, sums are on their way.
  const bool isRounded = value.getDefiningOp() && !sum && !isNarrower;
  const std::vector<Partial>* partials = sum ? &partialSums[sum] : nullptr;
  const auto move = [&](std::size_t i, double& v) {
    // What a type holds is not rounded: what is moved, chosen or infinite stays as it is, so that
    // a gradient finds the element again that was the largest.
    if (!std::isfinite(v) || (isRounded && held(dtype, v)))
      return;
    double moved = std::abs(v) * unit;
    if (sum) {
      const Partial& partial = (*partials)[i];
      moved = std::max({moved, partial.walk * unit, partial.chain * kShareOfChain});
    }
    v = nearest(dtype, v + moved * draw(v));
  };
  ir::inRanges(tensor.size(), [&](std::int64_t i, std::int64_t end) {
    for (; i < end; ++i)
      move(static_cast<std::size_t>(i), tensor.data[i]);
  });
  state += kNext;
  notePartialSums(value, tensor);
}

/// Of each sum, what its partial sums amount to: they may cancel in the end. And what rounding does
/// to a chain of sums in fp32, or to shorter chains side by side: terms that are equal are rounded
/// the same way again and again, which is no random walk.
void Noise::notePartialSums(Value value, const ir::Tensor64& tensor) {
  for (Operation* user : value.getUsers()) {
    ir::ReduceOp sum = asSum(user);
    if (!sum)
      continue;
    const ir::Reduced reduced(tensor.shape, sum.getDims());
    std::vector<Chain> chains(ir::unsetTensor64(reduced.shape).data.size());
    reduced.each([&](std::int64_t place, std::int64_t i) {
      chains[place].add(static_cast<float>(tensor.data[i]), reduced.terms);
    });
    const double divisor =
        sum.getKind() == ir::ReduceKind::mean ? static_cast<double>(reduced.terms) : 1.0;
    std::vector<Partial>& partial = partialSums[sum];
    partial.clear();
    for (const Chain& chain : chains)
      partial.push_back({std::sqrt(chain.squares) / divisor, chain.worst / divisor});
  }
}

} // namespace kiln::program
