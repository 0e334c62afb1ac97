// What a store has chosen, run again from the store alone: its cubin, the default's and a copy take
// turns, or the cubin is verified once more. Nothing is written; what a kernel breaks is told in
// the answers, and the device behind a worker is a new one after it.
#pragma once

#include "autotune/measure/Device.h"
#include "autotune/search/Statistics.h"
#include "autotune/store/Store.h"

namespace kiln::autotune {

/// A key with all that the store knows of it.
struct Subject {
  KnownKey known;
  std::string trouble; // why it cannot be run again; empty: it can
  History history;
  Task task;

  const Choice& choice() const { return *history.choice; }
  /// The last search; null: none is known.
  const Search* search() const;
  /// Of the choice, as it was when it was chosen, not as later runs have timed it; null: never.
  const Measurement* record() const;
};
Subject subjectOf(const Store& store, const KnownKey& known);

/// Times taken in the same rounds. Ratios are to the default's.
struct Retimed {
  std::string trouble; // why there are none; empty: there are
  Measurement chosen, standard, copy;
  Comparison toDefault; // of the choice
};

class Recheck {
 public:
  /// `throttlePause`: seconds to wait for a device that throttles; doubled each time.
  Recheck(const Store& store, Device& device, std::size_t rounds = 64, double throttlePause = 0.5)
      : store(store), device(device), rounds(rounds), throttlePause(throttlePause) {}

  Retimed time(const Subject& subject);
  /// A device that is lost is a failed check.
  Check verify(const Subject& subject, std::uint64_t seed);

 private:
  Artifact obtain(const Subject& subject, const std::string& schedule, const std::string& cubin);
  std::optional<Batch> batchOf(std::span<const Artifact* const> kernels);

  const Store& store;
  Device& device;
  std::size_t rounds;
  double throttlePause;
};

/// What has become of a choice.
enum class Change : std::uint8_t { none, slower, defaultIsFaster, unknown };

/// `slower`: than its record by more than the intervals and this share allow. `unknown`: there is
/// neither a record nor a default to compare with.
Change changeOf(const Subject& subject, const Retimed& now, double tolerance);

} // namespace kiln::autotune
