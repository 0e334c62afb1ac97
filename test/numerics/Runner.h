// Runs a case of the numerics table, on the host target or on a GPU, and compares it with the fp64
// reference of the parsed function. Outputs are NaN before; a second run must give the same bits.
#pragma once

#include "kiln/verify.h"
#include "test/numerics/Table.h"

#include <string>

namespace kiln::test {

/// Empty if everything agrees, else what does not, with the numbers.
/// `disturb` is added to every result, in units of what is allowed: the test of the test.
std::string problemsOf(const Case& numericCase, Where where, double disturb = 0);

/// Only as far as the cubin: what the assembler says of the kernels. Throws kiln::Error.
void assemble(const Case& numericCase);

} // namespace kiln::test
