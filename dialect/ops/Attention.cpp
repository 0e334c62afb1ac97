// kiln.attention: verifier, fp64 reference, gradient.
#include "dialect/Attention.h"
#include "dialect/Ranges.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace kiln::ir;

void AttentionOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getOutput(), "o");
  setName(getLse(), "lse");
}

NumbersTaken AttentionOp::numbersTaken(unsigned operand) {
  return AttentionForm(*this).numbersTaken(getOperand(operand));
}

bool AttentionOp::sample(int64_t step) {
  AttentionForm(*this).sample(step);
  return true;
}
bool AttentionOp::perturb(double unit, uint64_t seed) {
  AttentionForm(*this).perturb(unit, seed);
  return true;
}

LogicalResult AttentionOp::verify() {
  const AttentionForm form(*this);
  if (failed(verifyAttention(form)))
    return failure();
  return success(
      succeeded(verifyShape(*this, "output", getOutput(), form.outputShape(), "query and value")) &&
      succeeded(verifyStatistic(*this, "lse", getLse(), getQuery())));
}

void AttentionOp::reference(ArrayRef<const Tensor64*> inputs, MutableArrayRef<Tensor64> results) {
  const Tensor64 &query = *inputs[0], &value = *inputs[2];
  SmallVector<int64_t> shape(ArrayRef(query.shape).drop_back());
  results[1] = makeTensor64(shape, -std::numeric_limits<double>::infinity());
  shape.push_back(value.width());
  results[0] = unsetTensor64(shape);
  const AttentionForm form(*this);
  const int64_t step = form.step(), rows = query.rows();
  const auto row = [&](AttentionScores& scores, int64_t r) {
    const auto& places = scores.openPlaces(r);
    double &lse = results[1].data[r], largest = lse, sum = 0.0;
    for (const auto& place : places)
      largest = std::isnan(place.score) || place.score > largest ? place.score : largest;
    for (const auto& place : places)
      sum += std::exp(place.score - largest);
    if (!places.empty())
      lse = scores.logarithm(largest, sum);
    std::fill_n(results[0].row(r), value.width(), 0.0);
    for (const auto& place : places) {
      const double probability =
          scores.rounded(place, std::exp(place.score - largest) * place.kept) / sum;
      for (int64_t c = 0; c < value.width(); ++c)
        results[0].row(r)[c] += probability * value.row(place.key)[c];
    }
  };
  inRanges(rows, form.ranges(rows, query, *inputs[1]), [&](int64_t, int64_t r, int64_t end) {
    AttentionScores scores(form, inputs);
    for (; r < end; ++r)
      if (r % step == 0) {
        row(scores, r);
      } else {
        results[1].data[r] = std::nan("");
        std::fill_n(results[0].row(r), value.width(), std::nan(""));
      }
  });
}

/// The gradient of the output, rounded to the query's type as products take it.
static Value outputGradient(AttentionOp op, Gradient& gradient) {
  Value d = gradient.of(op.getOutput());
  if (!d) { // zeros; with the sizes of the query, if they are the same, so that no output is saved
    const bool same = op.getQuery().getType() == op.getOutput().getType();
    return gradient.math.constant(0.0, same ? op.getQuery() : op.getOutput());
  }
  auto widen = d.getDefiningOp<arith::ExtFOp>();
  Type element = tensorType(op.getQuery()).getElementType();
  if (widen && tensorType(widen.getIn()).getElementType() == element)
    return widen.getIn();
  return element.getIntOrFloatBitWidth() == 16 ? gradient.math.cast(d, element) : d;
}

/// One backward of all that is wanted. What each row's scores lose to the sum of its probabilities
/// is a number a row, to which the gradient of lse comes with the other sign. It is the sum of
/// products with the gradient as rounded: where a row sees one key, both are to cancel.
LogicalResult AttentionOp::gradient(Gradient& gradient) {
  MathBuilder& math = gradient.math;
  SmallVector<Value, 4> wanted;
  auto typeOf = [&](Value operand) {
    if (!gradient.wants(operand))
      return Type();
    wanted.push_back(operand);
    return Type(tensorType(operand).clone(math.builder.getF32Type()));
  };
  Type query = typeOf(getQuery()), key = typeOf(getKey()), value = typeOf(getValue()),
       bias = typeOf(getBias());
  if (wanted.empty())
    return success();
  Value d = gradient.of(getOutput()), dlse = gradient.of(getLse());
  Value taken = outputGradient(*this, gradient);
  auto widen = d ? d.getDefiningOp<arith::ExtFOp>() : arith::ExtFOp();
  if (d && taken != d && !(widen && widen.getIn() == taken))
    d = math.f32(taken);
  Value delta = d ? math.sumOfRow(math.mul(d, math.f32(getOutput()))) : math.neg(dlse);
  if (d && dlse)
    delta = math.sub(delta, dlse);
  auto backward = math.builder.create<AttentionBackwardOp>(
      math.location, query, key, value, bias, taken, delta, getLse(), getQuery(), getKey(),
      getValue(), getBias(), getMask(), getQueryStarts(), getKeyStarts(), getSeed(), getOffset(),
      getScaleAttr(), getSoftcapAttr(), getCausalAttr(), getWindowLeftAttr(), getWindowRightAttr(),
      getPAttr());
  for (auto [operand, result] : llvm::zip_equal(wanted, backward.getResults()))
    gradient.add(operand, result);
  return success();
}
