// Options of programs that unit tests compile.
#pragma once

#include "kiln/kiln.h"

namespace kiln::test {

/// As far as needs no compiler of CUDA.
inline CompileOptions untilCuda() {
  CompileOptions options;
  options.until = Stage::cuda;
  return options;
}

} // namespace kiln::test
