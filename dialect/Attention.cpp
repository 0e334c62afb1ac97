// See Attention.h.
#include "dialect/Attention.h"
#include "dialect/Ranges.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

using namespace mlir;

namespace kiln::ir {

static constexpr int64_t kMaxHeadWidth = 256;

SmallVector<int64_t> AttentionForm::scoresShape() const {
  SmallVector<int64_t> shape(rowsShape());
  shape.push_back(tensorType(key).getShape().drop_back().back());
  return shape;
}
SmallVector<int64_t> AttentionForm::outputShape() const {
  SmallVector<int64_t> shape(rowsShape());
  shape.push_back(tensorType(value).getShape().back());
  return shape;
}
ArrayRef<int64_t> AttentionForm::rowsShape() const {
  return tensorType(query).getShape().drop_back();
}

bool AttentionForm::masksPlaces() const {
  return mask && tensorType(mask).getShape().end()[-2] != 1;
}

NumbersTaken AttentionForm::numbersTaken(Value operand) const {
  const auto rows = [](Value value) {
    const auto rank = static_cast<int>(tensorType(value).getRank());
    return NumbersTaken{.lowest = {}, .ascendWithin = value, .dimension = rank - 2};
  };
  if (operand == queryStarts)
    return rows(query);
  return operand == keyStarts ? rows(key) : NumbersTaken();
}

static constexpr llvm::StringLiteral kStep = "kiln.step";

void AttentionForm::sample(int64_t step) const {
  op->setAttr(kStep, IntegerAttr::get(IntegerType::get(op->getContext(), 64), step));
}

int64_t AttentionForm::step() const {
  const auto step = op->getAttrOfType<IntegerAttr>(kStep);
  return step ? step.getInt() : 1;
}

int64_t AttentionForm::ranges(int64_t count, const Tensor64& query, const Tensor64& key) const {
  constexpr double worthAThread = 1 << 20; // multiply-adds
  const int64_t keys = key.shape.end()[-2];
  const double all =
      static_cast<double>(query.size()) * static_cast<double>(keys) / static_cast<double>(step());
  return rangesOf(count, static_cast<int64_t>(std::ceil(static_cast<double>(count) * worthAThread /
                                                        std::max(all, 1.0))));
}

static constexpr llvm::StringLiteral kUnit = "kiln.unit", kNoise = "kiln.noise";

void AttentionForm::perturb(double unit, uint64_t seed) const {
  Builder builder(op->getContext());
  op->setAttr(kUnit, builder.getF64FloatAttr(unit));
  op->setAttr(kNoise, builder.getI64IntegerAttr(static_cast<int64_t>(seed)));
}

AttentionForm::Noise AttentionForm::noise() const {
  const auto unit = op->getAttrOfType<FloatAttr>(kUnit);
  if (!unit)
    return {};
  const bool isHalf = tensorType(query).getElementType().isF16();
  return {unit.getValueAsDouble(),
          static_cast<uint64_t>(op->getAttrOfType<IntegerAttr>(kNoise).getInt()),
          isHalf ? 0x1p-25 : 0.0};
}

double AttentionForm::Noise::draw(uint64_t number) const { // splitmix64
  uint64_t z = seed + number * 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  z ^= z >> 31;
  const double size = 0.5 + static_cast<double>(z >> 12) * 0x1p-53;
  return (z & 1) != 0 ? size : -size;
}

double AttentionForm::usualScore() const {
  constexpr double deviations = 4.0;
  double products = deviations * std::abs(scale) *
                    std::sqrt(static_cast<double>(tensorType(query).getShape().back()));
  if (softcap != 0.0)
    products = std::min(products, softcap);
  return std::hypot(products, bias ? deviations : 0.0);
}

// --- verifier ---------------------------------------------------------------------------------

/// Ranks and element types of query, key and value; their leading dimensions.
static LogicalResult verifyTriple(const AttentionForm& form) {
  const auto query = tensorType(form.query), key = tensorType(form.key),
             value = tensorType(form.value);
  if (query.getRank() < 3 || key.getRank() != query.getRank() || value.getRank() != query.getRank())
    return form.op->emitOpError("query, key and value have ranks ")
           << query.getRank() << ", " << key.getRank() << " and " << value.getRank()
           << "; give them one rank of at least 3, [..., heads, rows, width]";
  if (key.getElementType() != query.getElementType() ||
      value.getElementType() != query.getElementType())
    return form.op->emitOpError("query, key and value have elements of types ")
           << query.getElementType() << ", " << key.getElementType() << " and "
           << value.getElementType() << "; cast them to one type";
  const auto leading = query.getShape().drop_back(3);
  for (auto [what, type] : {std::pair("key", key), std::pair("value", value)})
    if (type.getShape().drop_back(3) != leading)
      return form.op->emitOpError()
             << what << " has the leading dimensions " << shapeText(type.getShape().drop_back(3))
             << ", the query " << shapeText(leading) << "; they must agree";
  return success();
}

static LogicalResult verifyHeads(const AttentionForm& form) {
  auto heads = [](Value value) { return tensorType(value).getShape().take_back(3).front(); };
  const int64_t query = heads(form.query), key = heads(form.key), value = heads(form.value);
  const bool constant = !ShapedType::isDynamic(query) && !ShapedType::isDynamic(key);
  if (key != value || !constant || key < 1 || query < 1 || query % key != 0)
    return form.op->emitOpError("heads of query, key and value are ")
           << shapeText({query, key, value})
           << "; they must be constants, one number for key and value, and the query's a multiple "
              "of it";
  return success();
}

/// Rows of keys and values, and the widths of all.
static LogicalResult verifyRows(const AttentionForm& form) {
  auto rows = [](Value value) { return tensorType(value).getShape().take_back(2); };
  const auto query = rows(form.query), key = rows(form.key), value = rows(form.value);
  if (key[0] != value[0])
    return form.op->emitOpError("key and value have rows ")
           << shapeText({key[0], value[0]}) << "; each key has one value";
  if (query[1] != key[1])
    return form.op->emitOpError("rows of query and key have widths ")
           << shapeText({query[1], key[1]}) << "; they must agree";
  for (auto [what, width] : {std::pair("query", query[1]), std::pair("value", value[1])})
    if (ShapedType::isDynamic(width) || width < 1 || width > kMaxHeadWidth)
      return form.op->emitOpError("rows of the ")
             << what << " have width " << shapeText({width}) << "; it must be a constant from 1 to "
             << kMaxHeadWidth;
  return success();
}

/// `value`, the bias or the mask, can be broadcast to the scores.
static LogicalResult verifyBroadcast(const AttentionForm& form, StringRef what, Value value) {
  if (!value)
    return success();
  const auto shape = tensorType(value).getShape();
  const SmallVector<int64_t> scores = form.scoresShape();
  const bool fits = shape.size() == scores.size() &&
                    llvm::all_of(llvm::zip(shape, scores), [](const auto& sizes) {
                      return std::get<0>(sizes) == 1 || std::get<0>(sizes) == std::get<1>(sizes);
                    });
  if (fits)
    return success();
  return form.op->emitOpError() << what << " has shape " << shapeText(shape) << ", the scores "
                                << shapeText(scores)
                                << "; give it their rank, and in each dimension their size or 1";
}

static LogicalResult verifyStarts(const AttentionForm& form) {
  if (!form.queryStarts && !form.keyStarts)
    return success();
  if (!form.queryStarts || !form.keyStarts)
    return form.op->emitOpError(form.queryStarts ? "query_starts without key_starts"
                                                 : "key_starts without query_starts")
           << "; packed sequences need both";
  if (const int64_t rank = tensorType(form.query).getRank(); rank != 3)
    return form.op->emitOpError("packed sequences in a query of rank ")
           << rank << "; they have rank 3, [heads, rows of all sequences, width]";
  const int64_t query = tensorType(form.queryStarts).getDimSize(0);
  const int64_t key = tensorType(form.keyStarts).getDimSize(0);
  if (query != key || query == 0 || query == 1)
    return form.op->emitOpError("query_starts and key_starts have lengths ")
           << shapeText({query, key})
           << "; both have n + 1 numbers for n sequences, the last where the last one ends";
  return success();
}

static LogicalResult verifyDropout(const AttentionForm& form) {
  if (!form.seed != !form.offset)
    return form.op->emitOpError(form.seed ? "seed without offset" : "offset without seed")
           << "; dropout needs both";
  if (!(form.p >= 0.0 && form.p <= 1.0))
    return form.op->emitOpError("p = ")
           << form.p << " is no probability; give a number from 0 to 1";
  if (form.p != 0.0 && !form.seed)
    return form.op->emitOpError("p = ")
           << form.p << " without seed and offset; write 'dropout SEED, OFFSET p P'";
  return success();
}

static LogicalResult verifyNumbers(const AttentionForm& form) {
  if (!std::isfinite(form.scale))
    return form.op->emitOpError("scale is ") << form.scale << "; it must be finite";
  constexpr double most = 1e20; // beyond, fp32 has no quotients of scores by it
  if (!(form.softcap >= 0 && form.softcap <= most))
    return form.op->emitOpError("softcap is ")
           << form.softcap << "; it must be positive and at most 1e20, or 0 for none";
  for (auto [what, width] :
       {std::pair("window_left", form.windowLeft), std::pair("window_right", form.windowRight)})
    if (width < -1)
      return form.op->emitOpError()
             << what << " is " << width << "; give a number of keys from 0 on, or -1 for all";
  return success();
}

LogicalResult verifyAttention(const AttentionForm& form) {
  return success(
      succeeded(verifyTriple(form)) && succeeded(verifyHeads(form)) &&
      succeeded(verifyRows(form)) && succeeded(verifyBroadcast(form, "bias", form.bias)) &&
      succeeded(verifyBroadcast(form, "mask", form.mask)) && succeeded(verifyStarts(form)) &&
      succeeded(verifyDropout(form)) && succeeded(verifyNumbers(form)));
}

// --- scores in fp64 ---------------------------------------------------------------------------

AttentionScores::Broadcast::Broadcast(const Tensor64& tensor, ArrayRef<int64_t> scores)
    : tensor_(&tensor), scores_(scores), strides_(scores.size()) {
  int64_t stride = 1;
  for (size_t d = scores.size(); d-- > 0; stride *= tensor.shape[d])
    strides_[d] = tensor.shape[d] == 1 ? 0 : stride;
}

int64_t AttentionScores::Broadcast::at(int64_t index) const {
  int64_t place = 0;
  for (size_t d = scores_.size(); d-- > 0; index /= scores_[d])
    place += index % scores_[d] * strides_[d];
  return place;
}

AttentionScores::AttentionScores(const AttentionForm& form, ArrayRef<const Tensor64*> inputs)
    : form_(form), query_(inputs[0]), key_(inputs[1]), rule_(form.p), noise_(form.noise()) {
  SmallVector<int64_t> scores(ArrayRef(query_->shape).drop_back());
  scores.push_back(ArrayRef(key_->shape).drop_back().back());
  inputs = inputs.drop_front(3);
  auto next = [&] {
    const Tensor64* tensor = inputs.front();
    inputs = inputs.drop_front();
    return tensor;
  };
  if (form.bias)
    bias_ = Broadcast(*next(), scores);
  if (form.mask)
    mask_ = Broadcast(*next(), scores);
  if (form.queryStarts) {
    queryStarts_ = next();
    keyStarts_ = next();
  }
  if (form.seed && form.p != 0.0)
    random_.emplace(*inputs[0], *inputs[1], rule_.bits);
}

AttentionScores::Span AttentionScores::keysOf(int64_t i) const {
  const int64_t rank = query_->shape.size();
  Span rows{0, query_->shape[rank - 2]}, all{0, key_->shape[rank - 2]}, keys = all;
  if (queryStarts_) {
    auto span = [](const Tensor64& starts, size_t n) {
      return Span{static_cast<int64_t>(starts.data[n]), static_cast<int64_t>(starts.data[n + 1])};
    };
    size_t n = 0, count = queryStarts_->data.size() - 1;
    for (; n < count; ++n)
      if (rows = span(*queryStarts_, n); rows.begin <= i && i < rows.end)
        break;
    if (n == count)
      return {0, 0};
    keys = span(*keyStarts_, n);
  }
  const int64_t aligned = form_.causal == Causal::last ? keys.size() - rows.size() : 0;
  const int64_t same = i - rows.begin + aligned + keys.begin; // the key at the place of the query
  Span seen{std::max(keys.begin, all.begin), std::min(keys.end, all.end)};
  // Compared as distances: windows as large as i64 do not overflow.
  if (form_.windowLeft >= 0 && form_.windowLeft < same - seen.begin)
    seen.begin = same - form_.windowLeft;
  if (form_.windowRight >= 0 && form_.windowRight < seen.end - 1 - same)
    seen.end = same + form_.windowRight + 1;
  if (form_.causal != Causal::none)
    seen.end = std::min(seen.end, same + 1);
  return seen;
}

double AttentionScores::product(const double* a, const double* b, int64_t width) {
  constexpr int64_t lanes = 8; // sums side by side: one alone would wait for each addition
  double sums[lanes] = {}, squares = 0.0;
  int64_t c = 0;
  for (; c + lanes <= width; c += lanes)
    for (int64_t lane = 0; lane < lanes; ++lane)
      sums[lane] += a[c + lane] * b[c + lane];
  double sum = std::accumulate(std::begin(sums), std::end(sums), 0.0);
  for (; c < width; ++c)
    sum += a[c] * b[c];
  if (noise_.unit == 0.0)
    return sum;
  for (c = 0; c < width; ++c)
    squares += a[c] * a[c] * b[c] * b[c];
  return sum + noise_.ofSums() * std::sqrt(squares) * noise_.draw(~products_++);
}

double AttentionScores::logarithm(double largest, double sum) {
  const double ofSum = std::log(sum), exact = largest + ofSum;
  if (noise_.unit == 0.0 || !std::isfinite(exact))
    return exact;
  const double size = 1.0 + std::abs(largest) + std::abs(ofSum); // 1: of the sum's relative error
  return exact + 0x1p-24 * size * noise_.draw(~products_++);
}

/// Numbers that are nearly equal are rounded alike, so that their errors add up: those within a
/// fraction of what lies between two of the type's numbers, but for as much.
double AttentionScores::rounded(const Place& place, double value, double by) const {
  constexpr double fraction = 4.0;
  if (noise_.unit == 0.0 || value == 0.0 || !std::isfinite(value))
    return value;
  const auto near = static_cast<int64_t>(std::log(std::abs(value)) * fraction / noise_.unit);
  const uint64_t own = std::bit_cast<uint64_t>(value) ^ static_cast<uint64_t>(place.index);
  const double draw = noise_.draw(static_cast<uint64_t>(near)) + 2 / fraction * noise_.draw(own);
  return value + draw * std::max(noise_.unit * std::abs(value), noise_.least * by);
}

const std::vector<AttentionScores::Place>& AttentionScores::openPlaces(int64_t r, int64_t step) {
  const int64_t rank = query_->shape.size(), width = query_->width();
  const int64_t rows = query_->shape[rank - 2], keys = key_->shape[rank - 2];
  const int64_t shared = query_->shape[rank - 3] / key_->shape[rank - 3]; // heads of one key
  const int64_t firstKey = r / rows / shared * keys;
  const Span seen = keysOf(r % rows);
  // Of a score and its gradient for each key, and a logarithm.
  products_ = static_cast<uint64_t>(r * (2 * keys + 1));
  places_.clear();
  for (int64_t j = (seen.begin + step - 1) / step * step; j < seen.end; j += step) {
    const int64_t index = r * keys + j;
    if (mask_ && mask_(index) == 0.0)
      continue;
    double slope = form_.scale;
    double score = form_.scale * product(query_->row(r), key_->row(firstKey + j), width);
    if (form_.softcap != 0.0) {
      const double capped = std::tanh(score / form_.softcap);
      score = form_.softcap * capped;
      slope *= 1.0 - capped * capped;
    }
    if (bias_)
      score += bias_(index);
    if (score == -std::numeric_limits<double>::infinity())
      continue;
    const bool keeps = !random_ || rule_.keeps(random_->word(index));
    places_.push_back({firstKey + j, bias_ ? bias_.at(index) : 0, score, slope,
                       keeps ? rule_.scale : 0.0, index});
  }
  return places_;
}

} // namespace kiln::ir
