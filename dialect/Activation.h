// Activation functions: in fp64 for references, and as math in fp32 with their slopes. Shared by
// the operations that apply one and by those that gate with one.
// Slopes are computed from the input; they are finite for every finite input.
#pragma once

#include "dialect/Kiln.h"

namespace kiln::ir {

double sigmoid(double x);
double silu(double x);
double gelu(double x, Approximate approximate);

/// A tensor of the shape of `x` with `function` of each element.
Tensor64 mapElements(const Tensor64& x, llvm::function_ref<double(double)> function);

/// 1 / (1 + exp(-x))
mlir::Value sigmoid(MathBuilder& math, mlir::Value x);
mlir::Value sigmoidSlope(MathBuilder& math, mlir::Value x);
/// x / (1 + exp(-x))
mlir::Value silu(MathBuilder& math, mlir::Value x);
mlir::Value siluSlope(MathBuilder& math, mlir::Value x);
/// x times the normal distribution function, or its approximation by tanh.
mlir::Value gelu(MathBuilder& math, mlir::Value x, Approximate approximate);
mlir::Value geluSlope(MathBuilder& math, mlir::Value x, Approximate approximate);

} // namespace kiln::ir
