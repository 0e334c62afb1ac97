// Stores of tuned kernels: files that hold what was chosen for which function on which GPU, the
// cubins, and everything that was learned on the way. Several processes may use one at once.
// Errors: `io` for what cannot be opened or written, `input` for a file that is no store or that a
// newer Kiln wrote, `corrupt` for a damaged one, `missing` for what is not in it.
#pragma once

#include "kiln/doctor.h"
#include "kiln/plan.h"

#include <functional>
#include <optional>
#include <utility>

namespace kiln {

/// What is looked up, compiled or tuned: a function and values of its run-time sizes, in the order
/// of their symbols (one value stands for all; without any they stay open).
struct TuningTask {
  Module module;
  CompileOptions options; // `schedule`, `saveTemps` and `until` do not count
  std::vector<std::int64_t> sizes;
  std::string label; // for people: "layer_norm 65536x128 bf16"
};

struct TunerLayers; // kiln/tuner.h

namespace cache {

struct Time {
  std::string schedule; // or the provider
  double microseconds = 0, low = 0, high = 0;
  double ratio = 1, ratioLow = 1, ratioHigh = 1; // to the default schedule's
  std::string device, driver, host;
};

/// What another library takes for a task: samples of one call each, cold, taken just now.
struct Baseline {
  std::string provider; // with its version: "aten 2.11.0 native_layer_norm"
  std::vector<double> microseconds;
};

/// A choice as it is stored.
struct Entry {
  std::string key; // 64 digits; the first 12 name it to people
  std::string label, arch, device, tensors, nvrtc;
  std::string source; // measured, transferred, model, pinned or vendor
  std::string schedule, cubin, reason;
  std::int64_t cubinBytes = 0;
  double margin = 0;
  std::optional<Time> time; // measured of the chosen cubin, last
};

/// Everything about one key.
struct Details {
  Entry entry;
  bool chosen = false;
  std::vector<std::pair<std::string, std::string>> fields;
  std::vector<Time> times, baselines;
  std::vector<std::string> verdicts, failures;
  std::vector<std::pair<std::string, std::int64_t>> rejections; // by rule, most frequent first
};

/// Why a key has the choice that it has, or why it has none.
struct Explanation {
  std::string key, label;
  std::vector<std::pair<std::string, std::string>> fields;
  std::string layer; // pinned, project, user or system; empty: no choice, and `miss` says why
  std::string miss;
  Entry choice;
  std::string when;                     // it was chosen: "2026-11-21 09:30:00 UTC"
  double roofline = 0;                  // microseconds; 0: not known
  std::string rooflineLimit;            // as of a Prediction; empty: not known
  std::optional<Time> standard;         // the default schedule's
  std::optional<Time> runnerUp;         // its ratios are of the choice's time to it
  std::optional<Time> copy;             // of as many bytes
  std::optional<Time> vendor;           // the best of its kernels
  std::string whyNotVendor;             // empty: its kernel is chosen
  std::string ended;                    // why the search did; empty: nobody searched
  double seconds = 0;                   // that it took
  std::int64_t feasible = 0, tried = 0; // schedules
  std::int64_t place = -1; // of the choice by the cost model, 0 is the cheapest; -1: not known
  /// By kernel: the chosen schedule with the cost model's terms; of a miss what the model would
  /// take.
  std::vector<std::pair<std::string, Candidate>> model;
  /// By rule, and what became of candidates that fit; most frequent first.
  std::vector<Rejection> rejections;
  std::vector<std::string> failures;
};

/// A key on which two stores disagree; what a store lacks is empty.
struct Difference {
  std::optional<Entry> first, second, kept;
};

/// Architectures and operations (first words of labels); empty: all.
struct Filter {
  std::vector<std::string> archs, ops;
};

/// A choice after a change of Kiln's or NVRTC's version.
struct Refreshed {
  /// `current`: this Kiln uses it, or has a choice of its own. `carried`: its code is still the
  /// same, so that what was measured holds. `stale`: it is not; only tuning can tell what is best
  /// now.
  enum class State { current, carried, stale };
  std::string key; // as it was
  std::string label;
  State state = State::stale;
};

struct Collected {
  std::int64_t cubins = 0, keys = 0, bytesBefore = 0, bytesAfter = 0;
};

/// Keeps a baseline of a task, which is not run, in a store that is made if it is not there: their
/// median with its interval, and the device's state now. Tuning compares its choice with it, and so
/// does the next tuning of a task that was tuned before. `device` as in TuneOptions. Throws
/// Error(device) for a device that throttles: such times are void.
KILN_API Time recordBaseline(const std::filesystem::path& store, const TuningTask& task,
                             const Baseline& baseline, std::string_view device = "gpu");
KILN_API std::vector<Entry> list(const std::filesystem::path& store, const Filter& filter = {});
/// `key`: the first digits of its name, enough to be the only one.
KILN_API Details show(const std::filesystem::path& store, std::string_view key);
/// A document of all choices: times beside the default's, the vendor's and a copy's, shares of the
/// roofline, how well the cost model did. `format`: markdown, csv, json or html, which is one page
/// that needs no other file.
KILN_API std::string report(const std::filesystem::path& store, std::string_view format,
                            const Filter& filter = {});
/// `key`: the first digits of a name, enough to be the only one in all layers. Throws
/// Error(missing). What cannot be opened is said in `warnings`.
KILN_API Explanation explain(const TunerLayers& layers, std::string_view key,
                             std::vector<std::string>* warnings = nullptr);
/// Of a task; that it is a miss is told in the answer. `device` as in TuneOptions.
KILN_API Explanation explain(const TunerLayers& layers, const TuningTask& task,
                             std::string_view device = "gpu",
                             std::vector<std::string>* warnings = nullptr);
KILN_API std::string toText(const Explanation& explanation);
/// Of choices: in one store only, or not the same.
KILN_API std::vector<Difference> diff(const std::filesystem::path& first,
                                      const std::filesystem::path& second);
/// A new store of several, the same in whatever order; the keys on which they disagreed.
KILN_API std::vector<Difference> merge(std::span<const std::filesystem::path> stores,
                                       const std::filesystem::path& result);
/// Takes all of `file` into a store, which is made if it is not there.
KILN_API std::vector<Difference> import(const std::filesystem::path& file,
                                        const std::filesystem::path& store);
/// Choices with what they need to run and to be believed, as one file without journals. It may take
/// the place of another store, of no other file.
KILN_API std::int64_t exportTo(const std::filesystem::path& store,
                               const std::filesystem::path& file, const Filter& filter = {});
/// Fixes a choice against tuning; `schedule`: another candidate of the key that passed.
KILN_API Entry pin(const std::filesystem::path& store, std::string_view key,
                   std::string_view schedule = "");
KILN_API void unpin(const std::filesystem::path& store, std::string_view key);
/// Drops cubins that no choice needs; `stale`: also all that other versions of Kiln made.
KILN_API Collected collect(const std::filesystem::path& store, bool stale = false);
/// Compiles choices of other versions of Kiln or NVRTC again and takes those over, with all that
/// was measured, whose cubins come out the same bit by bit. Old rows stay until `collect(stale)`.
/// `nvrtc`: as in CompileOptions; `progress`: choices done, and all. Throws Error(unavailable)
/// without NVRTC.
KILN_API std::vector<Refreshed>
refresh(const std::filesystem::path& store, const std::filesystem::path& nvrtc = {},
        const std::function<void(std::size_t, std::size_t)>& progress = {});
/// Who but this user and root may write a store or put another in its place, as a sentence; empty:
/// nobody.
KILN_API std::string whoElseMayWrite(const std::filesystem::path& store);
/// Every row and cubin, and where the file lies. Does not throw for what is wrong with it.
KILN_API std::vector<Finding> doctor(const std::filesystem::path& store);

} // namespace cache

/// A store that is compiled into: what it holds is not compiled again. Empty, as any call but an
/// assignment will say, until it is assigned what open() gives.
class KILN_API Cache {
 public:
  /// A damaged file is set aside, an unwritable one replaced by memory; `warnings` says so.
  /// `readOnly`: the file is left as it is, and nothing is compiled: compile() is strict.
  static Cache open(const std::filesystem::path& store, bool readOnly = false);

  struct Result {
    Program program;
    bool compiled = false;
  };
  /// The stored choice, or the cost model's, compiled and stored. `strict`: what is not stored is
  /// an Error(missing) that names the first field that differs. Any thread may call.
  Result compile(const TuningTask& task, bool strict = false) const;
  /// The cost model's choice, compiled here and now and stored, whatever the store has chosen.
  /// Throws Error(input) if the store is read only.
  Program compileByModel(const TuningTask& task) const;
  std::vector<std::string> warnings() const;

 private:
  struct State;
  State& state() const;
  std::shared_ptr<State> state_;
};

} // namespace kiln
