// A row kernel as the cost model sees it: two reductions over rows of bf16.
#pragma once

#include "codegen/families/rows/cost/Cost.h"

namespace kiln::test {

inline rows::Facts rowFacts(std::int64_t width, bool sums = false) {
  rows::Facts f;
  f.width = width;
  f.inputs = {{2, 16}};
  f.outputs = {{2, 16}};
  f.reductions = 2;
  f.passes = 3;
  f.operations = 12;
  f.columnSums = sums;
  return f;
}

} // namespace kiln::test
