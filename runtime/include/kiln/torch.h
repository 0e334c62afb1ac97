// Kiln under a LibTorch program: one line, and its norms, softmaxes, losses, dropouts and
// activations run on tuned kernels, forward and backward.
//
//   #include <kiln/torch.h>
//   kiln::enable();
//   ... train ...
//   std::cout << kiln::report();
//
// What Kiln does not take, and what is not compiled yet, runs on ATen as before; the report counts
// why, and names norms that a model writes out in single ops with the op that would be taken. What
// is drawn and what is kept for a backward does not depend on it: the mask of a dropout
// that Kiln takes is Kiln's from the first call on, and so is a node of the autograd graph. Where
// ATen looks at values and raises, Kiln's kernels, which nobody waits for, cannot: a target of a
// cross-entropy that is no class gives a NaN loss and NaN gradients of its row, and the report says
// how many such rows there were: it waits for this thread's stream then. A process that
// forks waits some seconds for a kernel that is being compiled, and its child compiles on its own;
// the end of a process waits for one too, and what is called after it runs on ATen. A kernel that
// no store has measured is compared with fp64 before its first launch, at small sizes, in the
// background; one that fails is not launched, and the report says so (KILN_FIRST_CHECK=0: none is).
// Any thread may call anything. Plain C++: no header of Torch. Errors are kiln::Error.
#pragma once

#include "kiln/kiln.h"

#include <memory>

namespace kiln {

/// `use`: kernels of the stores, else the cost model's choice, compiled in the background. `tune`:
/// the same, and what no store has is tuned in the background into the store `cache`; for runs
/// whose purpose that is, since it takes the GPU's time. `verify`: Kiln and ATen both run and their
/// results are compared; slow. `off`: ATen. `record`: ATen computes
/// all, and what Kiln would be asked for is only noted, for recordShapes(); by enable() alone, a
/// guard's is `use`.
enum class Mode { use, tune, verify, off, record };

/// Which tensors: those on GPUs, or, to try things out without one, those of the CPU, for which
/// Kiln's kernels are executed by its host target, slowly.
enum class Place { gpu, cpu };

struct Options {
  Mode mode = Mode::use;
  /// "layer_norm,softmax": only these. "-gelu": all but it. "-gelu,+gelu_backward" in this order.
  /// Families (layer_norm, rms_norm, softmax, log_softmax, cross_entropy, dropout, gelu, silu,
  /// attention) or ATen's names; empty: all.
  std::string ops;
  std::filesystem::path cache; // store to take kernels from and to keep them in; empty: standard
  std::string log;             // "stderr" or a file to append to; empty: nothing is written
  bool strict = false;         // what would fall back is an error; kernels are waited for
  Place place = Place::gpu;
  /// Where ATen's formula would hold more bytes than these (scores of attention), a call whose
  /// kernel is not there yet waits for it.
  std::int64_t formulaBytes = std::int64_t(1) << 31;
  /// Which algorithms of cuBLASLt compute products of matrices (mm, bmm, addmm; bf16 and fp16) on
  /// GPUs, as tuning has found them for a GPU and a version of cuBLASLt; empty: LibTorch chooses.
  std::filesystem::path products;
  /// Products that the file has no choice for are tuned at their first call, which waits, and are
  /// written to it. It may be one that is not there yet. For a run of one process.
  bool tuneProducts = false;

  /// From KILN_MODE, KILN_OPS, KILN_CACHE, KILN_LOG, KILN_STRICT, KILN_PLACE, KILN_FORMULA_BYTES,
  /// KILN_PRODUCTS and KILN_TUNE_PRODUCTS. Throws Error(input).
  KILN_API static Options fromEnvironment();
  /// From "mode=verify ops=layer_norm,-gelu strict=1": as above, what is named replaces it.
  KILN_API static Options parse(std::string_view text);
};

/// From here on, in all threads. May be called again with other options. KILN_ENABLE=1 does it when
/// the library is loaded. Without a GPU nothing is taken, and the report says so.
KILN_API void enable(const Options& options = Options::fromEnvironment());
KILN_API void disable();

/// Other options for a scope of this thread, and for the backward of what it computes, wherever
/// autograd runs that. Of the options `mode`, `ops` and `strict` count. Does nothing before the
/// first enable(); after it, also while disabled. Guards may be destroyed in any order and by any
/// thread: of those of a thread that are still there the last one counts for it.
class KILN_API Guard {
 public:
  explicit Guard(const Options& options);
  explicit Guard(Mode mode);
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Returns when everything that was asked for so far is compiled: before a graph is captured, say.
KILN_API void wait();

/// From here on, until enable() is called again, nothing changes what is chosen for kernels that
/// are still to come: stores are read as they are now, whoever writes to them later. What decides
/// the choices, as lines that ranks compare (kiln::dist::freezeChoices). Throws Error(input) in
/// mode `tune`, which changes them.
KILN_API std::string freeze();

/// Which ops were called on which shapes, how often Kiln's kernels ran, and why not otherwise.
KILN_API std::string report();

/// Waits as wait() does, then writes what was asked for since enable() and no store has measured
/// yet: a workload for `kernel-compile tune`, and beside it the .mlir files that it names. On the
/// CPU only what was asked for while Options::cache named a store. With mode `record` nothing is
/// compiled, and no store needs to be named. Throws Error(io).
KILN_API void recordShapes(const std::filesystem::path& workload);

} // namespace kiln
