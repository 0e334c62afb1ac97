// The search: for each key the schedule that is fastest beyond doubt, proven right before its time
// counts. All that is learned goes into the journal row by row, so that a search that was stopped
// or killed goes on where it was, and several may share a list of keys.
#pragma once

#include "autotune/Journal.h"
#include "autotune/KernelSpace.h"
#include "autotune/measure/Device.h"
#include "kiln/tune.h"

#include <chrono>

namespace kiln::autotune {

/// none: the cost model's choice, nothing is run. quick: the model's best few. full: more of them,
/// and moves from the best. exhaustive: everything; so do quick and full where the space is small.
enum class Effort : std::uint8_t { none, quick, full, exhaustive };
Effort parseEffort(std::string_view name); // throws Error(input)

struct Problem {
  Key key;
  std::string label; // for people
  Task task;
  std::string refused; // why it cannot be searched; empty: it can
  /// What fits each kernel, cheapest first. The cheapest of all that compile is the default.
  std::vector<KernelSpace> spaces;
  double roofline = 0;             // microseconds; 0: not known
  double bytes = 0;                // that are moved at least
  double calls = 1;                // how often, against the other problems
  std::vector<Refusal> refusals;   // of schedules that do not fit
  std::vector<std::string> near;   // schedules chosen at near shapes: tried first
  std::vector<std::string> lately; // and at whatever was tuned before
};

using Progress = TuneProgress; // of keys

struct SearchOptions {
  Effort effort = Effort::full;
  double secondsPerKey = 0;    // 0: 20 for quick, 180 for full, without limit for exhaustive
  double seconds = 0;          // for all; 0: without limit
  double rooflineShare = 0.95; // reached: good enough
  double modelDeviations = 4;  // what the model finds so much slower than the best is left alone
  unsigned compilers = 0;      // threads; 0: one a core
  bool again = false;          // also keys that have a measured choice
  bool retryFailed = false;    // also what failed on this driver
  std::string owner;           // of leases; empty: this process (Process.h)
  int leaseSeconds = 120;
  double throttlePause = 0.5; // seconds to wait for a device that throttles; doubled each time
  std::function<void(const Progress&)> progress;
  std::function<bool()> isStopped; // asked between steps
};

/// Where the time of a key went, in seconds; what is left of the whole is the search's own.
struct Spent {
  double compile = 0; // waiting for compilers
  double verify = 0, measure = 0, whole = 0;
};

struct Result {
  std::string label;
  Key key;
  std::optional<Choice> choice; // none: `reason` says why
  std::string reason;           // why the search ended
  bool known = false;           // the choice was there before
  double microseconds = 0;      // of the choice
  double defaultMicroseconds = 0;
  double ratio = 1, ratioLow = 1, ratioHigh = 1; // of the choice to the default, 95 %
  double roofline = 0;
  std::size_t feasible = 0, measured = 0;
  Spent spent;
  std::string standard; // the default's schedule; empty: none worked
  struct RunnerUp {
    std::string schedule;                // empty: there was none
    double ratio = 1, low = 1, high = 1; // of the choice's time to its
  } runnerUp;
};

/// Results in the order of the problems. Throws what the journal throws, and Error(unavailable) or
/// Error(device) where no device is left to work with; what was learned is in the journal then.
std::vector<Result> tune(std::span<const Problem> problems, Journal& journal,
                         const DeviceFactory& makeDevice, const DeviceFactory& makeCompiler,
                         const SearchOptions& options = {});

} // namespace kiln::autotune
