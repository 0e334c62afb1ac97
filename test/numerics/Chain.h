// The programs of a case, compiled and run one after another, on the host target or on a GPU.
#pragma once

#include "codegen/backend/Driver.h"
#include "kiln/verify.h"
#include "test/numerics/Values.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace kiln::test {

/// The only function, or its derived backward alone.
Program compiled(const Case& numericCase, Stage until);

/// The function of a case, beside which derived ones are put.
class Parsed {
 public:
  explicit Parsed(const std::string& source);
  void differentiate(bool together);
  mlir::func::FuncOp find(const char* suffix = "");
  /// The function, its derived backward, or for a chained case both as one: derives what it needs.
  mlir::func::FuncOp whatIsComputed(const Case& numericCase);
  std::string text();

  std::string name;

 private:
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

/// What a case compiles: functions of one module, in the order in which they run.
struct Functions {
  Module module;
  std::vector<std::string> names;
  unsigned results = 0; // of the first that are the case's own, not kept for the second
};
Functions functionsOf(const Case& numericCase);
CompileOptions optionsOf(const Case& numericCase, Stage until);

/// Programs that run one after another: each finds what it reads among the inputs and what earlier
/// ones computed, by name.
class Chain {
 public:
  Chain(const Case& numericCase, Where where);
  /// Tensors of these shapes, with the strides that the case gives.
  std::vector<Storage> storages(const std::vector<TensorInfo>& tensors) const;
  /// Poisons what is computed; runs all. The results, in the order of `results`.
  std::vector<Storage> run(std::vector<Storage>& given) const;

  std::vector<TensorInfo> inputs, results;

 private:
  const Case& numericCase;
  Where where;
  std::vector<Program> programs;
};

} // namespace kiln::test
