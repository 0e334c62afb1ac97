// Which candidates are tried, and what makes them ready to be timed; see KeySearch.h.
#include "autotune/search/KeySearch.h"

#include "autotune/search/Moves.h"
#include "codegen/backend/Fail.h"

#include <algorithm>
#include <cmath>

namespace kiln::autotune {
namespace {

constexpr std::size_t kSmallSpace = 256; // searched whole
constexpr std::size_t kTogether = 15;    // timed in one batch, beside the default
constexpr std::size_t kFinalists = 8;
constexpr std::size_t kMostFailed = 64;  // before any passes
constexpr double kTrusted = 32;          // measurements that tell how far off the model is
constexpr double kLeastDeviation = 0.02; // of the model, as a share
constexpr int kMoveRounds = 4;
constexpr std::size_t kMoveFrom = 4, kMovesEach = 30, kMoves = 24;
constexpr double kWorthwhile = 0.998; // of the best before: another round of moves

/// What runs: the code, and how it is launched whatever the schedule is called.
std::string launchOf(const Artifact& artifact) {
  constexpr std::string_view begin = "#kiln.schedule<";
  std::string launch = artifact.sha256;
  for (std::string_view rest = artifact.plan; !rest.empty();) {
    const std::size_t at = std::min(rest.find(begin), rest.size());
    launch += rest.substr(0, at);
    const std::size_t end = rest.find('>', at);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  return launch;
}

} // namespace

KeySearch::KeySearch(const Problem& given, Bench& with, double seconds, std::function<void()> check)
    : problem(given), bench(with), budget(seconds), checkLease(std::move(check)),
      seed(std::stoull(digest(given.key).substr(0, 12), nullptr, 16)), points(given.spaces),
      history(with.journal.history(given.key)) {
  bench.device.begin(problem.task);
  bench.compilers.begin(problem.task);
  bench.progress.label = problem.label;
  bench.progress.roofline = problem.roofline;
  bench.progress.best = 0;
}

Result KeySearch::run() {
  while (true)
    try {
      recall();
      return attempt();
    } catch (const DefaultLost&) { // it is in the journal: the next best becomes the default
      ready.clear();
      base = nullptr;
      history = bench.journal.history(problem.key);
    }
}

/// What earlier runs learned: what to leave alone.
void KeySearch::recall() {
  for (const Rejection& rejection : history.rejections)
    dead.insert(rejection.schedule);
  for (const Failure& failure : history.failures)
    if (failure.driver == bench.driver && !bench.options.retryFailed) {
      dead.insert(failure.schedule);
      if (failure.kind == FailureKind::spill)
        spills.learn(failure.schedule, failure.log);
    }
}

Result KeySearch::attempt() {
  for (std::size_t place : seeds()) // compiled while the device works on the first
    want(place);
  if (!findDefault())
    return result(reason.empty() ? "none of the schedules compiles and passes" : reason);
  explore();
  if (stopped)
    return result(reason);
  return finish(best(bench.options.effort == Effort::quick ? kFinalists / 2 : kFinalists));
}

//===- Candidates ---------------------------------------------------------------------------===//

void KeySearch::want(std::size_t place) {
  if (isFresh(place))
    bench.compilers.want({textOf(place), points[place].microseconds});
}

bool KeySearch::isFresh(std::size_t place) const {
  return !ready.contains(place) && !isDead(textOf(place));
}

/// The cheapest that works. Where some have spilled, what is likely to comes last: the model may
/// like large tiles too well, and they would be all that is tried.
bool KeySearch::findDefault() {
  const std::size_t failed = bench.progress.failed;
  for (const bool alsoLikelyToSpill : {false, true})
    if (!base && reason.empty())
      tryForDefault(failed, alsoLikelyToSpill);
  return base != nullptr;
}

/// `failed`: schedules that had failed before.
void KeySearch::tryForDefault(std::size_t failed, bool alsoLikelyToSpill) {
  const Target& target = findTarget(problem.key.arch);
  for (std::size_t place = 0; place < points.size() && !base; ++place) {
    if (isOver())
      return;
    if (!alsoLikelyToSpill && points.isLikelyToSpill(place, spills, target))
      continue;
    base = prepare(place);
    // A kernel that spills does so beside whatever the others are: it takes its next schedule.
    for (std::size_t tried = place; !base && !isOver();) {
      const std::optional<std::size_t> next = points.without(tried, spills);
      if (!next || *next == tried)
        break;
      tried = *next;
      base = prepare(tried);
    }
    // So many cannot all be wrong: something is with the function, or with what checks it.
    if (!base && bench.progress.failed - failed >= kMostFailed) {
      reason = fmt::format("the {} schedules that the model likes best fail", kMostFailed);
      return;
    }
  }
}

/// Compiled and verified; null: it broke, now or before.
KeySearch::Ready* KeySearch::prepare(std::size_t place) {
  if (auto found = ready.find(place); found != ready.end())
    return found->second.get();
  const std::string& schedule = textOf(place);
  if (isDead(schedule))
    return nullptr;
  std::optional<Artifact> artifact = obtain(place);
  if (!artifact)
    return nullptr;
  bool passed = std::ranges::any_of(history.verdicts, [&](const Verdict& verdict) {
    return verdict.pass && verdict.schedule == schedule && verdict.cubin == artifact->sha256;
  });
  if (!passed && !passes(*artifact, schedule, seed))
    return nullptr;
  auto& entry = ready[place];
  entry = std::make_unique<Ready>();
  entry->place = place;
  entry->artifact = std::move(*artifact);
  return entry.get();
}

/// From the journal, or compiled.
std::optional<Artifact> KeySearch::obtain(std::size_t place) {
  const std::string& schedule = textOf(place);
  if (auto artifact = verifiedArtifact(bench.journal, problem.key, history, schedule,
                                       /*onlyPassed=*/false)) { // who asks looks at the verdict
    launches.emplace(launchOf(*artifact), schedule);
    return artifact;
  }
  Compiled compiled = charge(
      spent.compile, [&] { return bench.compilers.take({schedule, points[place].microseconds}); });
  if (auto* failure = std::get_if<Failure>(&compiled)) {
    noteFailure(schedule, failure->cubin, failure->kind, failure->log);
    if (failure->kind == FailureKind::spill)
      spills.learn(schedule, failure->log);
    return std::nullopt;
  }
  if (auto* artifact = std::get_if<Artifact>(&compiled)) {
    auto [same, isNew] = launches.emplace(launchOf(*artifact), schedule);
    if (isNew) {
      ++bench.progress.compiled;
      bench.journal.keep(problem.key, schedule, *artifact);
      return std::move(*artifact);
    }
    compiled =
        Rejection{schedule, "resources", "the same code, launched alike, as " + same->second};
  }
  ++bench.progress.rejected;
  dead.insert(schedule);
  bench.journal.reject(problem.key, std::get<Rejection>(compiled));
  return std::nullopt;
}

/// A process may also be ended from outside: a crash must repeat before a kernel is blamed.
Check KeySearch::verify(const Artifact& artifact, std::uint64_t verifySeed) {
  auto once = [&] {
    return charge(spent.verify, [&] { return bench.device.verify(artifact, verifySeed); });
  };
  try {
    return once();
  } catch (const Lost& lost) {
    if (lost.kind != FailureKind::crash)
      throw;
  }
  return once();
}

bool KeySearch::passes(const Artifact& artifact, const std::string& schedule,
                       std::uint64_t verifySeed) {
  try {
    Check check = verify(artifact, verifySeed);
    check.verdict.schedule = schedule;
    bench.journal.judge(problem.key, check.verdict);
    if (check.verdict.pass)
      return true;
    noteFailure(schedule, artifact.sha256, check.kind.value_or(FailureKind::wrongResult),
                check.log);
  } catch (const Lost& lost) {
    noteFailure(schedule, artifact.sha256, lost.kind, lost.what());
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::input && error.kind() != ErrorKind::infeasible)
      throw;
    noteFailure(schedule, artifact.sha256, FailureKind::launch, error.what());
  }
  return false;
}

void KeySearch::noteFailure(const std::string& schedule, const std::string& cubin, FailureKind kind,
                            const std::string& log) {
  ++bench.progress.failed;
  dead.insert(schedule);
  bench.journal.fail(problem.key, {schedule, cubin, bench.driver, kind, log});
  report();
}

//===- Which to try -------------------------------------------------------------------------===//

void KeySearch::explore() {
  const bool all = points.size() <= kSmallSpace || bench.options.effort == Effort::exhaustive;
  std::vector<std::size_t> first = seeds();
  for (std::size_t place = 0; all && place < points.size(); ++place)
    if (std::ranges::find(first, place) == first.end())
      first.push_back(place);
  if (!screen(first))
    return;
  reason = all ? "all tried" : "the model's best tried";
  if (all && points.kernels() == 1)
    return halve();
  // Kernels were changed one by one: also in a hurry, what they gain is put together.
  const int rounds = bench.options.effort != Effort::quick ? kMoveRounds : points.kernels() > 1;
  for (int round = 0; round < rounds; ++round) {
    const List before = best(1);
    const double ratio = before.empty() ? 1 : before[0]->ratio;
    std::vector<std::size_t> next = moves();
    reason = "no move improves on the best";
    if (next.empty() || !screen(next) || best(1).empty() || best(1)[0]->ratio > ratio * kWorthwhile)
      return;
  }
  if (rounds > 0)
    reason = fmt::format("{} rounds of moves", rounds);
}

/// The model's best, and what was best at near shapes; where that is known, fewer of the model's.
std::vector<std::size_t> KeySearch::seeds() {
  std::size_t count = bench.options.effort == Effort::quick ? 12 : 32;
  std::vector<std::size_t> places;
  for (const auto* schedules : {&problem.near, &problem.lately})
    for (const std::string& schedule : *schedules)
      if (std::optional<std::size_t> place = points.find(schedule);
          place && std::ranges::find(places, *place) == places.end())
        places.push_back(*place);
  const bool known = std::ranges::any_of(
      problem.near, [&](const std::string& schedule) { return points.find(schedule).has_value(); });
  for (std::size_t place = 0; place < std::min(known ? count / 2 : count, points.size()); ++place)
    if (std::ranges::find(places, place) == places.end())
      places.push_back(place);
  return places;
}

/// Steps from the best, and of several kernels what two of the best have changed, together. Of the
/// model only what it says of a step is used: where it was wrong about a schedule, it is likely to
/// be as wrong about those near it.
std::vector<std::size_t> KeySearch::moves() {
  std::vector<std::size_t> places;
  auto isWanted = [&](std::size_t place) {
    return isFresh(place) && std::ranges::find(places, place) == places.end();
  };
  List from = best(kMoveFrom);
  for (const Ready* one : from)
    for (const Ready* other : from)
      if (std::size_t place = points.cross(one->place, other->place); isWanted(place))
        places.push_back(place);
  if (bench.options.effort == Effort::quick)
    return places;
  from.push_back(base);
  std::map<std::size_t, double> expected; // ratios to the default, by place
  for (const Ready* one : from)
    for (std::size_t place : points.neighbours(one->place, kMovesEach, isWanted)) {
      const double step = points[place].cost / points[one->place].cost;
      const double ratio = (one == base ? 1 : one->ratio) * step;
      auto [known, isNew] = expected.emplace(place, ratio);
      if (!isNew)
        known->second = std::min(known->second, ratio);
    }
  std::vector<std::pair<double, std::size_t>> order;
  for (auto [place, ratio] : expected)
    order.emplace_back(ratio, place);
  std::ranges::sort(order);
  for (std::size_t i = 0; i < std::min(order.size(), kMoves); ++i)
    places.push_back(order[i].second);
  return places;
}

/// Times all of these that work beside the default, for the first look.
bool KeySearch::screen(std::span<const std::size_t> places) {
  for (std::size_t place : places)
    want(place);
  List list;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (isOver())
      return false;
    Ready* candidate = prepare(places[i]);
    bool timed = candidate && (candidate == base || candidate->ratio > 0 ||
                               std::ranges::find(list, candidate) != list.end());
    if (candidate && !timed)
      list.push_back(candidate);
    if (list.size() < kTogether && i + 1 < places.size())
      continue;
    if (!list.empty() && !series(std::move(list), kLooks[0]))
      return false;
    list.clear();
  }
  return !isOver();
}

/// A third goes on, with twice as many samples, until few are left.
void KeySearch::halve() {
  List list = best(points.size());
  for (std::size_t rounds = kLooks[0]; list.size() > kFinalists; rounds *= 2) {
    list.resize(std::max(kFinalists, list.size() / 3));
    for (std::size_t at = 0; at < list.size(); at += kTogether)
      if (isOver() ||
          !series(List(list.begin() + at, list.begin() + std::min(at + kTogether, list.size())),
                  rounds))
        return;
    if (list.size() == kFinalists)
      return;
    list = best(list.size());
  }
}

/// The best of those that were timed, without the default.
KeySearch::List KeySearch::best(std::size_t count) {
  List list;
  for (auto& [place, candidate] : ready)
    if (candidate.get() != base && candidate->ratio > 0 && !dead.contains(textOf(place)))
      list.push_back(candidate.get());
  std::ranges::stable_sort(list, {}, &Ready::ratio);
  list.resize(std::min(count, list.size()));
  return list;
}

bool KeySearch::isOver() {
  checkLease();
  const double share = bench.options.rooflineShare;
  stopped = bench.options.isStopped && bench.options.isStopped();
  if (stopped)
    reason = "stopped";
  else if (budget > 0 && secondsUsed() > budget)
    reason = fmt::format("the budget of {:.0f} s is spent", budget);
  else if (bench.progress.best > 0 && bench.progress.best * share <= problem.roofline)
    reason = fmt::format("{:.0f} % of the roofline reached", share * 100);
  else if (cannotImprove())
    reason = "by the model no other can be faster";
  else
    return false;
  return true;
}

/// Whether what the model says of those left, less some deviations of its error so far, is slower
/// than the best.
bool KeySearch::cannotImprove() const {
  double sum = 0, squares = 0, timed = 0; // of the logarithm of the time over the cost
  for (const auto& [place, candidate] : ready)
    if (candidate->microseconds > 0) {
      double error = std::log(candidate->microseconds / points[place].cost);
      sum += error;
      squares += error * error;
      ++timed;
    }
  if (timed < kTrusted)
    return false;
  const double mean = sum / timed;
  const double deviation = std::max(kLeastDeviation, std::sqrt(squares / timed - mean * mean));
  const double lowest = std::exp(mean - bench.options.modelDeviations * deviation);
  for (std::size_t place = 0; place < points.size(); ++place)
    if (isFresh(place)) // the cheapest of those left
      return points[place].cost * lowest > bench.progress.best;
  return false;
}

} // namespace kiln::autotune
