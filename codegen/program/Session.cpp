// MLIR contexts, parsing and pass running, with diagnostics turned into one error text.
#include "codegen/family/Family.h"
#include "codegen/program/Names.h"
#include "codegen/program/State.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/AsmParser/AsmParserState.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/SourceMgr.h"

#include <utility>

using namespace mlir;

namespace kiln::program {

Session::Session() {
  DialectRegistry registry;
  family::registerDialects(registry);
  context_ = std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  context_->loadAllAvailableDialects();
  context_->printOpOnDiagnostic(false); // the place in the text says more than a dump
  context_->getDiagEngine().registerHandler([this](Diagnostic& diagnostic) {
    std::string text;
    llvm::raw_string_ostream out(text);
    auto write = [&](Diagnostic& d, const char* kind) {
      if (auto file = d.getLocation()->findInstanceOf<FileLineColLoc>())
        out << file.getFilename().getValue() << ":" << file.getLine() << ":" << file.getColumn()
            << ": ";
      out << kind << d.str();
    };
    bool isError = diagnostic.getSeverity() == DiagnosticSeverity::Error;
    write(diagnostic, isError ? "error: " : "remark: ");
    for (Diagnostic& note : diagnostic.getNotes()) {
      out << "\n";
      write(note, "note: ");
    }
    text = printable(text, true);
    (isError ? errors_ : remarks_).push_back(text);
    if (isError && kind_ == ErrorKind::input)
      kind_ = passes::kindOf(diagnostic);
    return success();
  });
}
Session::~Session() = default;

void Session::fail(std::string_view what) {
  std::string text;
  for (const std::string& error : errors_)
    text += (text.empty() ? "" : "\n") + error;
  if (text.empty())
    text = std::string(what) + " failed without a message";
  errors_.clear();
  throw Error(std::exchange(kind_, ErrorKind::input), text);
}

/// The names that the text gives to arguments become attributes, since the parser drops them.
static void nameArguments(ModuleOp module, const AsmParserState& state) {
  auto nameOf = [&](Value value) -> StringRef {
    auto argument = cast<BlockArgument>(value);
    const AsmParserState::BlockDefinition* block = state.getBlockDef(argument.getOwner());
    if (!block || argument.getArgNumber() >= block->arguments.size())
      return {};
    SMRange range = block->arguments[argument.getArgNumber()].loc;
    StringRef text(range.Start.getPointer(), range.End.getPointer() - range.Start.getPointer());
    text.consume_front("%");
    return text;
  };
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isExternal())
      continue;
    for (BlockArgument argument : function.getArguments()) {
      StringRef name = nameOf(argument);
      bool named = function.getArgAttr(argument.getArgNumber(), ir::kNameAttr) != nullptr;
      if (!named && !name.empty() && !llvm::isDigit(name.front()))
        function.setArgAttr(argument.getArgNumber(), ir::kNameAttr,
                            StringAttr::get(module.getContext(), name));
    }
  }
}

/// Results are named after what computes them: the operation's own name for its result, or the
/// name that the text gives it.
static void nameResults(ModuleOp module, const AsmParserState& state) {
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isExternal())
      continue;
    Operation* end = function.getBody().back().getTerminator();
    for (auto [i, value] : llvm::enumerate(end->getOperands())) {
      if (i >= function.getNumResults() || function.getResultAttr(i, ir::kNameAttr))
        continue;
      std::string name;
      Operation* op = value.getDefiningOp();
      const auto* definition = op ? state.getOpDef(op) : nullptr;
      if (definition)
        for (auto [g, group] : llvm::enumerate(definition->resultGroups)) {
          unsigned next = g + 1 < definition->resultGroups.size()
                              ? definition->resultGroups[g + 1].startIndex
                              : op->getNumResults();
          unsigned index = cast<OpResult>(value).getResultNumber();
          if (index < group.startIndex || index >= next || next - group.startIndex != 1)
            continue;
          SMRange range = group.definition.loc;
          name.assign(range.Start.getPointer(), range.End.getPointer());
        }
      if (!name.empty() && name.front() == '%')
        name.erase(0, 1);
      if (name.empty() || llvm::isDigit(name.front()))
        continue;
      function.setResultAttr(i, ir::kNameAttr, StringAttr::get(module.getContext(), name));
    }
  }
}

OwningOpRef<ModuleOp> Session::parse(std::string_view text, std::string_view name) {
  checkNesting(text, name);
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(
      llvm::MemoryBuffer::getMemBufferCopy(StringRef(text.data(), text.size()),
                                           StringRef(name.data(), name.size())),
      SMLoc());
  Block block;
  AsmParserState state;
  if (failed(parseAsmSourceFile(sources, &block, ParserConfig(&*context_), &state)))
    fail("parsing");
  ModuleOp module;
  for (Operation& op : block)
    if (auto found = dyn_cast<ModuleOp>(op); found && llvm::hasSingleElement(block))
      module = found;
  if (module) {
    module->remove();
  } else {
    module = ModuleOp::create(
        FileLineColLoc::get(&*context_, StringRef(name.data(), name.size()), 1, 1));
    module.getBody()->getOperations().splice(module.getBody()->end(), block.getOperations());
  }
  OwningOpRef<ModuleOp> owner(module);
  if (failed(mlir::verify(module)))
    fail("verifying");
  nameArguments(module, state);
  nameResults(module, state);
  if (failed(checkNames(module)))
    fail("checking names");
  return owner;
}

void Session::run(ModuleOp module, std::vector<std::unique_ptr<Pass>> passes) {
  PassManager manager(&*context_);
  for (auto& pass : passes)
    manager.addPass(std::move(pass));
  if (failed(manager.run(module)))
    fail("compiling");
}

std::string print(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream out(text);
  module.print(out, OpPrintingFlags());
  out << "\n";
  return text;
}

std::string compiledName(const std::string& function, bool backward) {
  return backward ? function + "_backward" : function;
}

} // namespace kiln::program
