// Rounding errors as noise, by Monte Carlo arithmetic (Parker 1997): what is computed in fp64 is
// moved, value by value, by as much as its type or its family rounds.
#pragma once

#include "codegen/backend/LaunchPlan.h"
#include "dialect/Kiln.h"
#include "dialect/Reference.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kiln::program {

/// Relative; 0: of types that do not round.
double halfUlp(DType dtype);

/// Operations that move what they round on the way, by as much as the family that executes them
/// rounds within them. Their results are as exact as that.
bool movesItself(mlir::func::FuncOp function, mlir::Operation& op, std::uint64_t seed);

/// Says in the locations of a function's operations how the family that executes them rounds within
/// them, where that is worse than fp32: what named operations are decomposed into has their
/// locations.
void noteArithmetic(mlir::func::FuncOp function);

/// Moves values that were computed, one tensor after the other.
struct Noise {
  std::uint64_t state = 20240229; // another one for each tensor
  void operator()(mlir::Value value, ir::Tensor64& tensor);
  /// Before the function is evaluated once more, with other noise: also of ops that draw it
  /// themselves, by the state, where no tensor is moved here.
  void again() {
    partialSums.clear();
    state += kNext;
  }

 private:
  static constexpr std::uint64_t kNext = 0xd1b54a32d192ed03U;
  double draw(double value) const;
  void notePartialSums(mlir::Value value, const ir::Tensor64& tensor);

  /// Of one sum.
  struct Partial {
    double walk = 0.0;  // what partial sums amount to where terms cancel
    double chain = 0.0; // how far the terms end from their sum, added up one behind the other
  };
  llvm::DenseMap<mlir::Operation*, std::vector<Partial>> partialSums; // by what adds them up
};

} // namespace kiln::program
