// Writes math on tensors in fp32, for decompositions and gradient rules: operands narrower than
// fp32 are widened, shapes follow the first operand, every value gets the builder's location.
#pragma once

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

namespace kiln::ir {

class PairsAttr;

class MathBuilder {
 public:
  MathBuilder(mlir::OpBuilder& builder, mlir::Location location)
      : builder(builder), location(location) {}

  mlir::Value f32(mlir::Value value);
  /// `value` with elements of `type`: floats widened or rounded, booleans to 0 and 1.
  mlir::Value cast(mlir::Value value, mlir::Type type);
  /// The constant `number` in fp32, with the shape of `like`.
  mlir::Value constant(double number, mlir::Value like);

  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value sub(mlir::Value a, mlir::Value b);
  mlir::Value mul(mlir::Value a, mlir::Value b);
  mlir::Value div(mlir::Value a, mlir::Value b);
  /// a * b, rounded by itself: never contracted with a sum, so that equal products cancel.
  mlir::Value roundedMul(mlir::Value a, mlir::Value b);
  /// a * b + c, rounded once.
  mlir::Value fma(mlir::Value a, mlir::Value b, mlir::Value c);
  /// a / row, where `row` has one finite number other than 0 a row: a reciprocal a row and one
  /// step of refinement, which rounds as a division does but for rare ties.
  mlir::Value divideByRow(mlir::Value a, mlir::Value row);
  mlir::Value mul(mlir::Value a, double factor);
  mlir::Value add(mlir::Value a, double term);
  mlir::Value neg(mlir::Value a);
  mlir::Value exp(mlir::Value a);
  /// exp(a) for sums and for results that are rounded to `stored`: if that is narrower than fp32,
  /// as a power of two with one rounding of the exponent (error |a| 2^-24 and 2^-22).
  mlir::Value expFor(mlir::Type stored, mlir::Value a);
  /// exp(a - row) * factor, of numbers `row` and `factor` a row. Where `stored` has denormals of
  /// fp32 and expFor flushes them, the exponential is taken of more and the factor lowered as much.
  mlir::Value expTimes(mlir::Type stored, mlir::Value a, mlir::Value row, mlir::Value factor);
  mlir::Value log(mlir::Value a);
  mlir::Value tanh(mlir::Value a);
  mlir::Value erf(mlir::Value a);
  mlir::Value rsqrt(mlir::Value a);
  mlir::Value sqrt(mlir::Value a);
  /// exp(a) - 1, exact also where a is small.
  mlir::Value expm1(mlir::Value a);
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b);
  /// a == b, of floats ordered, or of integers of one type; a > b, ordered.
  mlir::Value equal(mlir::Value a, mlir::Value b);
  mlir::Value greater(mlir::Value a, mlir::Value b);
  /// The larger of two; NaN if either is.
  mlir::Value maximum(mlir::Value a, mlir::Value b);

  /// The integer `number`, with the shape and the type of `like`.
  mlir::Value integer(int64_t number, mlir::Value like);
  /// 0 <= a < bound, of integers of one type.
  mlir::Value inRange(mlir::Value a, mlir::Value bound);
  /// The index along `dim` of the shape of `like`, in integers of `type`.
  mlir::Value index(int64_t dim, mlir::Value like, mlir::Type type);

  /// True where the column, in the shape of `like`, is the integer that its row has.
  mlir::Value isColumn(mlir::Value ofRow, mlir::Value like);

  /// One number a row, repeated along the row of `like`.
  mlir::Value alongRow(mlir::Value statistic, mlir::Value like);
  /// One row, repeated over the leading dimensions of `like`.
  mlir::Value alongColumns(mlir::Value row, mlir::Value like);
  /// The other element of each pair of columns.
  mlir::Value partner(mlir::Value value, PairsAttr pairs);
  mlir::Value broadcast(mlir::Value value, llvm::ArrayRef<int64_t> dims, mlir::Value like);

  mlir::Value sumOfRow(mlir::Value value);
  mlir::Value meanOfRow(mlir::Value value);
  mlir::Value maxOfRow(mlir::Value value);
  mlir::Value sumOver(mlir::Value value, llvm::ArrayRef<int64_t> dims);
  /// The sum over all leading dimensions.
  mlir::Value sumOfColumns(mlir::Value value);

  /// `value`, which is to be called so where a kernel or a derived function shows it.
  mlir::Value named(llvm::StringRef name, mlir::Value value);

  mlir::OpBuilder& builder;
  mlir::Location location;
};

/// [first, last)
llvm::SmallVector<int64_t> dimsFrom(int64_t first, int64_t last);

} // namespace kiln::ir
