// The passes; see Passes.td. Between them a program is a module of tensor functions (up to
// kiln-verify-schedule) or of exit operations (from kiln-lower on).
#pragma once

#include "codegen/backend/Target.h"
#include "codegen/exit/Exit.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace kiln::passes {

#define GEN_PASS_DECL
#include "codegen/passes/Passes.h.inc"

std::unique_ptr<mlir::Pass> createCanonicalize();
std::unique_ptr<mlir::Pass> createDifferentiate();
std::unique_ptr<mlir::Pass> createDifferentiate(DifferentiateOptions options);
std::unique_ptr<mlir::Pass> createFuse();
std::unique_ptr<mlir::Pass> createFuse(FuseOptions options);
std::unique_ptr<mlir::Pass> createSchedule();
std::unique_ptr<mlir::Pass> createSchedule(ScheduleOptions options);
std::unique_ptr<mlir::Pass> createVerifySchedule();
std::unique_ptr<mlir::Pass> createVerifySchedule(VerifyScheduleOptions options);
std::unique_ptr<mlir::Pass> createLower();
std::unique_ptr<mlir::Pass> createLower(LowerOptions options);
std::unique_ptr<mlir::Pass> createPlace();
std::unique_ptr<mlir::Pass> createPrepare();

/// Makes every pass known to kiln-opt's command line.
void registerPasses();

/// Whether a function has a form that passes can work on: an error at what has not. Every pass that
/// is the first to see a function asks.
llvm::LogicalResult checkFunction(mlir::func::FuncOp function);
/// The function of that name, or the only one, checked; an error otherwise.
llvm::FailureOr<mlir::func::FuncOp> findFunction(mlir::ModuleOp module, llvm::StringRef name);

using cu::kLaunchAttr;

/// An error at an operation whose kind whoever runs the passes can tell.
mlir::InFlightDiagnostic emitError(mlir::Operation* op, ErrorKind kind);
/// ErrorKind::input of one that no pass has said more of.
ErrorKind kindOf(const mlir::Diagnostic& error);

} // namespace kiln::passes
