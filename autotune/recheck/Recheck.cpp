// See Recheck.h.
#include "autotune/recheck/Recheck.h"

#include "codegen/backend/Fail.h"

#include <chrono>
#include <thread>

namespace kiln::autotune {
namespace {

constexpr int kThrottledTries = 5; // batches void one after another

Measurement measurementOf(const Artifact* kernel, const std::string& schedule,
                          const std::vector<double>& samples, const std::vector<double>& beside,
                          const Conditions& conditions) {
  Measurement measurement;
  measurement.schedule = schedule;
  measurement.cubin = kernel ? kernel->sha256 : "";
  setTimes(measurement, samples, beside);
  measurement.conditions = conditions;
  return measurement;
}

} // namespace

const Search* Subject::search() const {
  return history.searches.empty() ? nullptr : &history.searches.back();
}

const Measurement* Subject::record() const {
  const Measurement* found = nullptr;
  for (const Measurement& measurement : history.measurements)
    if (!choice().cubin.empty() && measurement.cubin == choice().cubin &&
        measurement.at <= choice().at)
      found = &measurement;
  return found;
}

Subject subjectOf(const Store& store, const KnownKey& known) {
  Subject subject{known, "", store.history(known.key), {}};
  if (std::optional<Task> task = store.task(known.key))
    subject.task = std::move(*task);
  else
    subject.trouble = "the store does not hold how it is run; tune it again";
  if (!subject.history.choice)
    subject.trouble = "nothing is chosen";
  else if (subject.choice().source == Source::vendor)
    subject.trouble = "the vendor's kernel is chosen, which only its library can run";
  else if (hasOpenSizes(known.key))
    subject.trouble = "its sizes are open; tune it with values for them (--sizes)";
  return subject;
}

/// The stored cubin, one that passed with this schedule, or a new one.
Artifact Recheck::obtain(const Subject& subject, const std::string& schedule,
                         const std::string& cubin) {
  const Key& key = subject.known.key;
  if (!cubin.empty())
    if (auto artifact = store.artifact(key, schedule, cubin))
      return std::move(*artifact);
  if (auto artifact = verifiedArtifact(store, key, subject.history, schedule, /*onlyPassed=*/true))
    return std::move(*artifact);
  double expected = 0;
  for (const Measurement& measurement : subject.history.measurements)
    if (measurement.schedule == schedule)
      expected = measurement.predicted;
  Compiled compiled = device.compile({schedule, expected});
  if (auto* artifact = std::get_if<Artifact>(&compiled))
    return std::move(*artifact);
  const auto* failure = std::get_if<Failure>(&compiled);
  fail(ErrorKind::infeasible, "{} does not compile any more: {}", schedule,
       failure ? failure->log : std::get<Rejection>(compiled).constraint);
}

std::optional<Batch> Recheck::batchOf(std::span<const Artifact* const> kernels) {
  double pause = throttlePause;
  for (int tries = 0; tries < kThrottledTries; ++tries, pause *= 2) {
    Batch batch = device.time(kernels, rounds);
    if (!batch.conditions.throttled)
      return batch;
    std::this_thread::sleep_for(std::chrono::duration<double>(pause));
  }
  return std::nullopt;
}

Retimed Recheck::time(const Subject& subject) {
  Retimed result{subject.trouble, {}, {}, {}, {}};
  if (!result.trouble.empty())
    return result;
  try {
    device.begin(subject.task);
    const Choice& choice = subject.choice();
    const Artifact chosen = obtain(subject, choice.schedule, choice.cubin);
    // Of a key that no search knows the choice is the default, by the cost model.
    const Search* search = subject.search();
    const std::string usual =
        search && !search->standard.empty() ? search->standard : choice.schedule;
    const Artifact standard = usual == choice.schedule ? chosen : obtain(subject, usual, "");
    std::vector<const Artifact*> kernels{&chosen, nullptr};
    if (standard.sha256 != chosen.sha256)
      kernels.push_back(&standard);
    std::optional<Batch> batch = batchOf(kernels);
    if (!batch) {
      result.trouble = "the device throttles; let it cool down, or raise its power limit";
      return result;
    }
    const std::vector<double>& own = batch->samples[0];
    const std::vector<double>& beside = kernels.size() > 2 ? batch->samples[2] : own;
    const Conditions& conditions = batch->conditions;
    result.chosen = measurementOf(&chosen, choice.schedule, own, beside, conditions);
    result.copy = measurementOf(nullptr, "copy", batch->samples[1], beside, conditions);
    result.standard = measurementOf(&standard, usual, beside, beside, conditions);
    result.toDefault = compare(own, beside);
  } catch (const Error& error) { // also what a kernel has broken
    if (error.kind() == ErrorKind::corrupt || error.kind() == ErrorKind::unavailable)
      throw;
    result.trouble = error.what();
  }
  return result;
}

Check Recheck::verify(const Subject& subject, std::uint64_t seed) {
  device.begin(subject.task);
  const Choice& choice = subject.choice();
  const Artifact chosen = obtain(subject, choice.schedule, choice.cubin);
  Check check;
  try {
    check = device.verify(chosen, seed);
  } catch (const Lost& lost) {
    check.kind = lost.kind;
    check.log = lost.what();
    check.verdict.reference = "none, it did not end";
    check.verdict.seed = seed;
  }
  check.verdict.schedule = choice.schedule;
  check.verdict.cubin = chosen.sha256;
  return check;
}

Change changeOf(const Subject& subject, const Retimed& now, double tolerance) {
  const Measurement* record = subject.record();
  if (record && now.chosen.low > record->high * (1 + tolerance))
    return Change::slower;
  if (now.toDefault.outcome == Outcome::slower)
    return Change::defaultIsFaster;
  return record || now.standard.schedule != now.chosen.schedule ? Change::none : Change::unknown;
}

} // namespace kiln::autotune
