// The list of keys: their order, leases, budgets; see Search.h.
#include "autotune/search/Search.h"

#include "autotune/Process.h"
#include "autotune/search/KeySearch.h"
#include "codegen/backend/Fail.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <thread>

namespace kiln::autotune {
namespace {

using Clock = std::chrono::steady_clock;

/// Another tuner works on the key by now.
struct LeaseLost {};

double predicted(const Problem& problem) {
  double time = 0;
  for (const KernelSpace& space : problem.spaces)
    time += space.feasible.empty() ? 0 : space.feasible.front().microseconds;
  return time;
}

/// What tuning a key may save, all its calls together.
double promise(const Problem& problem) {
  const double time = predicted(problem);
  const double gain = time > 0 ? std::max(0.02, 1 - problem.roofline / time) : 0;
  return problem.calls * time * gain;
}

class Tuning {
 public:
  Tuning(std::span<const Problem> problems, Journal& journal, const DeviceFactory& makeDevice,
         const DeviceFactory& makeCompiler, const SearchOptions& given)
      : problems(problems), journal(journal), makeDevice(makeDevice), makeCompiler(makeCompiler),
        options(given), results(problems.size()) {
    if (options.owner.empty())
      options.owner = nameOfThisProcess();
    progress.keys = problems.size();
    order.resize(problems.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::greater{},
                             [&](std::size_t i) { return promise(problems[i]); });
  }

  ~Tuning() { giveBackAhead(); }

  /// Keys that others hold wait until those are done or gone.
  std::vector<Result> run() {
    std::vector<std::size_t> left = order;
    while (!left.empty()) {
      std::size_t before = left.size();
      std::erase_if(left, [&](std::size_t i) { return isDone(i); });
      if (isStopped() || left.empty())
        break;
      if (left.size() == before)
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
    for (std::size_t i : left)
      results[i] =
          blank(problems[i], isOverBudget() ? "the budget was spent before" : "stopped before");
    return std::move(results);
  }

 private:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - started).count(); }
  bool isOverBudget() const { return options.seconds > 0 && seconds() > options.seconds; }
  bool isStopped() const { return isOverBudget() || (options.isStopped && options.isStopped()); }

  /// Not: another tuner holds it, or there is no time.
  bool isDone(std::size_t i) {
    if (isStopped())
      return false;
    const Problem& problem = problems[i];
    if (pointsOf(problem.spaces) == 0)
      results[i] = blank(problem, problem.refused.empty() ? "no schedule fits" : problem.refused);
    else if (isKnown(i))
      ;
    else if (options.effort == Effort::none)
      chooseByModel(i);
    else if (!lease(i) || !searchLeased(i))
      return false;
    ++progress.keysDone;
    noteTimeLeft();
    if (options.progress)
      options.progress(progress);
    return true;
  }

  static Result blank(const Problem& problem, std::string reason) {
    Result result;
    result.label = problem.label;
    result.key = problem.key;
    result.reason = std::move(reason);
    result.roofline = problem.roofline;
    result.feasible = pointsOf(problem.spaces);
    return result;
  }

  bool stays(const History& history) const {
    const std::optional<Choice>& choice = history.choice;
    if (!choice || choice->source == Source::model || choice->source == Source::transferred)
      return false;
    if (choice->source == Source::pinned || options.effort == Effort::none)
      return true;
    // A vendor's time that came later was not asked about.
    return !options.again && std::ranges::none_of(history.baselines, [&](const Measurement& m) {
      return m.at > choice->at;
    });
  }

  /// Whether there is a choice that stays.
  bool isKnown(std::size_t i) {
    const History history = journal.history(problems[i].key);
    const std::optional<Choice>& choice = history.choice;
    if (!stays(history))
      return false;
    Result& result = results[i] = blank(problems[i], choice->reason);
    result.choice = choice;
    result.known = true;
    std::set<std::string> tried;
    for (const Measurement& measurement : history.measurements) {
      tried.insert(measurement.schedule);
      if (measurement.cubin == choice->cubin && measurement.schedule == choice->schedule) {
        result.microseconds = measurement.median;
        result.defaultMicroseconds = measurement.median / measurement.ratio;
        result.ratio = measurement.ratio;
        result.ratioLow = measurement.ratioLow;
        result.ratioHigh = measurement.ratioHigh;
      }
    }
    result.measured = tried.size();
    return true;
  }

  void chooseByModel(std::size_t i) {
    const Problem& problem = problems[i];
    Choice choice;
    choice.schedule = cheapestOf(problem.spaces);
    choice.source = Source::model;
    choice.reason = fmt::format("the cheapest of {} by the cost model", pointsOf(problem.spaces));
    journal.choose(problem.key, choice);
    Result& result = results[i] = blank(problem, choice.reason);
    result.choice = choice;
    result.microseconds = result.defaultMicroseconds = predicted(problem);
    result.standard = choice.schedule;
    noteSearch(i, 0);
  }

  bool lease(std::size_t i) {
    return journal.lease(problems[i].key, options.owner, options.leaseSeconds);
  }
  void giveBack(std::size_t i) {
    try {
      journal.release(problems[i].key, options.owner);
    } catch (const std::exception&) { // it expires
    }
  }
  void giveBackAhead() {
    if (ahead)
      giveBack(*std::exchange(ahead, std::nullopt));
  }
  bool renew(std::size_t i) {
    return journal.renew(problems[i].key, options.owner, options.leaseSeconds);
  }

  /// False: the lease was lost.
  bool searchLeased(std::size_t i) {
    struct Release {
      Tuning& of;
      std::size_t i;
      ~Release() { of.giveBack(i); }
    } release{*this, i};
    if (ahead == i)
      ahead.reset();
    if (isKnown(i)) // by a tuner that gave the lease back since we last looked
      return true;
    Problem problem = problems[i];
    for (std::string& schedule : journal.near(problem.key))
      problem.near.push_back(std::move(schedule));
    problem.lately = winners;
    const auto began = Clock::now();
    auto renewed = began;
    auto checkLease = [&] {
      if (Clock::now() - renewed < std::chrono::seconds(options.leaseSeconds) / 3)
        return;
      if (!renew(i))
        throw LeaseLost();
      if (ahead && !renew(*ahead))
        ahead.reset();
      renewed = Clock::now();
    };
    try {
      openDevice();
      for (const Refusal& refusal : problem.refusals)
        journal.refuse(problem.key, refusal);
      Bench bench{journal, *device, *compilers, options, driver, progress};
      KeySearch search(problem, bench, allotted(i), checkLease);
      compileAhead(i);
      results[i] = search.run();
      noteSearch(i, std::chrono::duration<double>(Clock::now() - began).count());
    } catch (const LeaseLost&) {
      return false;
    }
    if (const auto& choice = results[i].choice; choice && !choice->schedule.empty())
      noteWinner(choice->schedule);
    return true;
  }

  /// The first candidates of the key that comes behind this one, which no other tuner may take
  /// then.
  void compileAhead(std::size_t i) {
    constexpr std::size_t count = 16;
    for (auto at = std::ranges::find(order, i) + 1; at < order.end(); ++at) {
      const Problem& next = problems[*at];
      if (pointsOf(next.spaces) == 0 || stays(journal.history(next.key)) || !lease(*at))
        continue;
      if (ahead != *at)
        giveBackAhead();
      ahead = *at;
      std::vector<KernelSpace> few = next.spaces;
      for (KernelSpace& space : few)
        space.feasible.resize(std::min(space.feasible.size(), count));
      const Points points(few);
      std::vector<Proposal> proposals;
      for (std::size_t k = 0; k < std::min(points.size(), count); ++k)
        proposals.push_back({points.schedules(k), points[k].microseconds});
      compilers->wantAhead(next.task, proposals);
      return;
    }
  }

  void noteSearch(std::size_t i, double took) {
    const Result& r = results[i];
    journal.searched(problems[i].key, {.feasible = r.feasible,
                                       .tried = r.measured,
                                       .standard = r.standard,
                                       .runnerUp = r.runnerUp.schedule,
                                       .ratio = r.runnerUp.ratio,
                                       .ratioLow = r.runnerUp.low,
                                       .ratioHigh = r.runnerUp.high,
                                       .roofline = r.roofline,
                                       .bytes = problems[i].bytes,
                                       .seconds = took,
                                       .reason = r.reason});
  }

  void openDevice() {
    if (device)
      return;
    device = makeDevice();
    driver = device->conditions().driver;
    compilers.emplace(makeCompiler, options.compilers);
  }

  /// What won lately may win elsewhere too.
  void noteWinner(const std::string& schedule) {
    constexpr std::size_t remembered = 6;
    std::erase(winners, schedule);
    winners.insert(winners.begin(), schedule);
    winners.resize(std::min(winners.size(), remembered));
  }

  /// Seconds for a key: its own limit, and its part of what is left for all.
  double allotted(std::size_t i) const {
    double limit = options.secondsPerKey;
    if (limit <= 0)
      limit = options.effort == Effort::quick ? 20 : options.effort == Effort::full ? 180 : 0;
    if (options.seconds <= 0)
      return limit;
    double all = 0, count = 0;
    for (std::size_t k = 0; k < problems.size(); ++k)
      if (results[k].label.empty())
        all += promise(problems[k]), ++count;
    const double left = std::max(0.1, options.seconds - seconds());
    // Half by promise, half alike, so that none is starved.
    const double part = all > 0 ? promise(problems[i]) / all : 1 / count;
    const double share = left * (part + 1 / count) / 2;
    return limit > 0 ? std::min(limit, share) : share;
  }

  void noteTimeLeft() {
    const double left =
        seconds() / double(progress.keysDone) * double(progress.keys - progress.keysDone);
    progress.secondsLeft = options.seconds > 0 ? std::min(left, options.seconds - seconds()) : left;
  }

  std::span<const Problem> problems;
  Journal& journal;
  const DeviceFactory &makeDevice, &makeCompiler;
  SearchOptions options;
  std::vector<Result> results;
  std::vector<std::size_t> order;
  std::vector<std::string> winners;
  std::optional<std::size_t> ahead; // of the problems: held too, while it is compiled
  Clock::time_point started = Clock::now();
  Progress progress;
  std::unique_ptr<Device> device;
  std::optional<Compilers> compilers;
  std::string driver;
};

} // namespace

Effort parseEffort(std::string_view name) {
  constexpr std::pair<std::string_view, Effort> known[] = {{"none", Effort::none},
                                                           {"quick", Effort::quick},
                                                           {"full", Effort::full},
                                                           {"exhaustive", Effort::exhaustive}};
  for (auto [text, effort] : known)
    if (text == name)
      return effort;
  fail(ErrorKind::input, "unknown effort '{}'; known are none, quick, full and exhaustive", name);
}

std::vector<Result> tune(std::span<const Problem> problems, Journal& journal,
                         const DeviceFactory& makeDevice, const DeviceFactory& makeCompiler,
                         const SearchOptions& options) {
  return Tuning(problems, journal, makeDevice, makeCompiler, options).run();
}

} // namespace kiln::autotune
