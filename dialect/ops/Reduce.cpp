// kiln.reduce: verifier, folder, fp64 reference, gradient.
#include "dialect/Kiln.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace kiln::ir;

bool ReduceOp::isOverLast() {
  return getDims().size() == 1 && getDims()[0] == tensorType(getInput()).getRank() - 1;
}
bool ReduceOp::isOverLeading() {
  int64_t rank = tensorType(getInput()).getRank();
  return rank > 1 && getDims() == ArrayRef(dimsFrom(0, rank - 1));
}
bool ReduceOp::isOverAll() {
  int64_t rank = tensorType(getInput()).getRank();
  return rank > 1 && getDims() == ArrayRef(dimsFrom(0, rank));
}

void ReduceOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getOutput(), stringifyReduceKind(getKind()));
}

LogicalResult ReduceOp::verify() {
  auto type = tensorType(getInput());
  int64_t rank = type.getRank();
  SmallVector<int64_t> shape(type.getShape());
  if (getDims().empty())
    return emitOpError("reduces no dimension; name at least one in dims");
  int64_t previous = -1;
  for (int64_t d : getDims()) {
    if (d <= previous || d >= rank)
      return emitOpError("dims [") << getDims() << "] of a tensor of rank " << rank
                                   << ": give increasing dimensions from 0 to " << rank - 1;
    previous = d;
  }
  for (int64_t d : llvm::reverse(getDims()))
    shape.erase(shape.begin() + d);
  return verifyShape(*this, "output", getOutput(), shape, "the reduced input");
}

/// The mean, largest and smallest of equal elements is that element.
OpFoldResult ReduceOp::fold(FoldAdaptor adaptor) {
  auto splat = dyn_cast_if_present<SplatElementsAttr>(adaptor.getInput());
  auto type = tensorType(getOutput());
  if (!splat || getKind() == ReduceKind::sum || !type.hasStaticShape() ||
      type.getElementType() != splat.getElementType())
    return {};
  return splat.resizeSplat(type);
}

void ReduceOp::reference(ArrayRef<const Tensor64*> inputs, MutableArrayRef<Tensor64> results) {
  const Tensor64& x = *inputs[0];
  const Reduced reduced(x.shape, getDims());
  const auto count = static_cast<double>(reduced.terms);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const ReduceKind kind = getKind();
  const double first = kind == ReduceKind::max   ? -infinity
                       : kind == ReduceKind::min ? infinity
                                                 : 0.0;
  Tensor64& out = results[0] = makeTensor64(reduced.shape, first);
  reduced.each([&](int64_t place, int64_t i) {
    const double v = x.data[i];
    double& total = out.data[place];
    if (kind == ReduceKind::max)
      total = std::isnan(v) || v > total ? v : total;
    else if (kind == ReduceKind::min)
      total = std::isnan(v) || v < total ? v : total;
    else
      total += kind == ReduceKind::mean ? v / count : v;
  });
}

/// A sum hands its gradient to every element, a mean a share of it, an extremum to the elements
/// that equal it, in equal shares (as ATen's amax and amin do).
LogicalResult ReduceOp::gradient(Gradient& gradient) {
  Value d = gradient.of(getOutput());
  if (!d || !gradient.wants(getInput()))
    return success();
  MathBuilder& math = gradient.math;
  Value x = math.f32(getInput());
  SmallVector<int64_t> kept;
  double count = 1.0;
  for (auto [dim, size] : llvm::enumerate(tensorType(x).getShape()))
    if (!llvm::is_contained(getDims(), static_cast<int64_t>(dim)))
      kept.push_back(dim);
    else if (ShapedType::isDynamic(size) && getKind() == ReduceKind::mean)
      return emitOpError("the gradient of a mean over a dimension of unknown size; take the sum "
                         "and scale it");
    else
      count *= static_cast<double>(size);
  auto spread = [&](Value v) { return math.broadcast(v, kept, x); };
  if (getKind() == ReduceKind::sum || getKind() == ReduceKind::mean) {
    gradient.add(getInput(), spread(getKind() == ReduceKind::mean ? math.mul(d, 1.0 / count) : d));
    return success();
  }
  Value hit = math.equal(x, spread(math.f32(getOutput())));
  Value hits = math.sumOver(math.cast(hit, math.builder.getF32Type()), getDims());
  Value share = spread(math.div(d, hits));
  gradient.add(getInput(), math.select(hit, share, math.constant(0.0, x)));
  return success();
}
