// What stands behind the public Module and Program: text in, text and bytes out. Nothing of MLIR
// outlives a call, so both are plain values.
#pragma once

#include "codegen/backend/LaunchPlan.h"
#include "codegen/passes/Passes.h"

#include "mlir/IR/OwningOpRef.h"

#include <mutex>

#include <map>

namespace kiln {

struct Module::State {
  std::string text;
  std::string name;
  std::vector<std::string> functions;
};

namespace program {

/// What attempts to compile a function have taught.
struct Lessons {
  std::multimap<std::string, int> spilled; // by entry point: registers that were too few
  int most = 0;                            // operations of a kernel; 0: as usual
  bool lastResort = false;                 // take the schedule although the assembler spills
};

} // namespace program

struct Program::State {
  CompileOptions options;
  std::string function; // the one compiled
  std::string texts[5]; // by Stage; empty before the stage that was resumed
  std::vector<std::byte> cubin;
  std::string log; // of the assembler
  program::Lessons lessons;
  std::vector<std::string> remarks;
  LaunchPlan plan;
  std::vector<KernelInfo> kernels;
};

namespace program {

/// A context with the dialects loaded, single-threaded; collects diagnostics as text.
class Session {
 public:
  Session();
  ~Session();
  mlir::MLIRContext& context() { return *context_; }

  /// Throws Error(input) with file, line and column.
  mlir::OwningOpRef<mlir::ModuleOp> parse(std::string_view text, std::string_view name);
  /// Throws an Error with the diagnostics, of the kind that a pass has given them, else input.
  void run(mlir::ModuleOp module, std::vector<std::unique_ptr<mlir::Pass>> passes);
  /// Throws what was reported.
  [[noreturn]] void fail(std::string_view what);
  std::vector<std::string> takeRemarks() { return std::move(remarks_); }

 private:
  std::unique_ptr<mlir::MLIRContext> context_;
  std::vector<std::string> errors_, remarks_;
  ErrorKind kind_ = ErrorKind::input; // of the first error that has one of its own
};

std::string print(mlir::ModuleOp module);
/// The name that the compiled function will have: the backward of a function has its own.
std::string compiledName(const std::string& function, bool backward);

/// The CUDA text of a module of exit operations. A failure says why in a diagnostic.
mlir::FailureOr<std::string> emitCuda(mlir::ModuleOp module, std::string_view title);

/// The assembler used more than a schedule promised: it spills, or fewer blocks fit. `registers`
/// has what each such kernel got a thread, `spillBytes` what all of them spill; `attempts` are
/// worth making with other schedules. Not `launchable`: no block of some kernel fits.
struct BrokenPromise : Error {
  BrokenPromise(const std::string& text, std::map<std::string, int> registers,
                std::int64_t spillBytes, int attempts, bool launchable)
      : Error(ErrorKind::infeasible, text), registers(std::move(registers)), spillBytes(spillBytes),
        attempts(attempts), launchable(launchable) {}
  std::map<std::string, int> registers;
  std::int64_t spillBytes;
  int attempts;
  bool launchable;
};

/// Fills cubin, log and kernels of a state that has CUDA text. Throws BrokenPromise.
void assemble(Program::State& state);

} // namespace program
} // namespace kiln
