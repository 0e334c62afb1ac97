// See Rules.h. Arguments are those of the operations' schemas, by position.
#include "runtime/compile/Rules.h"

#include <fmt/format.h>
#include <unordered_map>

namespace kiln::compiled {

bool Call::isMissing(std::size_t i) const {
  const Item& item = op.arguments[i];
  return item.is == Item::Is::tensor ? item.slots[0] == noSlot : item.constant.isNone();
}

double Call::number(std::size_t i) const {
  if (!constant(i).isScalar())
    refuse("an argument is not a number");
  return constant(i).toScalar().toDouble();
}

Expr Call::operator()(std::size_t i) const {
  const Item& item = op.arguments[i];
  if (item.is == Item::Is::tensor && item.slots[0] != noSlot)
    return exprOf(item.slots[0]);
  return Expr(number(i));
}

namespace {

using Rule = Expr (*)(const Call&);

bool isLastDimension(std::int64_t dim, const Value& value) {
  const auto rank = static_cast<std::int64_t>(value.sizes.size());
  return dim == -1 || dim == rank - 1;
}

void needLast(const Call& c, std::size_t argument) {
  const c10::IValue& dims = c.constant(argument);
  std::vector<std::int64_t> list;
  if (dims.isInt())
    list.push_back(dims.toInt());
  else if (dims.isIntList())
    list = dims.toIntVector();
  if (list.size() != 1 || !isLastDimension(list[0], c.value(0)))
    Call::refuse("it does not work along the last dimension");
}

/// An argument of a dtype that asks for another one than the operation gives anyway.
void needDtype(const Call& c, std::size_t argument) {
  if (!c.isMissing(argument) && c.constant(argument).toScalarType() != c.result().dtype)
    Call::refuse("its dtype");
}

Expr scaled(const Call& c, std::size_t operand, std::size_t factor) {
  const double alpha = c.number(factor);
  return alpha == 1 ? c(operand) : c(operand) * alpha;
}

Expr power(const Call& c) {
  const double exponent = c.number(1);
  if (exponent == 2)
    return square(c(0));
  if (exponent == 3)
    return square(c(0)) * c(0);
  if (exponent == 0.5)
    return sqrt(c(0));
  if (exponent == -0.5)
    return rsqrt(c(0));
  if (exponent == -1)
    return 1 / c(0);
  Call::refuse(fmt::format("the exponent {}", exponent));
}

/// As ATen's clamps: NaNs stay, and a bound that is met passes the gradient on.
Expr atLeast(const Expr& x, const Expr& bound) {
  return where(x < bound, bound, x);
}
Expr atMost(const Expr& x, const Expr& bound) {
  return where(x > bound, bound, x);
}
Expr clamped(const Call& c) {
  Expr y = c(0);
  if (!c.isMissing(1))
    y = atLeast(y, c(1));
  return c.isMissing(2) ? y : atMost(y, c(2));
}

/// A cast, or what is only there for one.
Expr converted(const Call& c) {
  const Value &from = c.value(0), &to = c.result();
  if (from.device != to.device)
    Call::refuse("a copy between devices");
  if (to.dtype != from.dtype && to.dtype != at::kFloat && to.dtype != at::kBFloat16 &&
      to.dtype != at::kHalf)
    Call::refuse(fmt::format("a cast to {}", c10::toString(to.dtype)));
  return from.dtype == to.dtype ? c(0) : c(0).to(to.dtype);
}

Expr dropped(const Call& c) {
  if (c.constant(2).toBool() && c.number(1) != 0)
    Call::refuse("it draws random numbers; ATen's are kept");
  return c(0);
}

template <std::size_t shape> void needRow(const Call& c) {
  const auto sizes = c.constant(shape).toIntVector();
  if (sizes.size() != 1)
    Call::refuse("it normalizes over several dimensions");
}

Expr layerNormOf(const Call& c) {
  needRow<1>(c);
  const double eps = c.number(4);
  if (c.isMissing(2) && !c.isMissing(3))
    return layerNorm(c(0), eps) + c(3);
  return c.isMissing(2)   ? layerNorm(c(0), eps)
         : c.isMissing(3) ? layerNorm(c(0), c(2), eps)
                          : layerNorm(c(0), c(2), c(3), eps);
}

double epsilonOf(at::ScalarType type) {
  return type == at::kBFloat16 ? 0.0078125 : type == at::kHalf ? 0.0009765625 : 1.1920929e-07;
}

Expr rmsNormOf(const Call& c) {
  needRow<1>(c);
  const double eps = c.isMissing(3) ? epsilonOf(c.value(0).dtype) : c.number(3);
  return c.isMissing(2) ? rmsNorm(c(0), eps) : rmsNorm(c(0), c(2), eps);
}

Expr quotient(const Call& c) {
  if (c.op.arguments.size() > 2 && !c.isMissing(2))
    Call::refuse("it rounds");
  return c(0) / c(1);
}

template <Expr (*f)(const Expr&)> Expr unary(const Call& c) {
  return f(c(0));
}
template <Expr (*f)(const Expr&, const Expr&)> Expr binary(const Call& c) {
  return f(c(0), c(1));
}
template <Expr (*f)(const Expr&)> Expr softmaxOf(const Call& c) {
  needLast(c, 1);
  needDtype(c, 2);
  return f(c(0));
}
template <Expr (*f)(const Expr&)> Expr reduced(const Call& c) {
  needLast(c, 1);
  if (c.op.arguments.size() > 3)
    needDtype(c, 3);
  return f(c(0));
}
#define RULE(expression) [](const Call& c) -> Expr { return expression; }

const std::unordered_map<std::string, Rule>& elementwise() {
  static const std::unordered_map<std::string, Rule> rules{
      {"aten::add", RULE(c(0) + scaled(c, 1, 2))},
      {"aten::sub", RULE(c(0) - scaled(c, 1, 2))},
      {"aten::rsub", RULE(c(1) - scaled(c, 0, 2))},
      {"aten::mul", RULE(c(0) * c(1))},
      {"aten::div", quotient},
      {"aten::true_divide", RULE(c(0) / c(1))},
      {"aten::addcmul", RULE(c(0) + c(1) * c(2) * c(3))},
      {"aten::addcdiv", RULE(c(0) + c(1) / c(2) * c(3))},
      {"aten::lerp", RULE(c(0) + c(2) * (c(1) - c(0)))},
      {"aten::neg", RULE(-c(0))},
      {"aten::reciprocal", RULE(1 / c(0))},
      {"aten::pow", power},
      {"aten::exp", unary<exp>},
      {"aten::log", unary<log>},
      {"aten::tanh", unary<tanh>},
      {"aten::erf", unary<erf>},
      {"aten::sqrt", unary<sqrt>},
      {"aten::rsqrt", unary<rsqrt>},
      {"aten::abs", unary<abs>},
      {"aten::square", unary<square>},
      {"aten::sigmoid", unary<sigmoid>},
      {"aten::silu", unary<silu>},
      {"aten::relu", unary<relu>},
      {"aten::gelu",
       RULE(gelu(c(0), c.constant(1).toStringRef() == "tanh" ? Gelu::tanh : Gelu::exact))},
      {"aten::leaky_relu", RULE(where(c(0) > 0, c(0), c(0) * c(1)))},
      {"aten::maximum", binary<max>},
      {"aten::minimum", binary<min>},
      {"aten::clamp", clamped},
      {"aten::clamp_min", binary<atLeast>},
      {"aten::clamp_max", binary<atMost>},
      {"aten::eq", RULE(c(0) == c(1))},
      {"aten::ne", RULE(c(0) != c(1))},
      {"aten::lt", RULE(c(0) < c(1))},
      {"aten::le", RULE(c(0) <= c(1))},
      {"aten::gt", RULE(c(0) > c(1))},
      {"aten::ge", RULE(c(0) >= c(1))},
      {"aten::where", RULE(where(c(0), c(1), c(2)))},
      {"aten::masked_fill", RULE(where(c(1), c(2), c(0)))},
      {"aten::to", converted},
      {"aten::_to_copy", converted},
      {"aten::type_as", converted},
      {"aten::clone", converted},
      {"aten::dropout", dropped},
  };
  return rules;
}

const std::unordered_map<std::string, Rule>& alongRows() {
  static const std::unordered_map<std::string, Rule> rules{
      {"aten::layer_norm", layerNormOf},     {"aten::rms_norm", rmsNormOf},
      {"aten::softmax", softmaxOf<softmax>}, {"aten::log_softmax", softmaxOf<logSoftmax>},
      {"aten::sum", reduced<sum>},           {"aten::mean", reduced<mean>},
      {"aten::amax", reduced<max>},          {"aten::amin", reduced<min>},
  };
  return rules;
}
#undef RULE

} // namespace

Expr expressionOf(const Call& call, RuleKind& kind) {
  const std::string base = call.op.base();
  for (const auto* rules : {&elementwise(), &alongRows()})
    if (const auto found = rules->find(base); found != rules->end()) {
      kind = rules == &elementwise() ? RuleKind::elementwise : RuleKind::alongRows;
      return found->second(call);
    }
  Call::refuse("no operation of rows");
}

} // namespace kiln::compiled
