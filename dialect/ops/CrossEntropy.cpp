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

/// dx = dloss (p (1 + 2 z lse) - share of the class) + dlse p, p = exp(x - lse). The rows that are
/// ignored get 0 by selection: their logits may be anything.
LogicalResult CrossEntropyOp::gradient(Gradient& gradient) {
  Value dloss = gradient.of(getLoss()), dlse = gradient.of(getLse());
  if ((!dloss && !dlse) || !gradient.wants(getInput()))
    return success();
  MathBuilder& math = gradient.math;
  Value x = math.f32(getInput());
  Type stored = tensorType(getInput()).getElementType();
  Value p = math.expFor(stored, math.sub(x, math.alongRow(getLse(), x)));
  if (dloss) {
    dloss = nanOutOfRange(math, *this, dloss);
    Value scale = dloss;
    if (double z = getZLoss().convertToFloat(); z != 0.0)
      scale = math.mul(dloss, math.add(math.mul(getLse(), 2.0 * z), 1.0));
    const double smoothing = getLabelSmoothing().convertToFloat();
    const double other = smoothing / static_cast<double>(tensorType(x).getShape().back());
    Value mine = math.constant(1.0 - smoothing + other, x), others = math.constant(other, x);
    Value share = math.select(math.isColumn(getTarget(), getInput()), mine, others);
    Value pull = math.mul(share, math.alongRow(dloss, x));
    Value dx = math.sub(math.mul(p, math.alongRow(scale, x)), pull);
    Value ignored = math.alongRow(isIgnored(math, *this), x);
    gradient.add(getInput(), math.select(ignored, math.constant(0.0, x), dx));
  }
  if (dlse)
    gradient.add(getInput(), math.mul(p, math.alongRow(dlse, x)));
  return success();
}

SmallVector<Value> CrossEntropyOp::decompose(MathBuilder& math) {
  Value x = math.f32(getInput());
  Value largest = math.maxOfRow(x);
  Value centred = math.sub(x, math.alongRow(largest, x));
  Type stored = tensorType(getInput()).getElementType();
  Value logSum = math.log(math.sumOfRow(math.expFor(stored, centred)));
  Value lse = math.add(largest, logSum);
  // From centred logits: lse - x[t] of large logits would lose the digits that differ.
  auto rows = tensorType(getTarget()).clone(stored);
  Value chosen = math.builder.create<PickOp>(math.location, rows, getInput(), getTarget());
  Value loss = math.sub(logSum, math.sub(chosen, largest));
  if (double smoothing = getLabelSmoothing().convertToFloat(); smoothing != 0.0) {
    Value level = math.sub(logSum, math.meanOfRow(centred));
    loss = math.add(math.mul(loss, 1.0 - smoothing), math.mul(level, smoothing));
  }
  if (double z = getZLoss().convertToFloat(); z != 0.0)
    loss = math.add(loss, math.mul(math.mul(lse, lse), z));
  loss = nanOutOfRange(math, *this, loss);
  return {math.select(isIgnored(math, *this), math.constant(0.0, loss), loss), lse};
}
