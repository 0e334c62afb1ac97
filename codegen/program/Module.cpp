// kiln::Module: parsing, and building the function of one op.
#include "codegen/backend/Fail.h"
#include "codegen/program/State.h"
#include "dialect/DidYouMean.h"
#include "kiln/workload.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <ranges>

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

const Module::State& Module::state() const {
  return held(state_, "Module", "Module::parse");
}
const std::string& Module::text() const {
  return state().text;
}
const std::vector<std::string>& Module::functions() const {
  return state().functions;
}

/// `f32` as MLIR writes it.
static std::string tensor(std::span<const std::int64_t> shape, std::string_view element) {
  std::string text = "tensor<";
  for (std::int64_t size : shape)
    text += (size < 0 ? std::string("?") : std::to_string(size)) + "x";
  return text + std::string(element) + ">";
}

/// The function that an op has of itself, by name; only ops with one are in the map.
static const std::map<std::string, std::string>& functionsOfOps() {
  static const std::map<std::string, std::string> all = [] {
    program::Session session;
    std::map<std::string, std::string> functions;
    for (RegisteredOperationName op : session.context().getRegisteredOperations())
      if (auto* interface = op.getInterface<ir::KilnOpInterface>())
        if (StringRef text = interface->asFunction(); !text.empty())
          functions.emplace(op.stripDialect(), text.ltrim());
    return functions;
  }();
  return all;
}

std::vector<std::string> Module::ops() {
  auto names = std::views::keys(functionsOfOps());
  return {names.begin(), names.end()};
}

/// The text of a function that applies the op to arguments of its own. Statistics are results
/// without a gradient, as in ATen.
static std::string textOf(const OpSpec& spec) {
  const std::map<std::string, std::string>& functions = functionsOfOps();
  auto found = functions.find(spec.op);
  if (found == functions.end())
    throw Error(ErrorKind::input,
                fmt::format("no op '{}' to build from a shape; known are {}; write anything else "
                            "as .mlir{}",
                            spec.op, fmt::join(std::views::keys(functions), ", "),
                            didYouMean(spec.op, std::views::keys(functions))));
  std::span<const std::int64_t> shape = spec.shape, leading = shape.first(shape.size() - 1);
  const std::pair<std::string_view, std::string> types[] = {{"$x", tensor(shape, name(spec.dtype))},
                                                            {"$row", tensor(shape.last(1), "f32")},
                                                            {"$each", tensor(leading, "f32")},
                                                            {"$index", tensor(leading, "i64")}};
  std::string text = found->second;
  if (leading.empty() && text.find("$index") != std::string::npos)
    throw Error(ErrorKind::input,
                fmt::format("op '{}' has 1 size ({}); it has an index a row and needs 2 or more, "
                            "leading sizes and then the row width, such as 8192x{}",
                            spec.op, shape[0], shape[0]));
  for (const auto& [word, type] : types)
    for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at))
      text.replace(at, word.size(), type);
  return text;
}

Module Module::fromOp(const OpSpec& spec) {
  if (spec.shape.empty())
    throw Error(ErrorKind::input,
                fmt::format("op '{}' has no shape; give leading sizes and the row width, "
                            "65536x128 or ?x128",
                            spec.op));
  if (spec.shape.back() < 1)
    throw Error(ErrorKind::input,
                fmt::format("op '{}' with shape {}: the last size, the row width, must be a "
                            "constant of at least 1",
                            spec.op, shapeText(spec.shape)));
  if (spec.dtype != DType::f32 && spec.dtype != DType::bf16 && spec.dtype != DType::f16)
    throw Error(ErrorKind::input,
                fmt::format("op '{}' with dtype {}: f32, bf16 and f16 are allowed", spec.op,
                            name(spec.dtype)));
  return parse(textOf(spec), spec.op);
}

} // namespace kiln
