// The numerics table: what every op, dtype and shape is run with. One case is one function, one
// schedule and one set of sizes; the runner compares it with fp64 (Runner.h). A new row op adds its
// cases to Table.cpp under its word of KILN_OPS.
#pragma once

#include "kiln/kiln.h"

#include <iosfwd>
#include <map>

namespace kiln::test {

/// What the inputs hold. All but the first kind treat the first input, the others stay normal.
enum class Fill {
  normal,     // about N(0, 1); masks are true for 3 of 4 elements
  offset,     // 10000 + 0.1 N(0, 1): mean and deviation cancel
  constant,   // 10000.1 + r in row r: no variance
  denormal,   // of the type
  deep,       // 0 in one of 16 places, elsewhere down to -110: exp is denormal for some
  steep,      // 60 N(0, 1): exp overflows for some
  large,      // up to the largest of fp16
  infinities, // some elements are +inf or -inf
  nans,       // some elements are NaN
  minusInf,   // every other row is -inf throughout
  closed,     // every other row of the mask is false throughout
  hiding,     // the bias `b` has -inf and, but in fp16, -1e30, in some places and whole rows
};

/// What an error of a result is measured by. Anything but `no` takes inputs for exact, so that no
/// error is excused as rounding of them, and forbids to flush denormals.
enum class Strict {
  no,       // the size of the element, that of its row, and what rounding of the inputs changes
  rows,     // the first two
  elements, // the first
};

struct Case {
  std::string name;                // letters, digits and '_'
  std::string op;                  // the word of KILN_OPS that the case is for
  std::string text;                // one function
  std::vector<std::int64_t> sizes; // run-time sizes by symbol; one stands for all
  bool backward = false;
  /// Of a backward: it reads what the forward's kernels saved, and fp64 computes both as one.
  /// Otherwise it reads numbers of its own, and is tested alone.
  bool chained = false;
  Strict strict = Strict::no;
  /// Results in fp32 of bf16 or fp16 operands whose rows have one element, which may be the small
  /// rest of large terms: rounding them in fp32 excuses an error, as rounding fp32 operands does.
  bool cancels = false;
  std::string schedule = {}; // empty: the default choice
  /// Of a chained case: the second program's; empty: `schedule` is for both.
  std::string scheduleOfBackward = {};
  Fill fill = Fill::normal;
  /// > 0: integers are indices of so many classes, but some -100 and some out of range.
  std::int64_t classes = 0;
  /// What an argument holds instead of random numbers.
  std::map<std::string, std::vector<double>> numbers = {};
  /// Strides given at run time, by argument (where its layout says -1).
  std::map<std::string, std::vector<std::int64_t>> strides = {};
};
std::ostream& operator<<(std::ostream& out, const Case& numericCase);

std::vector<Case> allCases();

} // namespace kiln::test
