// kiln::Module: parsing, and building the function of one op.
#include "codegen/backend/Fail.h"
#include "codegen/program/State.h"
#include "dialect/DidYouMean.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <ranges>
#include <set>

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

/// The functions that ops have of themselves, by name; only ops with one are in the map.
static const std::map<std::string, const ir::OpFunction*>& functionsOfOps() {
  static const std::map<std::string, const ir::OpFunction*> all = [] {
    program::Session session;
    std::map<std::string, const ir::OpFunction*> functions;
    for (RegisteredOperationName op : session.context().getRegisteredOperations())
      if (auto* interface = op.getInterface<ir::KilnOpInterface>())
        if (const ir::OpFunction* function = interface->asFunction())
          functions.emplace(op.stripDialect(), function);
    return functions;
  }();
  return all;
}

std::vector<std::string> Module::ops() {
  auto names = std::views::keys(functionsOfOps());
  return {names.begin(), names.end()};
}

std::vector<OpSetting> Module::settings() {
  std::vector<OpSetting> all;
  for (const auto& [op, function] : functionsOfOps())
    for (const ir::OpFunction::Setting& setting : function->settings())
      all.push_back({op, setting.name.str(), setting.allowed.str()});
  return all;
}

static const ir::OpFunction& functionOf(const OpSpec& spec) {
  const auto& functions = functionsOfOps();
  auto found = functions.find(spec.op);
  if (found == functions.end())
    throw Error(ErrorKind::input,
                fmt::format("no op '{}' to build from a shape; known are {}; write anything else "
                            "as .mlir{}",
                            spec.op, fmt::join(std::views::keys(functions), ", "),
                            didYouMean(spec.op, std::views::keys(functions))));
  return *found->second;
}

/// Each setting is one that the op has, and is given once.
static void checkSettings(const OpSpec& spec, const ir::OpFunction& function) {
  std::vector<std::string> known;
  for (const ir::OpFunction::Setting& setting : function.settings())
    known.push_back(setting.name.str());
  std::set<std::string> given;
  for (const auto& [name, value] : spec.settings) {
    if (known.empty())
      fail(ErrorKind::input, "op '{}' has no settings, so that '{}={}' means nothing; leave it out",
           spec.op, printable(name), printable(value));
    if (std::ranges::find(known, name) == known.end())
      fail(ErrorKind::input, "op '{}' has no setting '{}'; it has {}{}", spec.op, printable(name),
           fmt::join(known, ", "), didYouMean(name, known));
    if (!given.insert(name).second)
      fail(ErrorKind::input, "op '{}' is given '{}' twice; give it once", spec.op, name);
  }
}

static ir::OpRequest requestOf(const OpSpec& spec, const ir::OpFunction& function) {
  if (spec.dtype != DType::f32 && spec.dtype != DType::bf16 && spec.dtype != DType::f16)
    fail(ErrorKind::input, "op '{}' with dtype {}: f32, bf16 and f16 are allowed", spec.op,
         name(spec.dtype));
  checkSettings(spec, function);
  return {spec.op, spec.shape, std::string(name(spec.dtype)), spec.settings};
}

Module Module::fromOp(const OpSpec& spec) {
  const ir::OpFunction& function = functionOf(spec);
  llvm::Expected<std::string> text = function.text(requestOf(spec, function));
  if (!text)
    throw Error(ErrorKind::input, llvm::toString(text.takeError()));
  return parse(*text, spec.op);
}

OpenedOp Module::opened(const OpSpec& spec) {
  const ir::OpFunction& function = functionOf(spec);
  ir::OpRequest request = requestOf(spec, function);
  OpenedOp opened{spec, function.open(request)};
  opened.spec.shape = request.shape;
  opened.spec.settings = request.settings;
  return opened;
}

} // namespace kiln
