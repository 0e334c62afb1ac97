// Times beside the default, who breaks while timed, and the choice; see KeySearch.h.
#include "autotune/search/KeySearch.h"

#include "codegen/backend/Fail.h"
#include "codegen/backend/Timer.h"

#include <algorithm>
#include <thread>

namespace kiln::autotune {
namespace {

constexpr int kThrottledTries = 5; // batches void one after another
constexpr int kUnexplained = 3;    // losses of a device that no candidate alone repeats

} // namespace

//===- Times --------------------------------------------------------------------------------===//

std::optional<Batch> KeySearch::time(List& list, std::size_t rounds) {
  double pause = bench.options.throttlePause;
  for (int tries = 0; tries < kThrottledTries;) {
    std::vector<const Artifact*> kernels{&base->artifact};
    for (const Ready* candidate : list)
      kernels.push_back(&candidate->artifact);
    try {
      Batch batch = charge(spent.measure, [&] { return bench.device.time(kernels, rounds); });
      conditions = batch.conditions;
      if (!conditions.throttled)
        return batch;
    } catch (const Lost& lost) {
      findCulprits(list, lost);
      continue;
    }
    ++tries;
    checkLease();
    std::this_thread::sleep_for(std::chrono::duration<double>(pause));
    pause *= 2;
  }
  return std::nullopt;
}

/// Somebody in the list, or the default, broke the device: each is run alone. If none breaks it
/// then, the process was ended from outside, or the device is ill.
void KeySearch::findCulprits(List& list, const Lost& lost) {
  auto breaks = [&](Ready& candidate) {
    const Artifact* kernel[] = {&candidate.artifact};
    try {
      bench.device.time(kernel, 1);
      return false;
    } catch (const Lost& alone) {
      noteFailure(textOf(candidate.place), candidate.artifact.sha256, alone.kind, alone.what());
      return true;
    }
  };
  std::size_t broken = std::erase_if(list, [&](Ready* candidate) { return breaks(*candidate); });
  if (breaks(*base))
    throw DefaultLost();
  if (broken == 0 && ++unexplained > kUnexplained)
    fail(ErrorKind::device, "the device was lost {} times, and by no kernel alone: {}", unexplained,
         lost.what());
}

void KeySearch::append(Ready& candidate, const std::vector<double>& samples,
                       const std::vector<double>& beside) {
  candidate.samples.insert(candidate.samples.end(), samples.begin(), samples.end());
  candidate.beside.insert(candidate.beside.end(), beside.begin(), beside.end());
  candidate.ratio = medianOf(ratios(candidate.samples, candidate.beside));
  candidate.microseconds = medianOf(candidate.samples);
  double& best = bench.progress.best;
  best = best > 0 ? std::min(best, candidate.microseconds) : candidate.microseconds;
}

bool KeySearch::series(List list, std::size_t rounds) {
  std::optional<Batch> batch = time(list, rounds);
  if (!batch) {
    reason = "the device throttles";
    return false;
  }
  append(*base, batch->samples[0], batch->samples[0]);
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i]->ratio == 0)
      ++bench.progress.measured;
    append(*list[i], batch->samples[i + 1], batch->samples[0]);
    bench.journal.measure(problem.key, measurementOf(*list[i]));
  }
  report();
  return true;
}

Measurement KeySearch::measurementOf(const Ready& candidate) const {
  Measurement measurement;
  measurement.schedule = textOf(candidate.place);
  measurement.cubin = candidate.artifact.sha256;
  setTimes(measurement, candidate.samples, candidate.beside);
  measurement.conditions = conditions;
  measurement.place = static_cast<int>(candidate.place);
  measurement.predicted = points[candidate.place].microseconds;
  return measurement;
}

//===- The choice ---------------------------------------------------------------------------===//

/// The default and these, all in the same rounds, until more samples would change nothing.
Decision KeySearch::settle(List& list) {
  for (Ready* candidate : list)
    candidate->samples.clear(), candidate->beside.clear();
  base->samples.clear();
  base->beside.clear();
  Decision decision;
  for (std::size_t look : kLooks) {
    checkLease();
    std::optional<Batch> batch = time(list, look - base->samples.size());
    if (!batch) {
      reason += "; the device throttles";
      break;
    }
    append(*base, batch->samples[0], batch->samples[0]);
    std::vector<Contender> contenders;
    auto add = [&](const Ready& one) {
      contenders.push_back(
          {textOf(one.place), one.artifact.registers, one.artifact.sharedBytes, one.samples});
    };
    add(*base);
    for (std::size_t i = 0; i < list.size(); ++i) {
      append(*list[i], batch->samples[i + 1], batch->samples[0]);
      add(*list[i]);
    }
    decision = decide(contenders);
    stopped = bench.options.isStopped && bench.options.isStopped();
    if (decision.settled || stopped)
      break;
  }
  return decision;
}

Result KeySearch::finish(List list) {
  Ready* winner = nullptr;
  Decision decision;
  while (!winner) {
    decision = settle(list);
    if (stopped)
      return result("stopped");
    if (base->samples.size() < kLooks[0])
      return result(reason);
    winner = decision.winner == 0 ? base : list[decision.winner - 1];
    // What takes the default's place, once more on other numbers.
    if (winner != base && !passes(winner->artifact, textOf(winner->place), seed + 1)) {
      std::erase(list, winner);
      winner = nullptr;
    }
  }
  for (const Ready* candidate : list)
    bench.journal.measure(problem.key, measurementOf(*candidate));
  bench.journal.measure(problem.key, measurementOf(*base));

  Measurement measured = measurementOf(*winner);
  Result found = result(reason);
  found.microseconds = measured.median;
  found.defaultMicroseconds = medianOf(base->samples);
  found.ratio = measured.ratio;
  found.ratioLow = measured.ratioLow;
  found.ratioHigh = measured.ratioHigh;
  if (!list.empty()) {
    const Ready* second = decision.runnerUp == 0 ? base : list[decision.runnerUp - 1];
    const Interval& over = decision.overRunnerUp.ratio;
    found.runnerUp = {textOf(second->place), over.middle, over.low, over.high};
  }
  Choice choice;
  choice.schedule = textOf(winner->place);
  choice.cubin = winner->artifact.sha256;
  choice.source = Source::measured;
  choice.margin = list.empty() ? 0 : 1 - decision.overRunnerUp.ratio.middle;
  choice.reason =
      winner == base
          ? fmt::format("{}; of {} tried beside it none is proven faster than the default", reason,
                        ready.size() - 1)
          : fmt::format("{}; {:.3f} [{:.3f}, {:.3f}] of the default's time, {} tried beside it",
                        reason, found.ratio, found.ratioLow, found.ratioHigh, ready.size() - 1);
  considerVendor(measured, choice, found);
  bench.journal.choose(problem.key, choice);
  found.choice = choice;
  return found;
}

/// A vendor's kernel stays unless the interval says that Kiln's is faster, on the same driver.
void KeySearch::considerVendor(const Measurement& chosen, Choice& choice, Result& found) const {
  const Measurement* vendor = nullptr;
  for (const Measurement& baseline : history.baselines)
    if (!baseline.conditions.throttled && baseline.conditions.driver == chosen.conditions.driver &&
        (!vendor || baseline.median < vendor->median))
      vendor = &baseline;
  if (!vendor)
    return;
  const std::string numbers = fmt::format(
      "{:.2f} [{:.2f}, {:.2f}] us against {:.2f} [{:.2f}, {:.2f}] us of {}", chosen.median,
      chosen.low, chosen.high, vendor->median, vendor->low, vendor->high, vendor->schedule);
  if (chosen.high < vendor->low) {
    choice.reason += "; " + numbers;
    return;
  }
  choice.reason = fmt::format("not proven faster than the vendor: {}; {}", numbers, choice.reason);
  choice.schedule.clear();
  choice.cubin.clear();
  choice.source = Source::vendor;
  choice.margin = chosen.median / vendor->median - 1;
  found.microseconds = vendor->median;
}

Result KeySearch::result(std::string why) const {
  Result found;
  found.label = problem.label;
  found.key = problem.key;
  found.reason = std::move(why);
  found.roofline = problem.roofline;
  found.feasible = pointsOf(problem.spaces);
  found.standard = base ? textOf(base->place) : "";
  for (const auto& [place, candidate] : ready)
    found.measured += candidate->ratio > 0;
  found.spent = spent;
  found.spent.whole = secondsUsed();
  return found;
}

void KeySearch::report() {
  if (bench.options.progress)
    bench.options.progress(bench.progress);
}

} // namespace kiln::autotune
