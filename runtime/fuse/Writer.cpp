// See Writer.h.
#include "runtime/fuse/Writer.h"

#include "runtime/Call.h"

#include <bit>
#include <cmath>
#include <fmt/format.h>

namespace kiln::fusion {

static void addTo(std::string& list, std::string_view item) {
  if (!list.empty())
    list += ", ";
  list += item;
}

Writer::Writer(const Graph& graph, const Kind& kind, const std::string& name, at::ScalarType common,
               std::span<const at::ScalarType> dtypes)
    : common(*runtime::dtypeOf(common)), kind(kind), function(name) {
  std::string arguments;
  std::vector<Value> values;
  for (const Graph::Step& step : graph.steps) {
    if (!step.node->op) {
      const OperandKind& one = kind.operands[step.node->index];
      Value& value =
          values.emplace_back(Value{fmt::format("%in{}", step.node->index), one.mask, one.dtype});
      addTo(arguments, fmt::format("{}: {} {{kiln.gradient = {}{}}}", value.name, type(value),
                                   one.wantsGradient, layout(one.isApart)));
      remember(value);
      continue;
    }
    std::vector<Value> operands;
    for (unsigned i : step.operands)
      operands.push_back(values[i]);
    values.push_back(step.node->op->write(*this, *step.node, operands));
  }
  if (dropouts > 0)
    arguments += ", %seed: tensor<i64>";
  for (unsigned i = 0; i < dropouts; ++i)
    arguments += fmt::format(", %offset{}: tensor<i64>", i);

  std::string types, attributed, names;
  for (std::size_t i = 0; i < graph.results.size(); ++i) {
    const Value& value = values[graph.results[i]];
    const Value result = dtypes[i] == at::kBool ? value : cast(value, *runtime::dtypeOf(dtypes[i]));
    addTo(names, result.name);
    addTo(types, type(result));
    addTo(attributed, fmt::format("{} {{kiln.name = \"out{}\"{}}}", type(result), i,
                                  layout((kind.resultsApart >> i & 1) != 0)));
    resultMasks.push_back(result.mask);
  }
  text = fmt::format("func.func @{}({}) -> ({}) {{\n{}  return {} : {}\n}}\n", name, arguments,
                     attributed, body, names, types);
}

void Writer::refuse(const std::string& why) const {
  throw Error(ErrorKind::input, fmt::format("{}: {}", function, why));
}

std::string Writer::type(Mask mask, DType dtype) const {
  std::string sizes = "tensor<";
  for (unsigned i = 0; i < kind.groups; ++i)
    if ((mask >> i & 1) != 0)
      sizes +=
          i + 1 == kind.groups && kind.innerRows > 0 ? fmt::format("{}x", kind.innerRows) : "?x";
  if ((mask & columns()) != 0)
    sizes += fmt::format("{}x", kind.width);
  return fmt::format("{}{}>", sizes, kiln::name(dtype));
}

std::string Writer::layout(bool isApart) const {
  if (!isApart)
    return "";
  const std::string rows = kind.groups == 2 ? fmt::format("{}, ", kind.width) : "";
  return fmt::format(", kiln.layout = #kiln.layout<strides = [{}, {}1]>", kind.apart, rows);
}

void Writer::remember(const Value& value) {
  known.try_emplace(value.mask, value);
}

Value Writer::line(Mask mask, DType dtype, const std::string& right) {
  Value value{fmt::format("%{}", next++), mask, dtype};
  body += fmt::format("  {} = {}\n", value.name, right);
  remember(value);
  return value;
}

Value Writer::number(double value) {
  const auto single = static_cast<float>(value);
  const std::string text = std::isfinite(single)
                               ? fmt::format("{:.9e}", value)
                               : fmt::format("0x{:08X}", std::bit_cast<std::uint32_t>(single));
  return line(0, DType::f32, fmt::format("arith.constant dense<{}> : tensor<f32>", text));
}

Value Writer::cast(const Value& value, DType dtype) {
  if (value.dtype == dtype)
    return value;
  const auto write = [&](const char* op) {
    return line(
        value.mask, dtype,
        fmt::format("{} {} : {} to {}", op, value.name, type(value), type(value.mask, dtype)));
  };
  if (value.dtype == DType::i1)
    return cast(dtype == DType::f32 ? write("arith.uitofp") : f32(value), dtype);
  if (value.dtype == DType::i32 || value.dtype == DType::i64)
    return cast(dtype == DType::f32 ? write("arith.sitofp") : f32(value), dtype);
  if (dtype == DType::f32)
    return write("arith.extf");
  return value.dtype == DType::f32 ? write("arith.truncf") : cast(f32(value), dtype);
}

Value Writer::f32(const Value& value) {
  return cast(value, DType::f32);
}

const Value& Writer::like(Mask mask) const {
  const auto found = known.find(mask);
  if (found == known.end())
    refuse("operands are broadcast to a shape that none of them has; expand one of them to it");
  return found->second;
}

/// Where the dimensions of one value are among those of another, which has them all.
static std::string placesOf(Mask mask, Mask all) {
  std::string places;
  for (unsigned at = 0; all != 0; all >>= 1, mask >>= 1) {
    if ((mask & 1) != 0)
      addTo(places, std::to_string(at));
    at += all & 1;
  }
  return places;
}

Value Writer::spread(const Value& value, Mask mask) {
  if (value.mask == mask)
    return value;
  std::string text =
      fmt::format("kiln.broadcast {} dims [{}]", value.name, placesOf(value.mask, mask));
  std::string types = type(value);
  if ((mask & ~columns()) != 0) {
    const Value& other = like(mask);
    text += fmt::format(" like {}", other.name);
    addTo(types, type(other));
  }
  return line(mask, value.dtype,
              fmt::format("{} : {} -> {}", text, types, type(mask, value.dtype)));
}

static Mask unionOf(std::span<const Value> values) {
  Mask mask = 0;
  for (const Value& value : values)
    mask |= value.mask;
  return mask;
}

Value Writer::elementwise(const char* op, std::span<const Value> operands) {
  const Mask mask = unionOf(operands);
  std::string names;
  for (const Value& operand : operands)
    addTo(names, spread(f32(operand), mask).name);
  return line(mask, DType::f32, fmt::format("{} {} : {}", op, names, type(mask, DType::f32)));
}

Value Writer::compare(const char* predicate, const Value& a, const Value& b) {
  const Mask mask = a.mask | b.mask;
  const Value left = spread(f32(a), mask), right = spread(f32(b), mask);
  return line(
      mask, DType::i1,
      fmt::format("arith.cmpf {}, {}, {} : {}", predicate, left.name, right.name, type(left)));
}

Value Writer::select(const Value& condition, const Value& a, const Value& b) {
  if (condition.dtype != DType::i1)
    refuse(
        fmt::format("where() takes a comparison or an operand of dtype Bool as its condition; it "
                    "is given {}",
                    kiln::name(condition.dtype)));
  const Mask mask = condition.mask | a.mask | b.mask;
  const Value when = spread(condition, mask), left = spread(f32(a), mask),
              right = spread(f32(b), mask);
  return line(mask, DType::f32,
              fmt::format("arith.select {}, {}, {} : {}, {}", when.name, left.name, right.name,
                          type(when), type(left)));
}

Value Writer::named(const std::string& op, std::span<const Value> operands,
                    const std::string& attributes) {
  const Value x = f32(operands[0]);
  return line(x.mask, DType::f32,
              fmt::format("{} {}{} : {} -> {}", op, x.name, attributes, type(x), type(x)));
}

void Writer::needColumns(const char* op, const Value& value) const {
  if ((value.mask & columns()) == 0)
    refuse(fmt::format("{} of rows with one element, in a function of rows of {}: expand it first",
                       op, kind.width));
}

Value Writer::reduce(const char* kind, const Value& value) {
  const Value x = f32(value);
  if ((x.mask & columns()) == 0)
    return x; // one element a row
  const Mask mask = x.mask & ~columns();
  return line(mask, DType::f32,
              fmt::format("kiln.reduce {} {} dims [{}] : {} -> {}", kind, x.name,
                          std::popcount(x.mask) - 1, type(x), type(mask, DType::f32)));
}

Value Writer::columnSums(const Value& value) {
  const Value x = f32(value);
  needColumns("columnSums", x);
  if (x.mask != kind.full())
    refuse("columnSums of what several rows share; expand it to all rows first");
  std::string leading;
  for (unsigned i = 0; i < kind.groups; ++i)
    addTo(leading, std::to_string(i));
  return line(columns(), DType::f32,
              fmt::format("kiln.reduce sum {} dims [{}] : {} -> {}", x.name, leading, type(x),
                          type(columns(), DType::f32)));
}

Value Writer::norm(const char* op, double eps, std::span<const Value> operands) {
  const Value x = f32(operands[0]);
  needColumns(op, x);
  // Scales that differ from row to row are applied behind.
  const bool areShared = operands.size() > 1 && unionOf(operands.subspan(1)) == columns() &&
                         operands[1].mask == columns() && operands.back().mask == columns();
  std::string names = x.name, types = type(x);
  if (areShared)
    for (const Value& operand : operands.subspan(1)) {
      const Value parameter = f32(operand);
      addTo(names, parameter.name);
      addTo(types, type(parameter));
    }
  const bool isCentred = std::string_view(op) == "kiln.layer_norm";
  const std::string each = type(x.mask & ~columns(), DType::f32);
  Value all = {fmt::format("%{}", next++), x.mask, DType::f32};
  body += fmt::format("  {}:{} = {} {} {{eps = {:.9e} : f32}} : ({}) -> ({}, {}{})\n", all.name,
                      isCentred ? 3 : 2, op, names, eps, types, type(x), each,
                      isCentred ? ", " + each : "");
  Value y = {all.name + "#0", x.mask, DType::f32};
  if (areShared || operands.size() == 1)
    return y;
  y = elementwise("arith.mulf", std::array{y, operands[1]});
  return operands.size() == 2 ? y : elementwise("arith.addf", std::array{y, operands[2]});
}

Value Writer::dropout(const Value& value, double p) {
  const Value x = f32(value);
  return line(x.mask, DType::f32,
              fmt::format("kiln.dropout {}, %seed, %offset{} p {:.9e} : {} -> {}", x.name,
                          dropouts++, p, type(x), type(x)));
}

Value Writer::rope(const Value& value, const Value& positions, const std::string& attributes) {
  const bool isIndex = positions.dtype == DType::i64 || positions.dtype == DType::i32;
  if ((value.mask & columns()) == 0 || (positions.mask & ~(value.mask & ~columns())) != 0 ||
      !isIndex || kind.width % 2 != 0)
    refuse(fmt::format("rope takes rows of an even number of columns, and positions [..., 1] of "
                       "dtype Long or Int that are broadcast along them; it is given {} and {}",
                       type(value), type(positions)));
  return line(value.mask, common,
              fmt::format("kiln.rope {}, {} dims [{}] {} : {}, {} -> {}", value.name,
                          positions.name, placesOf(positions.mask, value.mask), attributes,
                          type(value), type(positions), type(value.mask, common)));
}

Value Writer::crossEntropy(const Value& logits, const Value& classes,
                           const std::string& attributes) {
  const Value x = f32(logits);
  const Mask each = x.mask & ~columns();
  if ((x.mask & columns()) == 0 || classes.mask != each ||
      (classes.dtype != DType::i64 && classes.dtype != DType::i32))
    refuse(
        fmt::format("crossEntropy takes logits [..., {}] of at least 2 classes and their indices "
                    "[..., 1] of dtype Long or Int; the indices are {} {}",
                    kind.width, type(classes), kiln::name(classes.dtype)));
  const std::string loss = fmt::format("%{}", next++);
  body += fmt::format("  {}:2 = kiln.cross_entropy {}, {} {{{}}} : ({}, {}) -> ({}, {})\n", loss,
                      x.name, classes.name, attributes, type(x), type(classes),
                      type(each, DType::f32), type(each, DType::f32));
  return {loss + "#0", each, DType::f32};
}

} // namespace kiln::fusion
