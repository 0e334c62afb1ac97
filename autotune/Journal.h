// Where a search writes what it learns, one committed row at a time, and reads what earlier runs
// and other tuners learned. The store is the one that lasts. Every function may throw
// kiln::Error(io); every row is either whole or absent, whatever happens to the process.
#pragma once

#include "autotune/Records.h"

namespace kiln::autotune {

/// All that is known about a key.
struct History {
  std::vector<Refusal> refusals;
  std::vector<Rejection> rejections;
  std::vector<Failure> failures;
  std::vector<Verdict> verdicts;
  std::vector<Measurement> measurements;
  std::vector<Measurement> baselines; // of vendors; `schedule` is the provider
  std::vector<Measurement> copies;    // of as many bytes
  std::vector<Search> searches;       // oldest first
  std::optional<Choice> choice;
};

class Journal {
 public:
  virtual ~Journal() = default;

  virtual void reject(const Key& key, const Rejection& rejection) = 0;
  virtual void fail(const Key& key, const Failure& failure) = 0;
  /// Of the schedules that were never compiled, how many broke a rule.
  virtual void refuse(const Key& key, const Refusal& refusal) = 0;
  /// With the plan of this schedule: equal cubins may be launched differently.
  virtual void keep(const Key& key, std::string_view schedule, const Artifact& artifact) = 0;
  virtual void judge(const Key& key, const Verdict& verdict) = 0;
  virtual void measure(const Key& key, const Measurement& measurement) = 0;
  virtual void baseline(const Key& key, const Measurement& measurement) = 0;
  /// Refused (kiln::Error, verification) when a measured choice has no passing verdict.
  virtual void choose(const Key& key, const Choice& choice) = 0;

  virtual void searched(const Key& key, const Search& search) = 0;

  virtual History history(const Key& key) const = 0;
  virtual std::optional<Artifact> artifact(const Key& key, std::string_view schedule,
                                           std::string_view sha256) const = 0;

  /// Schedules chosen by measurement for the same function at other sizes on such a device: those
  /// of the nearest sizes first.
  virtual std::vector<std::string> near(const Key&) const { return {}; }

  /// At most one tuner holds a key; a lease that is not renewed for `seconds`, or whose owner is
  /// known to have ended, falls to whoever asks next. `owner` names a process: see Process.h.
  virtual bool lease(const Key& key, std::string_view owner, int seconds) = 0;
  virtual bool renew(const Key& key, std::string_view owner, int seconds) = 0;
  virtual void release(const Key& key, std::string_view owner) = 0;
};

/// The code that was verified with a schedule, perhaps only what passed; none: it is not kept.
std::optional<Artifact> verifiedArtifact(const Journal& journal, const Key& key,
                                         const History& history, std::string_view schedule,
                                         bool onlyPassed);

} // namespace kiln::autotune
