// A plugin for clang-tidy: checks walk what the unit and the project's own headers declare, not the
// packages' headers, whose findings are never shown. They are two thirds of the time of a unit that
// includes MLIR. Built and loaded by tidy.py.
#include "clang/AST/ASTConsumer.h"
#include "clang/AST/ASTContext.h"
#include "clang/Frontend/FrontendPluginRegistry.h"

namespace {

struct NarrowScope : clang::ASTConsumer {
  void HandleTranslationUnit(clang::ASTContext& context) override {
    std::vector<clang::Decl*> own; // nothing of precompiled headers, which need not be loaded
    for (clang::Decl* declaration : context.getTranslationUnitDecl()->noload_decls())
      if (!context.getSourceManager().isInSystemHeader(declaration->getLocation()))
        own.push_back(declaration);
    context.setTraversalScope(own);
  }
};

/// Runs before clang-tidy's own consumer.
struct NarrowScopeAction : clang::PluginASTAction {
  std::unique_ptr<clang::ASTConsumer> CreateASTConsumer(clang::CompilerInstance&,
                                                        llvm::StringRef) override {
    return std::make_unique<NarrowScope>();
  }
  bool ParseArgs(const clang::CompilerInstance&, const std::vector<std::string>&) override {
    return true;
  }
  ActionType getActionType() override { return AddBeforeMainAction; }
};

clang::FrontendPluginRegistry::Add<NarrowScopeAction>
    registered("narrow-scope", "walk declarations outside system headers only");

} // namespace
