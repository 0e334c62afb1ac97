// Tuning: finds for each task the schedule that is fastest beyond doubt on the GPU at hand, and
// writes all that is learned into a store. Candidates are compiled, verified and timed in worker
// processes: one that crashes or hangs costs a worker, never the run. What was stopped or killed
// goes on where it was when it is started again; several may work on one store at once.
#pragma once

#include "kiln/cache.h"

#include <functional>

namespace kiln {

struct TuneTask : TuningTask {
  double share = 1; // of all calls, against the other tasks
  /// The same function with more of its sizes known at run time only, and their values here: so the
  /// same kernel can be verified on other sizes than its own. It gets the same choice, if it is the
  /// same code: that is what a program finds that calls it with sizes of the moment.
  std::optional<Module> general;
  std::vector<std::int64_t> generalSizes;
};

struct TuneProgress {
  std::size_t keys = 0, keysDone = 0;
  std::size_t compiled = 0, measured = 0, rejected = 0, failed = 0; // candidates
  std::string label;                                                // of the task at work
  double best = 0, roofline = 0;                                    // microseconds, of that task
  double secondsLeft = -1;                                          // about; -1: not known yet
};

struct TuneOptions {
  std::string effort = "full"; // none, quick, full or exhaustive
  double seconds = 0;          // for all tasks; 0: without limit
  double secondsPerKey = 0;    // 0: what the effort says
  /// A program that calls serveTuning() with its last argument, and the arguments before that.
  std::vector<std::string> worker;
  /// Or "gpu:N"; or "simulated": times of a model, for trying the tuner out; "simulated:FILE.json":
  /// as described.
  std::string device = "gpu";
  unsigned jobs = 0;        // processes that compile; 0: one a core
  bool again = false;       // also tasks that have a measured choice
  bool retryFailed = false; // also candidates that failed on this driver
  std::function<void(const TuneProgress&)> progress;
  std::function<bool()> isStopped; // asked between steps
};

struct TuneResult {
  std::string label, key; // 64 digits
  std::string source;     // measured, vendor, model, ...; empty: nothing was chosen
  std::string schedule;   // empty: the vendor's kernel
  std::string reason;     // of the choice, or why there is none
  bool known = false;     // was chosen before
  bool general = false;   // and so for the general function, at these sizes
  double microseconds = 0, defaultMicroseconds = 0, roofline = 0;
  double ratio = 1, ratioLow = 1, ratioHigh = 1; // to the default's time, with its 95 % interval
  double margin = 0;                             // over the runner-up, as a share
  std::size_t feasible = 0, measured = 0;        // candidates
  double seconds = 0; // that the search took, and of these it waited for compilers, ...
  double compileSeconds = 0, verifySeconds = 0, measureSeconds = 0;
};

/// Results in the order of the tasks. Throws Error: `unavailable` without the device.
KILN_API std::vector<TuneResult> tune(std::span<const TuneTask> tasks,
                                      const std::filesystem::path& store,
                                      const TuneOptions& options,
                                      std::vector<std::string>* warnings = nullptr);

/// What a store has chosen, run again; the store alone is needed, no source.
struct RecheckOptions {
  std::vector<std::string> keys;   // first digits of their names; empty: all of the device at hand
  std::vector<std::string> worker; // as in TuneOptions, like the next
  std::string device = "gpu";
  int rounds = 64;         // in which kernels take turns: 8, 16, 32, 64 or 128
  double tolerance = 0.02; // of regress: a share by which a time may be longer than its record
  std::uint64_t seed = 1;  // of the numbers that kernels are verified on
  bool record = false;     // write what was found into the store
  std::function<void(std::size_t done, std::size_t total, const std::string& label)> progress;
  std::function<bool()> isStopped; // asked between keys
};

/// A choice that was run again.
struct Rechecked {
  std::string key, label, source, schedule;
  std::string trouble; // why it was not run; empty: it was
};

/// Times of the same rounds; ratios are to the default's time, with their 95 % intervals.
struct BenchResult : Rechecked {
  cache::Time chosen, standard, copy; // `standard`: the default schedule's
  std::optional<cache::Time> vendor;  // as it was measured before: only its library can run it
  double roofline = 0;                // microseconds; 0: not known
};
KILN_API std::vector<BenchResult> bench(const std::filesystem::path& store,
                                        const RecheckOptions& options);

/// Compared with fp64, on poisoned outputs between guard zones, on two streams.
struct VerifyResult : Rechecked {
  bool passed = false;
  std::string reference; // what it was compared with
  double worstError = 0; // of what is allowed
  std::string problem;   // what is wrong
};
/// With `record` a failing verdict withdraws a measured choice.
KILN_API std::vector<VerifyResult> verifyChoices(const std::filesystem::path& store,
                                                 const RecheckOptions& options);

struct RegressResult : BenchResult {
  std::optional<cache::Time> recorded; // when it was chosen
  std::string regression;              // what became worse; empty: nothing
};
KILN_API std::vector<RegressResult> regress(const std::filesystem::path& store,
                                            const RecheckOptions& options);

/// The life of a worker process; returns its exit code. `device` as in TuneOptions; a simulated one
/// may bring a file that describes it: "simulated:slow.json".
KILN_API int serveTuning(std::string_view device);

} // namespace kiln
