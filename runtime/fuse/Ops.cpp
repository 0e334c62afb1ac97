// The operations of expressions: a row of a table each, with the functions of fuse.h that make
// them.
#include "runtime/fuse/Writer.h"

#include <fmt/format.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/add.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/div.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/erf.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/ge.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/le.h>
#include <ATen/ops/log.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <numeric>

namespace kiln {

namespace {

using at::Tensor;
using fusion::Node;
using fusion::Op;
using fusion::Value;
using fusion::Writer;
using Values = std::span<const Value>;
using Tensors = std::span<const Tensor>;

Expr make(const Op& op, std::initializer_list<Expr> operands, std::array<double, 3> numbers = {}) {
  auto node = std::make_shared<Node>();
  node->op = &op;
  node->numbers = numbers;
  for (const Expr& operand : operands)
    node->operands.push_back(operand.node());
  return Expr(std::move(node));
}

/// A name of MLIR's as a template argument.
template <std::size_t size> struct Text {
  constexpr Text(const char (&text)[size]) { std::copy_n(text, size, characters); }
  char characters[size]{};
};

template <Text op> Value elementwise(Writer& writer, const Node&, Values v) {
  return writer.elementwise(op.characters, v);
}
template <Text op> Value named(Writer& writer, const Node&, Values v) {
  return writer.named(op.characters, v, "");
}
template <Text op> Value alongRows(Writer& writer, const Node& node, Values v) {
  writer.needColumns(node.op->name, v[0]);
  return writer.named(op.characters, v, "");
}
template <Text predicate> Value compare(Writer& writer, const Node&, Values v) {
  return writer.compare(predicate.characters, v[0], v[1]);
}
template <Text kind> Value reduce(Writer& writer, const Node&, Values v) {
  return writer.reduce(kind.characters, v[0]);
}
template <Text op> Value norm(Writer& writer, const Node& node, Values v) {
  return writer.norm(op.characters, node.numbers[0], v);
}
template <Tensor (*f)(const Tensor&)> Tensor unary(const Node&, Tensors t) {
  return f(t[0]);
}
template <Tensor (*f)(const Tensor&, const Tensor&)> Tensor binary(const Node&, Tensors t) {
  return f(t[0], t[1]);
}
#define EAGER(expression) [](const Node& node, Tensors t) -> Tensor { return expression; }
#define WRITE(expression)                                                                          \
  [](Writer& writer, const Node& node, Values v) -> Value { return expression; }

Tensor scaled(Tensor y, Tensors parameters) {
  if (!parameters.empty())
    y = y * parameters[0];
  return parameters.size() > 1 ? y + parameters[1] : y;
}

Tensor sumDown(const Tensor& x) {
  at::DimVector leading(static_cast<std::size_t>(std::max<std::int64_t>(x.dim() - 1, 1)));
  std::iota(leading.begin(), leading.end(), 0);
  return x.dim() > 1 ? x.sum(leading, true) : x;
}

at::ScalarType scalarTypeOf(const Node& node) {
  return static_cast<at::ScalarType>(static_cast<int>(node.numbers[0]));
}
DType dtypeOf(const Node& node) {
  const auto type = scalarTypeOf(node);
  return type == at::kFloat ? DType::f32 : type == at::kHalf ? DType::f16 : DType::bf16;
}

Value relu(Writer& writer, const Node&, Values v) {
  const Value zero = writer.number(0);
  return writer.select(writer.compare("ole", v[0], zero), zero, v[0]);
}

Value crossEntropyText(Writer& writer, const Node& node, Values v) {
  return writer.crossEntropy(
      v[0], v[1],
      fmt::format("ignore_index = {} : i64, label_smoothing = {:.9e} : f32, z_loss = {:.9e} : f32",
                  static_cast<std::int64_t>(node.numbers[0]), node.numbers[1], node.numbers[2]));
}

bool areHalves(const Node& node) {
  return node.numbers[0] != 0;
}
Value ropeText(Writer& writer, const Node& node, Values v) {
  return writer.rope(v[0], v[1],
                     fmt::format("{} base {:.17e}", areHalves(node) ? "half_split" : "interleaved",
                                 node.numbers[1]));
}

Tensor ropeEagerly(const Node& node, Tensors t) {
  const Tensor& x = t[0];
  const std::int64_t width = x.size(-1);
  if (width % 2 != 0)
    throw Error(ErrorKind::input,
                fmt::format("rope: rows of {} columns; an even number of them forms pairs", width));
  const Tensor powers = at::arange(0, width, 2, t[1].options().dtype(at::kDouble)) / width;
  const Tensor angles = t[1] * at::pow(node.numbers[1], -powers);
  const Tensor c = angles.cos().to(x.scalar_type()), s = angles.sin().to(x.scalar_type());
  const std::int64_t pairs = areHalves(node) ? -2 : -1; // the dimension of two
  const Tensor both =
      x.unflatten(-1, pairs == -1 ? at::IntArrayRef{width / 2, 2} : at::IntArrayRef{2, width / 2});
  const Tensor a = both.select(pairs, 0), b = both.select(pairs, 1);
  return at::stack({a * c - b * s, b * c + a * s}, pairs).flatten(-2);
}

Tensor crossEntropyEagerly(const Node& node, Tensors t) {
  const Tensor& x = t[0];
  const double smoothing = node.numbers[1];
  const Tensor ignored = t[1] == static_cast<std::int64_t>(node.numbers[0]);
  const Tensor isClass = (t[1] >= 0) & (t[1] < x.size(-1));
  const Tensor lse = at::logsumexp(x, -1, true);
  const Tensor own = at::gather(x, -1, t[1].clamp(0, x.size(-1) - 1).to(at::kLong));
  Tensor loss = lse - (1 - smoothing) * own - smoothing * x.mean(-1, true);
  loss = loss + node.numbers[2] * lse * lse;
  const Tensor zero = at::zeros_like(loss);
  return at::where(ignored, zero, at::where(isClass, loss, zero + std::nan("")));
}

// clang-format off
const Op number{"number", WRITE(writer.number(node.numbers[0])), EAGER(at::scalar_tensor(node.numbers[0], at::kDouble))};
const Op cast{"to", WRITE(writer.cast(v[0], dtypeOf(node))),
              EAGER(t[0].scalar_type() == at::kDouble ? t[0] : t[0].to(scalarTypeOf(node)).to(at::kFloat))};
const Op round{"rounded", WRITE(writer.cast(v[0], writer.common)), EAGER(t[0])};
const Op add{"add", elementwise<"arith.addf">, EAGER(t[0] + t[1])};
const Op subtract{"sub", elementwise<"arith.subf">, EAGER(t[0] - t[1])};
const Op multiply{"mul", elementwise<"arith.mulf">, EAGER(t[0] * t[1])};
const Op divide{"div", elementwise<"arith.divf">, EAGER(t[0] / t[1])};
const Op negate{"neg", elementwise<"arith.negf">, EAGER(-t[0])};
const Op less{"lt", compare<"olt">, EAGER(t[0] < t[1]), Op::Kind::comparison};
const Op lessEqual{"le", compare<"ole">, EAGER(t[0] <= t[1]), Op::Kind::comparison};
const Op greater{"gt", compare<"ogt">, EAGER(t[0] > t[1]), Op::Kind::comparison};
const Op greaterEqual{"ge", compare<"oge">, EAGER(t[0] >= t[1]), Op::Kind::comparison};
const Op equal{"eq", compare<"oeq">, EAGER(t[0] == t[1]), Op::Kind::comparison};
const Op notEqual{"ne", compare<"une">, EAGER(t[0] != t[1]), Op::Kind::comparison};
const Op choose{"where", WRITE(writer.select(v[0], v[1], v[2])), EAGER(at::where(t[0], t[1], t[2]))};
const Op expOp{"exp", elementwise<"math.exp">, unary<at::exp>};
const Op logOp{"log", elementwise<"math.log">, unary<at::log>};
const Op tanhOp{"tanh", elementwise<"math.tanh">, unary<at::tanh>};
const Op erfOp{"erf", elementwise<"math.erf">, unary<at::erf>};
const Op sqrtOp{"sqrt", elementwise<"math.sqrt">, unary<at::sqrt>};
const Op rsqrtOp{"rsqrt", elementwise<"math.rsqrt">, unary<at::rsqrt>};
const Op absOp{"abs", elementwise<"math.absf">, unary<at::abs>};
const Op squareOp{"square", WRITE(writer.elementwise("arith.mulf", std::array{v[0], v[0]})), EAGER(t[0] * t[0])};
const Op sigmoidOp{"sigmoid", named<"kiln.sigmoid">, unary<at::sigmoid>};
const Op siluOp{"silu", named<"kiln.silu">, unary<at::silu>};
const Op reluOp{"relu", relu, unary<at::relu>};
const Op geluOp{"gelu", named<"kiln.gelu">, EAGER(at::gelu(t[0]))};
const Op geluTanh{"gelu_tanh", WRITE(writer.named("kiln.gelu", v, " approximate tanh")), EAGER(at::gelu(t[0], "tanh"))};
const Op maximum{"maximum", elementwise<"arith.maximumf">, binary<at::maximum>};
const Op minimum{"minimum", elementwise<"arith.minimumf">, binary<at::minimum>};
const Op sumOp{"sum", reduce<"sum">, EAGER(t[0].sum(-1, true)), Op::Kind::alongRows};
const Op meanOp{"mean", reduce<"mean">, EAGER(t[0].mean(-1, true)), Op::Kind::alongRows};
const Op columnSumsOp{"column_sums", WRITE(writer.columnSums(v[0])), EAGER(sumDown(t[0])), Op::Kind::alongRows};
const Op maxOp{"max", reduce<"max">, EAGER(t[0].amax(-1, true)), Op::Kind::alongRows};
const Op minOp{"min", reduce<"min">, EAGER(t[0].amin(-1, true)), Op::Kind::alongRows};
const Op softmaxOp{"softmax", alongRows<"kiln.softmax">, EAGER(at::softmax(t[0], -1)), Op::Kind::alongRows};
const Op logSoftmaxOp{"log_softmax", alongRows<"kiln.log_softmax">, EAGER(at::log_softmax(t[0], -1)), Op::Kind::alongRows};
const Op layerNormOp{"layer_norm", norm<"kiln.layer_norm">,
                     EAGER(scaled(at::layer_norm(t[0], {t[0].size(-1)}, {}, {}, node.numbers[0]), t.subspan(1))), Op::Kind::alongRows};
const Op rmsNormOp{"rms_norm", norm<"kiln.rms_norm">,
                   EAGER(scaled(at::rms_norm(t[0], {t[0].size(-1)}, {}, node.numbers[0]), t.subspan(1))), Op::Kind::alongRows};
const Op dropoutOp{"dropout", WRITE(writer.dropout(v[0], node.numbers[0])), EAGER(at::dropout(t[0], node.numbers[0], true))};
const Op ropeOp{"rope", ropeText, ropeEagerly, Op::Kind::alongRows};
const Op crossEntropyOp{"cross_entropy", crossEntropyText, crossEntropyEagerly, Op::Kind::alongRows};
// clang-format on
#undef EAGER
#undef WRITE

void checkEps(const char* op, double eps) {
  if (!(eps >= 0))
    throw Error(ErrorKind::input, fmt::format("{}: eps = {}; it must not be negative", op, eps));
}

} // namespace

namespace fusion {

bool isDropout(const Node& node) {
  return node.op == &dropoutOp;
}
bool isCast(const Node& node) {
  return node.op == &cast;
}
bool isColumnSums(const Node& node) {
  return node.op == &columnSumsOp;
}
bool isComparison(const Node& node) {
  return node.op && node.op->kind == Op::Kind::comparison;
}
bool isOfNeighbours(const Node& node) {
  return node.op == &ropeOp && !areHalves(node);
}

} // namespace fusion

Expr::Expr(double value) : node_(make(number, {}, {value}).node()) {}

Expr Expr::to(at::ScalarType dtype) const {
  if (dtype != at::kFloat && dtype != at::kBFloat16 && dtype != at::kHalf)
    throw Error(ErrorKind::input, fmt::format("Expr::to({}): Float, BFloat16 and Half are allowed",
                                              c10::toString(dtype)));
  return make(cast, {*this}, {static_cast<double>(static_cast<int>(dtype))});
}

Expr Expr::rounded() const {
  return make(round, {*this});
}

#define BINARY(name, op)                                                                           \
  Expr name(const Expr& a, const Expr& b) {                                                        \
    return make(op, {a, b});                                                                       \
  }
#define UNARY(name, op)                                                                            \
  Expr name(const Expr& x) {                                                                       \
    return make(op, {x});                                                                          \
  }
BINARY(operator+, add)
BINARY(operator-, subtract)
BINARY(operator*, multiply)
BINARY(operator/, divide)
BINARY(operator<, less)
BINARY(operator<=, lessEqual)
BINARY(operator>, greater)
BINARY(operator>=, greaterEqual)
BINARY(operator==, equal)
BINARY(operator!=, notEqual)
BINARY(max, maximum)
BINARY(min, minimum)
UNARY(operator-, negate)
UNARY(exp, expOp)
UNARY(log, logOp)
UNARY(tanh, tanhOp)
UNARY(erf, erfOp)
UNARY(sqrt, sqrtOp)
UNARY(rsqrt, rsqrtOp)
UNARY(abs, absOp)
UNARY(square, squareOp)
UNARY(sigmoid, sigmoidOp)
UNARY(silu, siluOp)
UNARY(relu, reluOp)
UNARY(sum, sumOp)
UNARY(mean, meanOp)
UNARY(columnSums, columnSumsOp)
UNARY(max, maxOp)
UNARY(min, minOp)
UNARY(softmax, softmaxOp)
UNARY(logSoftmax, logSoftmaxOp)
#undef BINARY
#undef UNARY

Expr where(const Expr& condition, const Expr& a, const Expr& b) {
  return make(choose, {condition, a, b});
}
Expr gelu(const Expr& x, Gelu formula) {
  return make(formula == Gelu::tanh ? geluTanh : geluOp, {x});
}
Expr layerNorm(const Expr& x, double eps) {
  checkEps("layerNorm", eps);
  return make(layerNormOp, {x}, {eps});
}
Expr layerNorm(const Expr& x, const Expr& gamma, double eps) {
  checkEps("layerNorm", eps);
  return make(layerNormOp, {x, gamma}, {eps});
}
Expr layerNorm(const Expr& x, const Expr& gamma, const Expr& beta, double eps) {
  checkEps("layerNorm", eps);
  return make(layerNormOp, {x, gamma, beta}, {eps});
}
Expr rmsNorm(const Expr& x, double eps) {
  checkEps("rmsNorm", eps);
  return make(rmsNormOp, {x}, {eps});
}
Expr rmsNorm(const Expr& x, const Expr& gamma, double eps) {
  checkEps("rmsNorm", eps);
  return make(rmsNormOp, {x, gamma}, {eps});
}

Expr dropout(const Expr& x, double p) {
  if (!(p >= 0 && p <= 1))
    throw Error(ErrorKind::input,
                fmt::format("dropout: p = {} is no probability; give a number from 0 to 1", p));
  return make(dropoutOp, {x}, {p});
}

Expr rope(const Expr& x, const Expr& positions, Pairs pairs, double base) {
  if (!(base >= 1 && base <= 1e30))
    throw Error(ErrorKind::input, fmt::format("rope: base {}; give a number from 1 to 1e30", base));
  return make(ropeOp, {x, positions}, {static_cast<double>(pairs == Pairs::halves), base});
}

Expr crossEntropy(const Expr& logits, const Expr& classes, const CrossEntropyForm& form) {
  if (!(form.labelSmoothing >= 0 && form.labelSmoothing <= 1) || !(form.zLoss >= 0))
    throw Error(ErrorKind::input,
                fmt::format("crossEntropy: label smoothing {} must be from 0 to 1, z loss {} not "
                            "negative",
                            form.labelSmoothing, form.zLoss));
  return make(crossEntropyOp, {logits, classes},
              {static_cast<double>(form.ignoreIndex), form.labelSmoothing, form.zLoss});
}

} // namespace kiln
