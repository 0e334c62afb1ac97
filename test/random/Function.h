// A function that nobody chose: steps drawn from a table of forms (Forms.cpp), over rows of any
// width, in any dtypes, one to twelve operands, one to eight reductions. It can be printed as MLIR,
// and made smaller (Shrink.h).
#pragma once

#include "test/numerics/Table.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace kiln::test {

/// What a value is: a tensor of rows, one number a row, one a column, one for all, a mask of rows.
enum class Kind { rows, statistic, columns, scalar, mask };

struct Form {
  const char* name;
  Kind result;
  std::vector<Kind> operands;
  /// MLIR lines. `$r` is the result's name, `$0` an operand's, `$R $S $C $O $M` the types of the
  /// kinds in order, `$last` the dimension of a row, `$lead` and `$all` lists of dimensions.
  const char* text;
  /// How large results are, from the operands' sizes and the width.
  double (*size)(std::span<const double> operands, double width);
  bool reduces = false;
  /// Rounding may move what it, or its gradient, gives by much: of arguments only, which are exact.
  enum class Of { any, argumentsIfBackward, arguments } of = Of::any;
  bool varies = false; // needs an operand that is not the same all along a row
};
std::span<const Form> forms();

struct Step {
  const Form* form = nullptr; // null: an argument
  Kind kind = Kind::rows;
  std::vector<std::size_t> operands; // earlier steps
  std::string dtype = "f32";         // of an argument
  double size = 4;
  bool varies = false;
};

struct Function {
  std::uint64_t seed = 0;
  std::int64_t width = 1, rows = 1; // as many as the leading dimension has
  std::int64_t groups = 0;          // of a second leading dimension; 0: there is none
  std::vector<Step> steps;          // arguments first
  struct Result {
    std::size_t step;
    std::string dtype;
  };
  std::vector<Result> results;
  bool backward = false;       // forward and derived backward, one after another
  std::uint64_t schedules = 0; // 0: default ones; else what they are drawn from
};

Function draw(std::uint64_t seed);
std::string textOf(const Function& function);
/// Steps that results depend on.
std::vector<bool> liveSteps(const Function& function);

} // namespace kiln::test
