// kiln.attention_backward: verifier, fp64 reference.
#include "dialect/Attention.h"
#include "dialect/Ranges.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace mlir;
using namespace kiln::ir;

void AttentionBackwardOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  for (auto [result, name] : {std::pair(getDQuery(), "dq"), std::pair(getDKey(), "dk"),
                              std::pair(getDValue(), "dv"), std::pair(getDBias(), "dbias")})
    if (result)
      setName(result, name);
}

NumbersTaken AttentionBackwardOp::numbersTaken(unsigned operand) {
  const AttentionForm form(*this);
  if (getOperand(operand) == getLse()) // no probability is above 1, but of outliers
    return {.lowest = form.usualScore(), .ascendWithin = {}};
  return form.numbersTaken(getOperand(operand));
}

bool AttentionBackwardOp::sample(int64_t step) {
  AttentionForm(*this).sample(step);
  return true;
}
bool AttentionBackwardOp::perturb(double unit, uint64_t seed) {
  AttentionForm(*this).perturb(unit, seed);
  return true;
}

/// What a sample does not complete: but for every `step`-th row, all. Of a bias, columns.
static void forget(Tensor64& gradient, int64_t step, int64_t rows) {
  const int64_t width = gradient.width();
  inRanges(gradient.rows(), rangesOf(gradient.rows(), kWorthAThread / width),
           [&](int64_t, int64_t r, int64_t end) {
             for (; r < end; ++r)
               if (r % rows % step != 0)
                 std::fill_n(gradient.row(r), width, std::nan(""));
           });
}
static void forgetColumns(Tensor64& gradient, int64_t step, int64_t columns) {
  const bool isComplete = gradient.width() == columns; // else each is a sum over all columns
  for (int64_t i = 0; i < gradient.size(); ++i)
    if (!isComplete || i % columns % step != 0)
      gradient.data[i] = std::nan("");
}

LogicalResult AttentionBackwardOp::verify() {
  const AttentionForm form(*this);
  if (failed(verifyAttention(form)) ||
      failed(verifyShape(*this, "output_gradient", getOutputGradient(), form.outputShape(),
                         "query and value")) ||
      failed(verifyStatistic(*this, "delta", getDelta(), getQuery())) ||
      failed(verifyStatistic(*this, "lse", getLse(), getQuery())))
    return failure();
  if (getNumResults() == 0)
    return emitOpError("gives no gradient; ask for at least one of query, key, value and bias");
  if (getDBias() && !getBias())
    return emitOpError("gives the gradient of a bias that it does not have; leave that out");
  auto fits = [&](StringRef what, Value result, Value operand, StringRef of) {
    return !result ||
           succeeded(verifyShape(*this, what, result, tensorType(operand).getShape(), of));
  };
  return success(fits("d_query", getDQuery(), getQuery(), "the query") &&
                 fits("d_key", getDKey(), getKey(), "the key") &&
                 fits("d_value", getDValue(), getValue(), "the value") &&
                 fits("d_bias", getDBias(), getBias(), "the bias"));
}

void AttentionBackwardOp::reference(ArrayRef<const Tensor64*> inputs,
                                    MutableArrayRef<Tensor64> results) {
  const Tensor64 &dO = *inputs[0], &delta = *inputs[1], &lse = *inputs[2];
  const Tensor64 &query = *inputs[3], &key = *inputs[4], &value = *inputs[5];
  Tensor64 dQuery = makeTensor64(query.shape), dKey = makeTensor64(key.shape),
           dValue = makeTensor64(value.shape);
  const AttentionForm form(*this);
  const int64_t step = form.step(), keys = key.shape.end()[-2];
  const auto row = [&](AttentionScores& scores, int64_t r, Tensor64& dBias) {
    for (const auto& place : scores.openPlaces(r, r % step == 0 ? 1 : step)) {
      const double p = std::exp(place.score - lse.data[r]);
      const double dP = scores.product(value.row(place.key), dO.row(r), value.width());
      const double kept = scores.rounded(place, p * place.kept);
      for (int64_t c = 0; c < value.width(); ++c)
        dValue.row(place.key)[c] += kept * dO.row(r)[c];
      const double dScore = p * (dP * place.kept - delta.data[r]);
      if (getBias())
        dBias.data[place.bias] += dScore;
      const double dProduct = scores.rounded(place, dScore * place.slope, std::abs(form.scale));
      for (int64_t c = 0; c < query.width(); ++c) {
        dQuery.row(r)[c] += dProduct * key.row(place.key)[c];
        dKey.row(place.key)[c] += dProduct * query.row(r)[c];
      }
    }
  };
  // Heads of keys are apart from each other, but that they may share a bias: its gradient is added
  // up for each range.
  const int64_t heads = keys > 0 ? key.rows() / keys : 0,
                rows = query.rows() / std::max<int64_t>(heads, 1);
  constexpr int64_t mostBiases = 1 << 25; // elements, of all ranges
  int64_t ranges = form.ranges(heads, query, key);
  if (getBias())
    ranges = std::clamp(mostBiases / std::max<int64_t>(inputs[6]->size(), 1), int64_t{1}, ranges);
  std::vector<Tensor64> dBiases(ranges);
  inRanges(heads, ranges, [&](int64_t range, int64_t begin, int64_t end) {
    Tensor64& dBias = dBiases[range];
    if (getBias())
      dBias = makeTensor64(inputs[6]->shape);
    AttentionScores scores(form, inputs.drop_front(3));
    for (int64_t r = rows * begin, last = rows * end; r < last; ++r)
      if (lse.data[r] != -std::numeric_limits<double>::infinity())
        row(scores, r, dBias);
  });
  Tensor64& dBias = dBiases.front();
  for (const Tensor64& more : ArrayRef(dBiases).drop_front())
    for (int64_t i = 0; i < dBias.size(); ++i)
      dBias.data[i] += more.data[i];
  if (step > 1) {
    forget(dQuery, step, query.rows());
    forget(dKey, step, keys);
    forget(dValue, step, keys);
    forgetColumns(dBias, step, keys);
  }
  size_t next = 0;
  for (auto [result, gradient] : {std::pair(getDQuery(), &dQuery), std::pair(getDKey(), &dKey),
                                  std::pair(getDValue(), &dValue), std::pair(getDBias(), &dBias)})
    if (result)
      results[next++] = std::move(*gradient);
}

LogicalResult AttentionBackwardOp::gradient(Gradient&) {
  return emitOpError("has no gradient: second derivatives of attention are not available; mark the "
                     "arguments or results that lead here {kiln.gradient = false}, or compute this "
                     "part with ATen");
}
