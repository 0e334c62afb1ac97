// Kernels that break, processes that end: nothing is lost, nothing repeated, nothing broken is
// chosen.
#include "autotune/search/Compilers.h"
#include "autotune/store/Store.h"
#include "test/tune/Problems.h"

#include <gtest/gtest.h>

#include <csignal>
#include <random>
#include <sys/wait.h>
#include <unistd.h>

using namespace kiln;
using namespace kiln::autotune;
using namespace kiln::autotune::test;

namespace {

constexpr FailureKind kKinds[] = {
    FailureKind::crash,        FailureKind::hang,        FailureKind::illegalAccess,
    FailureKind::misaligned,   FailureKind::wrongResult, FailureKind::nan,
    FailureKind::wroteOutside, FailureKind::race,        FailureKind::wrongTail,
    FailureKind::outOfMemory,  FailureKind::spill,       FailureKind::launch};

/// In worker processes, which really crash and hang: every fault is a row of its kind, the search
/// ends, and the faulty kernels, which would be the fastest, are not chosen.
TEST(Failures, EachIsARowOfItsKind) {
  Problem problem = problemOf(128, 30);
  Simulation simulation = exact();
  std::map<std::string, FailureKind> planted;
  std::size_t place = 2;
  for (FailureKind kind : kKinds) {
    const std::string schedule = scheduleAt(problem, place++);
    planted[schedule] = kind;
    simulation.faults[schedule] = {kind, kind == FailureKind::launch};
    simulation.slower[schedule] = 0.5;
  }
  MemoryJournal journal;
  SearchOptions options = thorough();
  Result result =
      tune({&problem, 1}, journal, inWorker(simulation), inWorker(simulation), options).at(0);
  ASSERT_TRUE(result.choice) << result.reason;
  EXPECT_FALSE(planted.contains(result.choice->schedule));
  EXPECT_EQ(result.measured, 30 - planted.size());
  History history = journal.history(problem.key);
  std::map<std::string, FailureKind> found;
  for (const Failure& failure : history.failures) {
    EXPECT_TRUE(found.emplace(failure.schedule, failure.kind).second) << "twice";
    EXPECT_EQ(failure.driver, simulation.driver);
    EXPECT_FALSE(failure.log.empty());
    EXPECT_EQ(failure.cubin.empty(), failure.kind == FailureKind::spill);
  }
  EXPECT_EQ(found, planted);
}

/// Counts what is asked of a device.
struct Counts {
  std::map<std::string, int> compiled, verified; // by schedule
  std::mutex mutex;
};
class Counting final : public Device {
 public:
  Counting(const Simulation& simulation, Counts& counts) : inner(simulation), counts(counts) {}
  void begin(const Task& task) override { inner.begin(task); }
  Compiled compile(const Proposal& proposal) override {
    std::lock_guard lock(counts.mutex);
    ++counts.compiled[proposal.schedule];
    return inner.compile(proposal);
  }
  Check verify(const Artifact& artifact, std::uint64_t seed) override {
    std::lock_guard lock(counts.mutex);
    ++counts.verified[artifact.plan];
    return inner.verify(artifact, seed);
  }
  Batch time(std::span<const Artifact* const> kernels, std::size_t rounds) override {
    return inner.time(kernels, rounds);
  }
  Conditions conditions() override { return inner.conditions(); }

 private:
  SimulatedDevice inner;
  Counts& counts;
};
DeviceFactory counting(const Simulation& simulation, Counts& counts) {
  return [simulation, &counts] { return std::make_unique<Counting>(simulation, counts); };
}

TEST(Failures, NotAgainOnThatDriverUnlessAsked) {
  Problem problem = problemOf(128, 10);
  Simulation simulation;
  const std::string bad = scheduleAt(problem, 4);
  simulation.faults[bad] = {FailureKind::wrongResult};
  MemoryJournal journal;
  SearchOptions options = quiet();
  options.again = true;
  auto verified = [&] {
    Counts counts;
    tune({&problem, 1}, journal, counting(simulation, counts), counting(simulation, counts),
         options);
    return counts.verified[bad];
  };
  EXPECT_EQ(verified(), 1);
  EXPECT_EQ(verified(), 0);
  options.retryFailed = true;
  EXPECT_EQ(verified(), 1);
  options.retryFailed = false;
  simulation.driver = "simulated 2";
  EXPECT_EQ(verified(), 1);
  EXPECT_EQ(verified(), 0);
}

TEST(Failures, WhereTheDefaultBreaksTheNextTakesItsPlace) {
  for (bool whileTiming : {false, true}) {
    Problem problem = problemOf(128, 12);
    Simulation simulation = exact();
    simulation.faults[scheduleAt(problem, 0)] = {FailureKind::illegalAccess, whileTiming};
    simulation.faults[scheduleAt(problem, 1)] = {FailureKind::spill};
    MemoryJournal journal;
    Result result = tuneOne(problem, journal, simulation);
    ASSERT_TRUE(result.choice) << result.reason;
    EXPECT_EQ(result.choice->schedule, scheduleAt(problem, 2)) << result.choice->reason;
    EXPECT_EQ(journal.history(problem.key).failures.size(), 2u);
  }
}

/// Where what checks them is wrong, thousands would fail: after 64 the search ends.
TEST(Failures, WhereAllBreakThereIsAReason) {
  struct Expected {
    std::size_t schedules, failures;
    const char* reason;
  };
  for (const Expected& expected :
       {Expected{6, 6, "none of the schedules compiles and passes"},
        Expected{100, 64, "the 64 schedules that the model likes best fail"}}) {
    Problem problem = problemOf(128, expected.schedules);
    Simulation simulation;
    for (std::size_t i = 0; i < expected.schedules; ++i)
      simulation.faults[scheduleAt(problem, i)] = {FailureKind::nan};
    MemoryJournal journal;
    Result result = tuneOne(problem, journal, simulation);
    EXPECT_FALSE(result.choice);
    EXPECT_EQ(result.reason, expected.reason);
    EXPECT_EQ(journal.history(problem.key).failures.size(), expected.failures);
  }
}

/// The worker is killed again and again, by somebody who has nothing to do with the kernels.
TEST(Failures, AWorkerThatIsKilledBlamesNoKernel) {
  Problem problem = problemOf(128, 40);
  MemoryJournal journal;
  Worker* worker = nullptr;
  DeviceFactory make = inWorker({});
  DeviceFactory remember = [&] {
    auto device = make();
    worker = static_cast<Worker*>(device.get());
    return device;
  };
  int killed = 0;
  SearchOptions options = quiet();
  options.progress = [&](const Progress&) {
    if (killed < 3 && worker->pid() > 0 && ++killed)
      ::kill(worker->pid(), SIGKILL);
  };
  Result result = tune({&problem, 1}, journal, remember, inProcess({}), options).at(0);
  EXPECT_TRUE(result.choice) << result.reason;
  EXPECT_GT(killed, 0);
  EXPECT_TRUE(journal.history(problem.key).failures.empty());
}

/// The tuner ends after any number of rows; the next one repeats at most what was in flight.
TEST(Resume, AtMostTheCandidateInFlightIsLost) {
  Problem problem = problemOf(128, 20);
  Simulation simulation = exact();
  simulation.faults[scheduleAt(problem, 5)] = {FailureKind::wrongTail};
  SearchOptions options = thorough();
  options.compilers = 1;
  for (int rows = 1; rows < 90; rows += 8) {
    MemoryJournal journal;
    Counts counts;
    auto run = [&] {
      return tune({&problem, 1}, journal, counting(simulation, counts),
                  counting(simulation, counts), options);
    };
    journal.rowsLeft = rows;
    bool died = false;
    try {
      run();
    } catch (const MemoryJournal::Died&) {
      died = true;
    }
    EXPECT_EQ(died, journal.rowsLeft == 0 && !journal.history(problem.key).choice);
    std::size_t rowsBefore = journal.history(problem.key).verdicts.size();
    journal.rowsLeft = -1;
    Result result = run().at(0);
    ASSERT_TRUE(result.choice);
    EXPECT_GE(journal.history(problem.key).verdicts.size(), rowsBefore);
    int twice = 0;
    for (const auto& [schedule, times] : counts.verified)
      if (schedule != result.choice->schedule) // the winner is verified on other numbers too
        twice += times > 1;
    EXPECT_LE(twice, 1) << "after " << rows << " rows";
  }
}

/// The tuner's process is killed again and again; the same command goes on until it is done.
TEST(Resume, KilledProcessesLoseNothingThatWasWritten) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("kiln_resume_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const std::filesystem::path path = folder / "store.db";
  Problem problem = problemOf(128, 60);
  SearchOptions options = thorough();
  std::mt19937 random(7);
  std::size_t verdicts = 0;
  bool finished = false;
  double wait = 20'000; // microseconds
  for (int attempt = 0; attempt < 60 && !finished; ++attempt, wait *= 1.2) {
    pid_t tuner = ::fork();
    ASSERT_GE(tuner, 0);
    if (tuner == 0) {
      auto store = Store::open(path, Store::Access::write);
      tune({&problem, 1}, *store, inWorker({}), inProcess({}), options);
      ::_exit(0);
    }
    // Later and later, so that it gets there on any machine; a dead one's lease is free at once.
    ::usleep(random() % 60'000 + static_cast<unsigned>(wait));
    ::kill(tuner, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(tuner, &status, 0), tuner);
    finished = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    auto store = Store::open(path, Store::Access::write);
    History history = store->history(problem.key);
    EXPECT_GE(history.verdicts.size(), verdicts);
    EXPECT_TRUE(history.failures.empty());
    verdicts = history.verdicts.size();
  }
  auto store = Store::open(path, Store::Access::write);
  EXPECT_TRUE(store->history(problem.key).choice);
  const Choice choice = *store->history(problem.key).choice;
  EXPECT_TRUE(store->artifact(problem.key, choice.schedule, choice.cubin));
  std::filesystem::remove_all(folder);
}

TEST(Resume, AStopIsNoEnd) {
  std::vector<Problem> problems{problemOf(128, 40), problemOf(64, 40)};
  MemoryJournal journal;
  SearchOptions options = quiet();
  int steps = 0;
  options.isStopped = [&] { return ++steps > 30; };
  auto results = tune(problems, journal, inProcess({}), inProcess({}), options);
  EXPECT_FALSE(results[0].choice && results[1].choice);
  EXPECT_TRUE(std::ranges::any_of(
      results, [](const Result& r) { return r.reason.find("stopped") != std::string::npos; }));
  options.isStopped = nullptr;
  results = tune(problems, journal, inProcess({}), inProcess({}), options);
  EXPECT_TRUE(results[0].choice && results[1].choice);
  results = tune(problems, journal, inProcess({}), inProcess({}), options);
  EXPECT_TRUE(results[0].known && results[1].known);
  EXPECT_GT(results[0].microseconds, 0);
}

/// Schedules that come out as one code, launched alike or each in its own way.
class Alike final : public Device {
 public:
  explicit Alike(bool launchedAlike = true) : launchedAlike(launchedAlike) {}
  void begin(const Task&) override {}
  Compiled compile(const Proposal& proposal) override {
    Compiled compiled = inner.compile({"one for all", proposal.microseconds});
    std::get<Artifact>(compiled).plan =
        proposal.schedule + (launchedAlike ? "" : " launches " + proposal.schedule.substr(1));
    return compiled;
  }
  Check verify(const Artifact& artifact, std::uint64_t seed) override {
    return inner.verify(artifact, seed);
  }
  Batch time(std::span<const Artifact* const> kernels, std::size_t rounds) override {
    return inner.time(kernels, rounds);
  }
  Conditions conditions() override { return inner.conditions(); }

 private:
  bool launchedAlike;
  SimulatedDevice inner{exact()};
};

TEST(Search, EqualCodeLaunchedOtherwiseIsAnotherCandidate) {
  Problem problem = problemOf(128, 10);
  for (autotune::Candidate& candidate : spaceOf(problem))
    candidate.microseconds = 50;
  problem.refusals = {{"kiln_layer_norm", "registers", 12, "256 registers"}};
  DeviceFactory make = [] { return std::make_unique<Alike>(false); };
  auto store = Store::inMemory();
  Result result = tune({&problem, 1}, *store, make, make, thorough()).at(0);
  EXPECT_EQ(result.measured, 10u);
  History history = store->history(problem.key);
  EXPECT_TRUE(history.rejections.empty());
  ASSERT_EQ(history.refusals.size(), 1u);
  EXPECT_EQ(history.refusals[0].schedules, 12);
  const std::string schedule = scheduleAt(problem, 7), cubin = history.verdicts.at(0).cubin;
  EXPECT_TRUE(store->artifact(problem.key, schedule, cubin)->plan.starts_with(schedule));
  EXPECT_EQ(store->database().number("SELECT count(*) FROM artifact"), 1);
}

TEST(Search, EqualCodeIsTimedOnce) {
  Problem problem = problemOf(128, 10);
  for (autotune::Candidate& candidate : spaceOf(problem))
    candidate.microseconds = 50;
  DeviceFactory make = [] { return std::make_unique<Alike>(); };
  auto store = Store::inMemory();
  Result result = tune({&problem, 1}, *store, make, make, thorough()).at(0);
  ASSERT_TRUE(result.choice) << result.reason;
  EXPECT_EQ(result.choice->schedule, scheduleAt(problem, 0));
  EXPECT_EQ(store->artifact(problem.key, result.choice->schedule, result.choice->cubin)->plan,
            scheduleAt(problem, 0));
  EXPECT_EQ(store->history(problem.key).rejections.size(), 9u);
}

/// Devices whose compiler breaks.
class Broken final : public Device {
 public:
  void begin(const Task&) override {}
  Compiled compile(const Proposal& proposal) override {
    if (proposal.schedule == "crash")
      throw Lost(FailureKind::crash, "the worker ended by signal 11");
    if (proposal.schedule == "missing")
      throw Error(ErrorKind::unavailable, "no NVRTC");
    return autotune::Rejection{proposal.schedule, "resources", "blocks", 8, 4};
  }
  Check verify(const Artifact&, std::uint64_t) override { return {}; }
  Batch time(std::span<const Artifact* const>, std::size_t) override { return {}; }
  Conditions conditions() override { return {}; }
};

TEST(Compilers, ThatBreakRejectTheSchedule) {
  Compilers compilers([] { return std::make_unique<Broken>(); }, 2);
  compilers.begin({});
  for (const char* schedule : {"a", "crash", "b", "missing", "c"})
    compilers.want({schedule, 1});
  auto crash = std::get<autotune::Rejection>(compilers.take({"crash", 1}));
  EXPECT_EQ(crash.gate, "compile");
  EXPECT_NE(crash.constraint.find("signal 11"), std::string::npos);
  EXPECT_THROW(compilers.take({"missing", 1}), Error);
  EXPECT_EQ(std::get<autotune::Rejection>(compilers.take({"c", 1})).gate, "resources");
  EXPECT_EQ(std::get<autotune::Rejection>(compilers.take({"not wanted before", 1})).asked, 8);
  compilers.begin({});
}

} // namespace
