// Where candidates are compiled, verified and timed: a GPU, a simulated one, or either of them in
// a worker process. What a candidate may break is told in answers where the device survives it;
// `Lost` is thrown where it does not. One thread at a time.
#pragma once

#include "autotune/Records.h"
#include "kiln/kiln.h"

#include <functional>
#include <memory>
#include <span>
#include <variant>

namespace kiln::autotune {

/// A function to tune, as text, so that every process can compile it by itself.
struct Task {
  std::string module; // MLIR of this function alone: of a backward, the derived one
  std::string arch = "sm_90a";
  std::string nvrtc;               // library to use; empty: search
  std::vector<std::int64_t> sizes; // run-time sizes at which it is timed
  /// The same function with more of its sizes known at run time only, so that the same kernel can
  /// be verified on other sizes; empty: there is none.
  std::string general;
  std::vector<std::int64_t> generalSizes; // those of the task

  friend bool operator==(const Task&, const Task&) = default;
};

/// A schedule that fits, and what the cost model expects of it.
struct Proposal {
  std::string schedule;
  double microseconds = 0;
};

/// What becomes of a proposal: code, or the reason why there is none.
using Compiled = std::variant<Artifact, Rejection, Failure>;

struct Check {
  Verdict verdict;
  std::optional<FailureKind> kind; // of what failed
  std::string log;
};

/// Rounds in which the same kernels took turns.
struct Batch {
  std::vector<std::vector<double>> samples; // microseconds; one row a kernel, one value a round
  Conditions conditions;                    // the worst of those before and after
};

/// The candidate took the device with it; a device behind a worker is a new one after this.
struct Lost : Error {
  Lost(FailureKind kind, const std::string& log) : Error(ErrorKind::device, log), kind(kind) {}
  FailureKind kind;
};

class Device {
 public:
  virtual ~Device() = default;

  /// What the functions below are about, until the next call.
  virtual void begin(const Task& task) = 0;
  /// Needs no GPU.
  virtual Compiled compile(const Proposal& proposal) = 0;
  /// Computes what fp64 says of it, which may take the host longer than any kernel runs, so that
  /// verify() has little but kernels to wait for.
  virtual void prepare(const Artifact&, std::uint64_t) {}
  /// Compares with fp64: at the sizes of the task, at a tail shape, at the least alignment that
  /// the kernel accepts, and twice on different streams. Outputs are poisoned with NaNs before
  /// and lie between guard zones.
  virtual Check verify(const Artifact& artifact, std::uint64_t seed) = 0;
  /// Times kernels that passed. The same one may stand there twice; null stands for a plain copy of
  /// as many bytes as one launch moves, beside at least one kernel.
  virtual Batch time(std::span<const Artifact* const> kernels, std::size_t rounds) = 0;
  /// As they are now; `uuid` and `driver` never change.
  virtual Conditions conditions() = 0;
};

/// Makes devices alike; called from any thread.
using DeviceFactory = std::function<std::unique_ptr<Device>()>;

/// "illegal access"; all kinds have one.
std::string_view name(FailureKind kind);
FailureKind parseFailureKind(std::string_view name); // throws Error(input)

} // namespace kiln::autotune
