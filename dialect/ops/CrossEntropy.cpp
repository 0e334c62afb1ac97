// kiln.cross_entropy: verifier, fp64 reference, gradient, decomposition.
#include "dialect/Kiln.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace kiln::ir;

static constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

void CrossEntropyOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getLoss(), "loss");
  setName(getLse(), "lse");
}

LogicalResult CrossEntropyOp::verify() {
  if (failed(verifyRow(*this, getInput())))
    return failure();
  float smoothing = getLabelSmoothing().convertToFloat(), z = getZLoss().convertToFloat();
  if (!(smoothing >= 0 && smoothing <= 1))
    return emitOpError("label_smoothing is ") << smoothing << "; it must be from 0 to 1";
  if (!(z >= 0))
    return emitOpError("z_loss is ") << z << "; it must not be negative";
  auto ignore = static_cast<int64_t>(getIgnoreIndex());
  Type index = tensorType(getTarget()).getElementType();
  if (index.isInteger(32) && ignore != static_cast<int32_t>(ignore))
    return emitOpError("ignore_index is ") << ignore << ", which targets of type i32 cannot hold";
  auto rows = tensorType(getInput()).getShape().drop_back();
  return success(succeeded(verifyShape(*this, "target", getTarget(), rows, "the input")) &&
                 succeeded(verifyStatistic(*this, "loss", getLoss(), getInput())) &&
                 succeeded(verifyStatistic(*this, "lse", getLse(), getInput())));
}

void CrossEntropyOp::reference(ArrayRef<const Tensor64*> inputs,
                               MutableArrayRef<Tensor64> results) {
  const Tensor64& x = *inputs[0];
  const double smoothing = getLabelSmoothing().convertToFloat(), z = getZLoss().convertToFloat();
  results[0] = results[1] = makeTensor64(ArrayRef(x.shape).drop_back());
  for (int64_t r = 0; r < x.rows(); ++r) {
    ArrayRef<double> row(x.row(r), x.width());
    double largest = -std::numeric_limits<double>::infinity(), sum = 0.0, mean = 0.0;
    for (double v : row)
      largest = std::isnan(v) || v > largest ? v : largest;
    for (double v : row) {
      sum += std::exp(v - largest);
      mean += v / static_cast<double>(row.size());
    }
    const double lse = results[1].data[r] = largest + std::log(sum);
    const auto target = static_cast<int64_t>(inputs[1]->data[r]);
    double& loss = results[0].data[r];
    if (target == static_cast<int64_t>(getIgnoreIndex()))
      loss = 0.0;
    else if (target < 0 || target >= x.width())
      loss = kNaN;
    else
      loss = (1 - smoothing) * (lse - row[target]) + z * lse * lse +
             (smoothing > 0 ? smoothing * (lse - mean) : 0.0);
  }
}

static Value isIgnored(MathBuilder& math, CrossEntropyOp op) {
  auto ignore = static_cast<int64_t>(op.getIgnoreIndex());
  return math.equal(op.getTarget(), math.integer(ignore, op.getTarget()));
}

/// `value` of each row, NaN where the target is none of the classes.
static Value nanOutOfRange(MathBuilder& math, CrossEntropyOp op, Value value) {
  int64_t classes = tensorType(op.getInput()).getShape().back();
  Value inside = math.inRange(op.getTarget(), math.integer(classes, op.getTarget()));
  return math.select(inside, value, math.constant(kNaN, value));
}

namespace {
/// What is known of a row once it has been read: its largest logit, the logits less that, and the
/// logarithm of the sum of their exponentials. Apart these are exact to the last digits of the
/// differences between logits, which the sum of both, `lse`, is not where logits are large.
struct RowStatistics {
  Value largest, centred, logSum;
  RowStatistics(MathBuilder& math, CrossEntropyOp op) {
    Value x = math.f32(op.getInput());
    Type stored = tensorType(op.getInput()).getElementType();
    largest = math.named("largest", math.maxOfRow(x));
    centred = math.sub(x, math.alongRow(largest, x));
    logSum = math.log(math.named("sum", math.sumOfRow(math.expFor(stored, centred))));
  }
};
} // namespace

/// dx = dloss (p (1 + 2 z lse) - share of the class) + dlse p, p = exp((x - max) - log(sum)). The
/// rows that are ignored get 0 by selection: their logits may be anything.
LogicalResult CrossEntropyOp::gradient(Gradient& gradient) {
  Value dloss = gradient.of(getLoss()), dlse = gradient.of(getLse());
  if ((!dloss && !dlse) || !gradient.wants(getInput()))
    return success();
  MathBuilder& math = gradient.math;
  Value x = math.f32(getInput());
  const RowStatistics row(math, *this);
  auto pTimes = [&](Value factor) {
    Type stored = tensorType(getInput()).getElementType();
    return math.expTimes(stored, row.centred, row.logSum, factor);
  };
  if (dloss) {
    dloss = nanOutOfRange(math, *this, dloss);
    Value scale = dloss;
    if (double z = getZLoss().convertToFloat(); z != 0.0)
      scale = math.mul(dloss, math.add(math.mul(math.add(row.largest, row.logSum), 2.0 * z), 1.0));
    const double smoothing = getLabelSmoothing().convertToFloat();
    const double other = smoothing / static_cast<double>(tensorType(x).getShape().back());
    Value mine = math.constant(1.0 - smoothing + other, x), others = math.constant(other, x);
    Value share = math.select(math.isColumn(getTarget(), getInput()), mine, others);
    Value pull = math.mul(share, math.alongRow(dloss, x));
    Value dx = math.sub(pTimes(scale), pull);
    Value ignored = math.alongRow(isIgnored(math, *this), x);
    gradient.add(getInput(), math.select(ignored, math.constant(0.0, x), dx));
  }
  if (dlse)
    gradient.add(getInput(), pTimes(dlse));
  return success();
}

SmallVector<Value> CrossEntropyOp::decompose(MathBuilder& math) {
  const RowStatistics row(math, *this);
  Value lse = math.add(row.largest, row.logSum);
  // From centred logits: lse - x[t] of large logits would lose the digits that differ.
  auto rows = tensorType(getTarget()).clone(tensorType(getInput()).getElementType());
  Value chosen = math.builder.create<PickOp>(math.location, rows, getInput(), getTarget());
  Value loss = math.sub(row.logSum, math.sub(chosen, row.largest));
  if (double smoothing = getLabelSmoothing().convertToFloat(); smoothing != 0.0) {
    Value level = math.sub(row.logSum, math.meanOfRow(row.centred));
    loss = math.add(math.mul(loss, 1.0 - smoothing), math.mul(level, smoothing));
  }
  if (double z = getZLoss().convertToFloat(); z != 0.0)
    loss = math.add(loss, math.mul(math.mul(lse, lse), z));
  loss = nanOutOfRange(math, *this, loss);
  return {math.select(isIgnored(math, *this), math.constant(0.0, loss), loss), lse};
}
