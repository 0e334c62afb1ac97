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
  denormal,   // of fp32
  steep,      // 60 N(0, 1): exp overflows for some
  large,      // up to the largest of fp16
  infinities, // some elements are +inf or -inf
  nans,       // some elements are NaN
  minusInf,   // every other row is -inf throughout
  closed,     // every other row of the mask is false throughout
};

struct Case {
  std::string name;                // letters, digits and '_'
  std::string op;                  // the word of KILN_OPS that the case is for
  std::string text;                // one function
  std::vector<std::int64_t> sizes; // run-time sizes by symbol; one stands for all
  bool backward = false;
  std::string schedule = {}; // empty: the default choice
  Fill fill = Fill::normal;
  /// > 0: integers are indices of so many classes, but some -100 and some out of range.
  std::int64_t classes = 0;
  /// Strides given at run time, by argument (where its layout says -1).
  std::map<std::string, std::vector<std::int64_t>> strides = {};
};
std::ostream& operator<<(std::ostream& out, const Case& numericCase);

std::vector<Case> allCases();

} // namespace kiln::test
