// kiln::Module: parsing, and building the function of one op.
#include "codegen/program/State.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

using namespace mlir;

namespace kiln {

std::string_view version() {
  return KILN_VERSION;
}

Module Module::parse(std::string_view text, std::string_view name) {
  program::Session session;
  auto module = session.parse(text, name);
  auto state = std::make_shared<State>();
  state->text = text;
  state->name = name;
  for (auto function : module->getOps<func::FuncOp>())
    state->functions.push_back(function.getName().str());
  Module result;
  result.state_ = state;
  return result;
}

const std::string& Module::text() const {
  return state_->text;
}
const std::vector<std::string>& Module::functions() const {
  return state_->functions;
}

/// `f32` as MLIR writes it.
static std::string tensor(std::span<const std::int64_t> shape, std::string_view element) {
  std::string text = "tensor<";
  for (std::int64_t size : shape)
    text += (size < 0 ? std::string("?") : std::to_string(size)) + "x";
  return text + std::string(element) + ">";
}

/// The text of a function that applies the op to arguments of its own. Statistics are results
/// without a gradient, as in ATen.
static std::string textOf(const OpSpec& spec) {
  std::span<const std::int64_t> shape = spec.shape;
  std::string x = tensor(shape, name(spec.dtype));
  std::string row = tensor(shape.last(1), "f32");
  std::string statistic = tensor(shape.first(shape.size() - 1), "f32");
  const char* mark = " {kiln.gradient = false}";
  if (spec.op == "layer_norm")
    return fmt::format("func.func @layer_norm(%x: {0}, %gamma: {1}, %beta: {1})\n"
                       "    -> ({0}, {2}{3}, {2}{3}) {{\n"
                       "  %y, %mean, %rstd = kiln.layer_norm %x, %gamma, %beta\n"
                       "      : ({0}, {1}, {1}) -> ({0}, {2}, {2})\n"
                       "  return %y, %mean, %rstd : {0}, {2}, {2}\n}}\n",
                       x, row, statistic, mark);
  if (spec.op == "rms_norm")
    return fmt::format("func.func @rms_norm(%x: {0}, %gamma: {1}) -> ({0}, {2}{3}) {{\n"
                       "  %y, %rstd = kiln.rms_norm %x, %gamma : ({0}, {1}) -> ({0}, {2})\n"
                       "  return %y, %rstd : {0}, {2}\n}}\n",
                       x, row, statistic, mark);
  if (spec.op == "softmax")
    return fmt::format("func.func @softmax(%x: {0}) -> {0} {{\n"
                       "  %y = kiln.softmax %x : {0} -> {0}\n  return %y : {0}\n}}\n",
                       x);
  throw Error(ErrorKind::input,
              fmt::format("no op '{}' to build from a shape; known are layer_norm, rms_norm and "
                          "softmax; write anything else as .mlir",
                          spec.op));
}

Module Module::fromOp(const OpSpec& spec) {
  if (spec.shape.empty())
    throw Error(ErrorKind::input,
                fmt::format("op '{}' has no shape; give leading sizes and the row width, "
                            "65536x128 or ?x128",
                            spec.op));
  if (spec.shape.back() < 1)
    throw Error(ErrorKind::input, fmt::format("op '{}': the row width is {}; it must be a constant "
                                              "of at least 1",
                                              spec.op, spec.shape.back()));
  if (spec.dtype != DType::f32 && spec.dtype != DType::bf16 && spec.dtype != DType::f16)
    throw Error(ErrorKind::input,
                fmt::format("op '{}' with dtype {}: f32, bf16 and f16 are allowed", spec.op,
                            name(spec.dtype)));
  return parse(textOf(spec), spec.op);
}

} // namespace kiln
