// What the tuner learns and the store keeps, as plain records: which workload on which device
// under which toolchain, and what became of each of its candidates. Rejected: never run.
// Failed: ran and broke. Everything else has a verdict before it has a measurement.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kiln::autotune {

/// `cold`: inputs and outputs come from memory, not from the L2. `warm`: chained through the L2.
enum class Regime : std::uint8_t { cold, warm };

/// Everything that a choice depends on, and nothing else: equal keys mean equal choices. Driver,
/// clocks and host are recorded with each measurement, but are not part of it.
struct Key {
  std::string function; // SHA-256 of the canonical text of the function, hexadecimal
  std::string tensors;  // "bf16[65536x128]/16 f32[128]/16 -> bf16[65536x128]/16": /alignment
  Regime regime = Regime::cold;
  std::string arch;    // sm_90a
  std::string device;  // class of device, not one device: "H200, 132 SMs"
  std::string nvrtc;   // 13.0
  std::string flags;   // of the compiler
  std::string emitter; // SHA-256 of what emits: Kiln's version and sources
  std::string space;   // SHA-256 of knobs and constraints

  friend bool operator==(const Key&, const Key&) = default;
};

/// Names and values of a key's fields, in the order in which a miss compares them.
std::vector<std::pair<std::string_view, std::string>> fields(const Key& key);
/// SHA-256 over all fields, hexadecimal; its first 12 digits name the key to people.
std::string digest(const Key& key);
/// Whether it has sizes that are known at run time only; those of lists do not count.
bool hasOpenSizes(const Key& key);

struct Rejection {
  std::string schedule;
  std::string gate;       // "constraints", "compile" or "resources"
  std::string constraint; // which one
  double asked = 0, allowed = 0;
};

/// Schedules of a kernel that break a rule of its family.
struct Refusal {
  std::string kernel, rule;
  std::int64_t schedules = 0; // how many
  std::string worst;          // of one of them, with the numbers
};

enum class FailureKind : std::uint8_t {
  crash,
  hang,
  illegalAccess,
  misaligned,
  wrongResult,
  nan,
  wroteOutside,
  race,
  wrongTail,
  outOfMemory,
  spill,
  launch
};

struct Failure {
  std::string schedule;
  std::string cubin; // SHA-256
  std::string driver;
  FailureKind kind = FailureKind::crash;
  std::string log; // its end
};

struct Artifact {
  std::string sha256; // of `cubin`
  std::vector<std::byte> cubin;
  std::string plan;    // launch plan, text: how to launch it
  std::string general; // the same for any sizes; empty: not known, and never kept
  int registers = 0;
  std::int64_t sharedBytes = 0, stackBytes = 0, spillBytes = 0;
};

struct Verdict {
  std::string schedule;
  std::string cubin; // SHA-256
  bool pass = false;
  std::string reference; // "fp64 host" ...
  double worstError = 0; // largest, in units of the tolerance: above 1 fails
  bool deterministic = false;
  std::uint64_t seed = 0;
};

/// State of the device around a measurement.
struct Conditions {
  std::string uuid, driver, host;
  int smClockMHz = 0, memoryClockMHz = 0, temperatureC = 0;
  bool throttled = false; // such samples are void
  int foreignProcesses = 0;
};

struct Measurement {
  std::string schedule; // or the provider of a baseline
  std::string cubin;
  double median = 0, low = 0, high = 0; // microseconds; the 95 % interval
  int samples = 0;
  double ratio = 1, ratioLow = 1, ratioHigh = 1; // to the default, from paired samples
  Conditions conditions;
  /// What the cost model said of it: its place among the feasible, 0 is the cheapest, and its time.
  /// Negative: nothing.
  int place = -1;
  double predicted = 0;
  std::int64_t at = 0; // microseconds since 1970; the journal's to say
};

enum class Source : std::uint8_t { measured, transferred, model, pinned, vendor };

struct Choice {
  std::string schedule; // empty when the vendor's kernel is chosen
  std::string cubin;
  Source source = Source::model;
  std::string reason;  // why the search stopped here, and over what
  double margin = 0;   // measured gain over the runner-up, as a share: 0.03
  std::int64_t at = 0; // microseconds since 1970; the journal's to say
};

/// How a search went, written when it ends, also without a choice.
struct Search {
  std::size_t feasible = 0, tried = 0;
  std::string standard;                          // the default's schedule; empty: none worked
  std::string runnerUp;                          // the fastest beside the choice; empty: none
  double ratio = 1, ratioLow = 1, ratioHigh = 1; // of the choice's time to the runner-up's
  double roofline = 0, bytes = 0;                // microseconds; 0: not known
  double seconds = 0;
  std::string reason; // why it ended
};

} // namespace kiln::autotune
