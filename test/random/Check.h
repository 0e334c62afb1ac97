// Runs a drawn function: races, accesses outside, bits that differ between two runs, and what
// disagrees with fp64 beyond what rounding explains, all count.
#pragma once

#include "kiln/verify.h"
#include "test/random/Attention.h"
#include "test/random/Function.h"

namespace kiln::test {

/// The case that is run: its text, its schedules drawn from all that fit.
Case caseOf(const Function& function);
Case caseOf(const Attention& attention);
/// Empty if everything agrees, else what does not. On the host target in a process of its own, so
/// that a crash is a problem like others. Throws Error(unavailable) only.
std::string problemsOf(const Function& function, Where where);
std::string problemsOf(const Attention& attention, Where where);
/// The same in this process, of a case whose schedules are given.
std::string problemsOf(const Case& numericCase, Where where, std::uint64_t seed = 0);
/// A smaller function that still has problems, found within so many attempts.
Function shrink(const Function& function, Where where, int attempts = 150);
Attention shrink(const Attention& attention, Where where, int attempts = 150);

} // namespace kiln::test
