// What could be compiled and what it should cost: the schedules that fit a target, why the others
// do not, and predicted times. Pure functions of module, target and sizes; no GPU is needed.
#pragma once

#include "kiln/kiln.h"

namespace kiln {

/// Times are those of the target's flagship part at nominal bandwidth. They were fitted on an H200,
/// where they are within 10 % of nine of ten kernels that were tuned.
struct Prediction {
  std::int64_t bytesRead = 0;
  std::int64_t bytesWritten = 0;
  double microseconds = 0;
  /// What no schedule is faster than at the target's nominal rates, and by what: "bytes",
  /// "tensor cores" or "exponentials", whichever takes longest.
  double rooflineMicroseconds = 0;
  std::string rooflineLimit;
  double occupancy = 0;  // resident threads over the most an SM holds, 0..1
  std::string limitedBy; // "registers", "shared memory", "threads", "blocks"
  // What `microseconds` is made of, in the cost model's shares. Of the first two the longer counts,
  // and a little more.
  double moving = 0;   // the bytes, with what this schedule loses against a copy
  double waiting = 0;  // `waves` rounds of blocks, each from its first load to its last store
  double starting = 0; // and draining
  double summing = 0;  // partial sums down the columns
  double waves = 0;
  double bytesInFlight = 0; // per multiprocessor
};

/// A schedule that fits, and what it should cost.
struct Candidate {
  std::string schedule; // text of #kiln.schedule<...>, accepted by CompileOptions::schedule
  Prediction prediction;
};

/// Schedules that fell for one reason.
struct Rejection {
  std::string reason; // "shared memory"
  std::int64_t count = 0;
  std::string worst; // "107008 bytes of shared memory asked, sm_86 allows 101376 a block"
};

/// One kernel of the function and its schedules.
struct KernelPlan {
  std::string name;
  std::string family;
  std::int64_t considered = 0;
  std::int64_t feasible = 0;
  std::vector<Rejection> rejections; // most frequent first
  std::vector<Candidate> best;       // predicted fastest first, at most `RankOptions::keep`
};

struct RankOptions {
  /// Values of the run-time sizes, in the order of their symbols; one value stands for all.
  std::vector<std::int64_t> sizes;
  int keep = 5;
};

/// Throws Error(input); a kernel without any feasible schedule is told in the answer.
KILN_API std::vector<KernelPlan> plan(const Module& module, const CompileOptions& options = {},
                                      const RankOptions& rank = {});

/// One prediction a kernel of `program.kernels()`, in that order.
KILN_API std::vector<Prediction> predict(const Program& program, const RankOptions& rank = {});

/// What the kernels of any cubin use, from its bytes alone; spills are not told there: -1.
/// Throws Error(input) naming `origin` for what is truncated or malformed.
KILN_API std::vector<KernelInfo> kernelsOfCubin(std::span<const std::byte> cubin,
                                                std::string_view origin = "<memory>");

/// The machine code as text, by the toolkit's disassembler. Throws Error(unavailable) naming the
/// places searched.
KILN_API std::string disassemble(const Program& program);

} // namespace kiln
