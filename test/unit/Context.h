// An MLIR context with Kiln's dialects, and text parsed in it.
#pragma once

#include "codegen/family/Family.h"
#include "codegen/passes/Passes.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <gtest/gtest.h>

namespace kiln::test {

struct Context {
  Context() : context(registry(), mlir::MLIRContext::Threading::DISABLED) {
    context.loadAllAvailableDialects();
  }

  mlir::OwningOpRef<mlir::ModuleOp> parse(llvm::StringRef text) {
    auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text.str();
    return module;
  }
  bool run(mlir::ModuleOp module, std::unique_ptr<mlir::Pass> pass) {
    mlir::PassManager manager(&context);
    manager.addPass(std::move(pass));
    return succeeded(manager.run(module));
  }

  mlir::MLIRContext context;

 private:
  static mlir::DialectRegistry registry() {
    mlir::DialectRegistry dialects;
    family::registerDialects(dialects);
    return dialects;
  }
};

} // namespace kiln::test
