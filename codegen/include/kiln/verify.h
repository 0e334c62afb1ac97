// Is a compiled program right, and how fast is it? Runs it on inputs from a seed or from files
// and compares every output with an fp64 evaluation of the module it was made from.
// Outputs are filled with NaNs first and lie between guard zones.
#pragma once

#include "kiln/kiln.h"
#include "kiln/npy.h"

#include <optional>

namespace kiln {

enum class Where { host, gpu };

struct RunOptions {
  Where where = Where::host;
  std::uint64_t seed = 1;
  /// Values of the run-time sizes, in the order of their symbols; one value stands for all.
  std::vector<std::int64_t> sizes;
  /// One array an argument, in order; empty: drawn from the seed. Floating-point values of
  /// another type are rounded to the argument's. Shapes give the run-time sizes.
  std::vector<NpyArray> inputs;
  /// What to compare with; needed only if the program was resumed past Stage::module.
  std::optional<Module> reference;
};

/// One output beside its reference, at the element that is worst against what is allowed there.
struct OutputCheck {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  double maxError = 0; // largest |result - reference| over all elements
  double rmsError = 0; // its root mean square over the finite ones
  std::vector<std::int64_t> worst;
  double result = 0;
  double reference = 0;
  double allowed = 0; // |result - reference| allowed at `worst`
  bool passed = false;
  std::int64_t numbers = 0; // elements where fp64 gives a number; elsewhere NaN and infinity agree
};

struct Verification {
  std::vector<OutputCheck> outputs;
  std::vector<NpyArray> results;
  bool repeatable = false;           // a second run gave the same bits
  std::vector<std::string> problems; // guard zones hit, values never written, differing runs
  bool passed = false;               // all outputs passed, no problems
  /// A row of so many was compared, where fp64 would take minutes for all of them; 1: every one.
  std::int64_t step = 1;
};

/// Runs twice and compares. A wrong result is told in the answer; only what prevents a run throws:
/// Error(input) for arguments that do not fit, Error(unavailable) without a GPU or a compiler.
KILN_API Verification verify(const Program& program, const RunOptions& options = {});

/// What a program passes before it serves anybody who did not verify it: the same comparison at
/// sizes of some ten thousand elements a tensor (fewer on the host target), which takes some ten
/// milliseconds. Empty if it agrees; else what does not. Where a function compares what it computed
/// with something, rounding may turn single elements over: only what is wrong with the numbers of
/// three seeds is wrong. `reference`: as in RunOptions. Throws as verify() does.
/// Stores, routers and fused functions do it by themselves, unless the environment has
/// KILN_FIRST_CHECK=0.
KILN_API std::string firstCheck(const Program& program, Where where,
                                const Module* reference = nullptr);

KILN_API bool isFirstCheckWanted();

/// Time of one launch on the current GPU: graph replays over inputs and outputs rotated beyond
/// the L2 cache, beside a plain copy of as many bytes in the same run: the faster of a copy kernel
/// and the driver's copy.
struct Measurement {
  std::string device;
  double microseconds = 0; // median
  double lowest = 0;       // 5th percentile
  double highest = 0;      // 95th percentile
  double copyMicroseconds = 0;
  std::int64_t bytes = 0; // read and written at least
  int replays = 0;
};

KILN_API Measurement measure(const Program& program, const RunOptions& options = {});

} // namespace kiln
