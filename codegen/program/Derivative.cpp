// kiln::differentiate: the pass's two functions, with every gradient returned once.
#include "kiln/derivative.h"

#include "codegen/program/State.h"

using namespace mlir;

namespace kiln {

namespace {

using From = Derivative::Source::From;

bool hasGradient(func::FuncOp function, unsigned argument) {
  auto flag = function.getArgAttrOfType<BoolAttr>(argument, ir::kGradientAttr);
  return isa<FloatType>(ir::tensorType(function.getArgument(argument)).getElementType()) &&
         (!flag || flag.getValue());
}

/// Which result of the function a given gradient is of: by its name, "d" before the result's.
unsigned resultOf(func::FuncOp function, func::FuncOp backward, unsigned argument) {
  const StringRef given =
      backward.getArgAttrOfType<StringAttr>(argument, ir::kNameAttr).getValue().drop_front();
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    auto name = function.getResultAttrOfType<StringAttr>(i, ir::kNameAttr);
    if (given == (name ? name.getValue().str() : "out" + std::to_string(i)))
      return i;
  }
  llvm_unreachable("the pass names gradients after results");
}

/// Drops results of the backward that are given gradients or that it returns twice, and says where
/// the gradient of each of the function's arguments is to be found.
std::vector<Derivative::Source> unite(func::FuncOp function, func::FuncOp backward) {
  Operation* end = backward.getBody().front().getTerminator();
  std::vector<Derivative::Source> sources;
  SmallVector<Value> kept;
  llvm::BitVector dropped(backward.getNumResults());
  unsigned next = 0; // result of the backward
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    Derivative::Source& source = sources.emplace_back();
    if (!hasGradient(function, i))
      continue;
    Value value = end->getOperand(next);
    if (auto given = dyn_cast<BlockArgument>(value)) {
      dropped.set(next);
      source = {From::given, resultOf(function, backward, given.getArgNumber())};
    } else {
      auto* found = llvm::find(kept, value);
      source = {From::backward, static_cast<unsigned>(found - kept.begin())};
      if (found != kept.end())
        dropped.set(next);
      else
        kept.push_back(value);
    }
    ++next;
  }
  end->setOperands(kept);
  backward.eraseResults(dropped);
  return sources;
}

} // namespace

static func::FuncOp find(program::Session& session, ModuleOp parsed, const std::string& name) {
  auto function = passes::findFunction(parsed, name);
  if (failed(function))
    session.fail("finding the function");
  return *function;
}

Derivative differentiate(const Module& module, const std::string& name, bool readAhead) {
  program::Session session;
  auto parsed = session.parse(module.text(), module.state().name);
  auto function = find(session, *parsed, name);
  Derivative result;
  result.forward = function.getName().str();
  result.backward = result.forward + "_backward";
  passes::DifferentiateOptions options;
  options.function = result.forward;
  options.older = readAhead;
  std::vector<std::unique_ptr<Pass>> list;
  list.push_back(passes::createCanonicalize());
  list.push_back(passes::createDifferentiate(options));
  list.push_back(passes::createCanonicalize()); // equal gradients become one value
  session.run(*parsed, std::move(list));
  auto backward = parsed->lookupSymbol<func::FuncOp>(result.backward);
  result.gradients = unite(function, backward);
  if (auto saving = parsed->lookupSymbol<func::FuncOp>(result.forward + "_forward")) {
    function.erase();
    result.forward = saving.getName().str();
  }
  if (backward.getNumResults() == 0) {
    backward.erase();
    result.backward.clear();
  }
  result.module = Module::parse(program::print(*parsed), module.state().name);
  return result;
}

Module withGradient(const Module& module, const std::string& name) {
  program::Session session;
  auto parsed = session.parse(module.text(), module.state().name);
  auto function = find(session, *parsed, name);
  passes::DifferentiateOptions options;
  options.function = function.getName().str();
  options.together = true;
  std::vector<std::unique_ptr<Pass>> list;
  list.push_back(passes::createCanonicalize());
  list.push_back(passes::createDifferentiate(options));
  session.run(*parsed, std::move(list));
  function.erase();
  return Module::parse(program::print(*parsed), module.state().name);
}

} // namespace kiln
