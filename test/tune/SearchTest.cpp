// The search on a simulated device: what it finds, when it stops, what it stores.
#include "autotune/search/Moves.h"
#include "autotune/search/Points.h"
#include "autotune/store/Store.h"
#include "test/tune/Problems.h"

#include <gtest/gtest.h>

using namespace kiln;
using namespace kiln::autotune;
using namespace kiln::autotune::test;

namespace {

TEST(Search, ASmallSpaceIsSearchedWhole) {
  Problem problem = problemOf(128, 60);
  Simulation simulation;
  simulation.slower[scheduleAt(problem, 53)] =
      0.8 * spaceOf(problem)[0].microseconds / spaceOf(problem)[53].microseconds;
  MemoryJournal journal;
  Result result = tuneOne(problem, journal, simulation, thorough());
  ASSERT_TRUE(result.choice);
  EXPECT_EQ(result.choice->schedule, scheduleAt(problem, 53)) << result.reason;
  EXPECT_EQ(result.choice->source, Source::measured);
  EXPECT_EQ(result.measured, 60u);
  EXPECT_GT(result.choice->margin, 0);
  EXPECT_LT(result.ratioHigh, 1);
  History history = journal.history(problem.key);
  EXPECT_EQ(history.choice->schedule, result.choice->schedule);
  EXPECT_NE(history.choice->reason.find("all tried"), std::string::npos) << history.choice->reason;
  // Everything that was timed had passed before.
  for (const Measurement& measurement : history.measurements)
    EXPECT_TRUE(std::ranges::any_of(history.verdicts, [&](const Verdict& verdict) {
      return verdict.pass && verdict.cubin == measurement.cubin;
    }));
}

TEST(Search, MovesReachWhatTheModelDoesNotSee) {
  Problem problem = problemOf();
  ASSERT_GT(spaceOf(problem).size(), 1000u);
  Simulation simulation = exact();
  auto steps = neighbours(problem.spaces.at(0), 0, 4, [](std::size_t place) { return place > 40; });
  ASSERT_FALSE(steps.empty());
  simulation.slower[scheduleAt(problem, 0)] = 0.95; // moves start from the best
  simulation.slower[scheduleAt(problem, steps[0])] =
      0.8 * spaceOf(problem)[0].microseconds / spaceOf(problem)[steps[0]].microseconds;
  SearchOptions options = thorough();
  MemoryJournal journal;
  Result result = tuneOne(problem, journal, simulation, options);
  ASSERT_TRUE(result.choice);
  EXPECT_EQ(result.choice->schedule, scheduleAt(problem, steps[0])) << result.reason;
  EXPECT_LT(result.measured, 200u);
  options.effort = Effort::quick; // only the model's best
  MemoryJournal other;
  EXPECT_NE(tuneOne(problem, other, simulation, options).choice->schedule,
            scheduleAt(problem, steps[0]));
}

/// Where the model is wrong about a schedule it is wrong about those near it: of several to start
/// from, the one that was timed as the best gets most of the moves, not what the model likes
/// better.
TEST(Search, MovesFollowWhatWasTimed) {
  Problem problem = problemOf();
  Simulation simulation = exact();
  const double best = spaceOf(problem)[0].microseconds;
  auto take = [&](std::size_t place, double share) { // of the time of the model's best
    simulation.slower[scheduleAt(problem, place)] =
        share * best / spaceOf(problem)[place].microseconds;
  };
  const std::size_t far = spaceOf(problem).size() / 4;
  auto steps =
      neighbours(problem.spaces.at(0), far, 20, [](std::size_t place) { return place > 100; });
  ASSERT_EQ(steps.size(), 20u);
  take(far, 0.9);
  take(steps.back(), 0.8);
  problem.near = {scheduleAt(problem, far)};
  MemoryJournal journal;
  Result result = tuneOne(problem, journal, simulation, thorough());
  ASSERT_TRUE(result.choice);
  EXPECT_EQ(result.choice->schedule, scheduleAt(problem, steps.back())) << result.reason;
  EXPECT_LT(result.measured, 100u);
}

TEST(Search, WhatWonAtANearShapeIsTried) {
  Problem problem = problemOf();
  const std::size_t far = spaceOf(problem).size() - 1;
  Simulation simulation = exact();
  simulation.slower[scheduleAt(problem, far)] =
      0.7 * spaceOf(problem)[0].microseconds / spaceOf(problem)[far].microseconds;
  MemoryJournal without, with;
  SearchOptions options = quiet();
  options.effort = Effort::quick;
  EXPECT_NE(tuneOne(problem, without, simulation, options).choice->schedule,
            scheduleAt(problem, far));
  problem.near = {"no such schedule", scheduleAt(problem, far)};
  EXPECT_EQ(tuneOne(problem, with, simulation, options).choice->schedule, scheduleAt(problem, far));
}

/// A function of two kernels: what each gains by itself is found and put together.
TEST(Search, KernelsOfAFunctionAreTunedTogether) {
  Problem problem = problemOf(128, 200);
  problem.spaces.push_back(problemOf(256, 200).spaces[0]);
  problem.spaces[1].kernel = "kiln_second";
  auto at = [&](std::size_t first, std::size_t second) {
    auto schedule = [&](std::size_t kernel, std::size_t place) {
      const KernelSpace& space = problem.spaces[kernel];
      return space.kernel + " = " + toText(space.feasible[place].schedule);
    };
    return "{" + schedule(0, first) + ", " + schedule(1, second) + "}";
  };
  Simulation simulation = exact();
  simulation.slower[at(2, 0)] = 0.9;
  simulation.slower[at(0, 1)] = 0.85;
  simulation.slower[at(2, 1)] = 0.75;
  SearchOptions options = thorough();
  for (Effort effort : {Effort::quick, Effort::full}) {
    options.effort = effort;
    MemoryJournal journal;
    Result result = tuneOne(problem, journal, simulation, options);
    ASSERT_TRUE(result.choice) << result.reason;
    EXPECT_EQ(result.choice->schedule, at(2, 1)) << result.reason;
    EXPECT_EQ(result.feasible, 40'000u);
    EXPECT_LT(result.measured, 200u);
  }
}

/// Near shapes that were tuned save candidates, and lead to the same choice.
TEST(Search, NeighboursInTheStoreSaveCandidates) {
  Problem problem = problemOf();
  const std::size_t place = 9;
  Simulation simulation = exact();
  simulation.slower[scheduleAt(problem, place)] =
      0.8 * spaceOf(problem)[0].microseconds / spaceOf(problem)[place].microseconds;
  SearchOptions options = thorough();
  options.effort = Effort::quick;
  auto store = Store::inMemory();
  auto describe = [&](std::int64_t rows) {
    problem.key.function = "function of " + std::to_string(rows);
    problem.key.tensors = "bf16[" + std::to_string(rows) + "x128]/16";
    store->describe(problem.key, "layer_norm",
                    "@f(%x: tensor<" + std::to_string(rows) + "x128xbf16>)");
  };
  describe(4096);
  Result alone = tuneOne(problem, *store, simulation, options);
  describe(8192);
  EXPECT_EQ(store->near(problem.key), std::vector{scheduleAt(problem, place)});
  Result beside = tuneOne(problem, *store, simulation, options);
  ASSERT_TRUE(alone.choice && beside.choice);
  EXPECT_EQ(beside.choice->schedule, alone.choice->schedule);
  EXPECT_LT(beside.measured, alone.measured);
  problem.key.arch = "sm_80";
  EXPECT_TRUE(store->near(problem.key).empty());
}

TEST(Points, FindSchedulesOfSeveralKernels) {
  std::vector<KernelSpace> spaces{problemOf(128, 5).spaces[0], problemOf(64, 6).spaces[0]};
  spaces[1].kernel = "kiln_other";
  Points points(spaces);
  EXPECT_EQ(points.size(), 1u + 4 + 5);
  EXPECT_EQ(pointsOf(spaces), 30u);
  EXPECT_EQ(points.schedules(0), cheapestOf(spaces));
  const std::size_t one = 1, both = points.cross(points.size() - 1, one);
  const std::string text = points.schedules(both);
  EXPECT_EQ(Points(spaces).find(text).has_value(), true);
  EXPECT_EQ(points.find(text), both);
  EXPECT_FALSE(points.find("{kiln_other = #kiln.schedule<>}"));
}

/// Two copies of one kernel come out the same, a planted gain of 3 % is found.
TEST(Search, NullTestAndPlantedGain) {
  Problem problem = problemOf(128, 2);
  spaceOf(problem)[1].microseconds = spaceOf(problem)[0].microseconds;
  SearchOptions options = quiet();
  options.compilers = 1;
  options.rooflineShare = 10;
  int same = 0, found = 0;
  for (int i = 0; i < 100; ++i) {
    Simulation simulation = exact();
    simulation.seed = 1000 + i;
    MemoryJournal null, planted;
    same += tuneOne(problem, null, simulation, options).choice->schedule == scheduleAt(problem, 0);
    simulation.slower[scheduleAt(problem, 1)] = 1 / 1.03;
    found +=
        tuneOne(problem, planted, simulation, options).choice->schedule == scheduleAt(problem, 1);
  }
  EXPECT_GE(same, 95);
  EXPECT_GE(found, 99);
}

TEST(Search, EqualSearchesEndAlike) {
  Problem problem = problemOf(64, 40);
  Simulation simulation;
  MemoryJournal one, other;
  Result a = tuneOne(problem, one, simulation), b = tuneOne(problem, other, simulation);
  EXPECT_EQ(a.choice->schedule, b.choice->schedule);
  EXPECT_EQ(a.choice->reason, b.choice->reason);
  EXPECT_EQ(one.history(problem.key).verdicts[0].seed, other.history(problem.key).verdicts[0].seed);
}

TEST(Search, StopsAtTheRoofline) {
  Problem problem = problemOf();
  Simulation simulation = exact();
  simulation.slower[scheduleAt(problem, 3)] = 0.5; // faster than memory
  MemoryJournal journal;
  Result result = tuneOne(problem, journal, simulation);
  EXPECT_EQ(result.reason, "95 % of the roofline reached");
  EXPECT_EQ(result.choice->schedule, scheduleAt(problem, 3));
  EXPECT_LE(result.measured, 16u);
}

TEST(Search, StopsWhereTheModelSaysThatNothingIsLeft) {
  Problem problem = problemOf(128, 200);
  for (std::size_t i = 20; i < 200; ++i) {
    spaceOf(problem)[i].cost.total *= 2;
    spaceOf(problem)[i].microseconds *= 2;
  }
  SearchOptions options = quiet();
  options.rooflineShare = 10;
  MemoryJournal journal;
  Result result = tuneOne(problem, journal, Simulation(), options);
  EXPECT_EQ(result.reason, "by the model no other can be faster");
  EXPECT_LT(result.measured, 60u);
}

/// Time that a device takes for real.
class Slow final : public Device {
 public:
  explicit Slow(const Simulation& simulation) : inner(simulation) {}
  void begin(const Task& task) override { inner.begin(task); }
  Compiled compile(const Proposal& proposal) override { return inner.compile(proposal); }
  Check verify(const Artifact& artifact, std::uint64_t seed) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return inner.verify(artifact, seed);
  }
  Batch time(std::span<const Artifact* const> kernels, std::size_t rounds) override {
    return inner.time(kernels, rounds);
  }
  Conditions conditions() override { return inner.conditions(); }

 private:
  SimulatedDevice inner;
};

TEST(Search, BudgetsEndIt) {
  std::vector<Problem> problems{problemOf(128, 200), problemOf(64, 200), problemOf(256, 200)};
  DeviceFactory slow = [] { return std::make_unique<Slow>(Simulation()); };
  SearchOptions options = thorough();
  options.secondsPerKey = 0.2; // of 2 s and more
  MemoryJournal journal;
  auto results = tune({problems.data(), 1}, journal, slow, inProcess({}), options);
  EXPECT_NE(results[0].reason.find("the budget of"), std::string::npos) << results[0].reason;
  EXPECT_TRUE(results[0].choice); // of what was timed
  EXPECT_LT(results[0].measured, 200u);
  options.secondsPerKey = 0;
  options.seconds = 0.6; // for all
  MemoryJournal other;
  results = tune(problems, other, slow, inProcess({}), options);
  std::size_t measured = 0;
  for (const Result& result : results)
    measured += result.measured;
  EXPECT_LT(measured, 600u);
  EXPECT_TRUE(std::ranges::any_of(results, [](const Result& r) { return r.choice.has_value(); }));
}

TEST(Search, WithoutEffortTheModelChoosesAndNoDeviceIsNeeded) {
  Problem problem = problemOf();
  DeviceFactory none = []() -> std::unique_ptr<Device> {
    throw Error(ErrorKind::unavailable, "no device");
  };
  SearchOptions options = quiet();
  options.effort = Effort::none;
  MemoryJournal journal;
  Result result = tune({&problem, 1}, journal, none, none, options).at(0);
  EXPECT_EQ(result.choice->source, Source::model);
  EXPECT_EQ(result.choice->schedule, scheduleAt(problem, 0));
  options.effort = Effort::full; // a choice of the model is no reason not to search
  EXPECT_THROW(tune({&problem, 1}, journal, none, none, options), Error);
  EXPECT_EQ(tuneOne(problem, journal, Simulation()).choice->source, Source::measured);
  options.effort = Effort::none; // and does not replace a measured one
  EXPECT_EQ(tune({&problem, 1}, journal, none, none, options).at(0).choice->source,
            Source::measured);
}

TEST(Search, ThrottledSamplesAreVoid) {
  Problem problem = problemOf(128, 30);
  Simulation simulation;
  simulation.throttled = 0.3;
  MemoryJournal journal;
  EXPECT_TRUE(tuneOne(problem, journal, simulation).choice);
  EXPECT_FALSE(journal.history(problem.key).measurements.empty());
  for (const Measurement& measurement : journal.history(problem.key).measurements)
    EXPECT_FALSE(measurement.conditions.throttled);
  simulation.throttled = 1;
  MemoryJournal other;
  Result result = tuneOne(problem, other, simulation);
  EXPECT_FALSE(result.choice);
  EXPECT_NE(result.reason.find("the device throttles"), std::string::npos) << result.reason;
  EXPECT_TRUE(other.history(problem.key).measurements.empty());
}

TEST(Search, TheVendorStaysUnlessKilnIsProvenFaster) {
  Problem problem = problemOf(128, 20);
  Measurement vendor;
  vendor.schedule = "ATen";
  struct Case {
    double factor;
    Source source;
    const char* driver = "simulated 1";
  };
  for (auto [factor, source, driver] :
       {Case{0.5, Source::vendor}, Case{1.0, Source::vendor}, Case{2.0, Source::measured},
        Case{0.5, Source::measured, "of last year"}}) {
    MemoryJournal journal;
    Simulation simulation;
    Result alone = tuneOne(problem, journal, simulation);
    vendor.median = alone.microseconds * factor;
    vendor.low = vendor.median * 0.99;
    vendor.high = vendor.median * 1.01;
    vendor.conditions.driver = driver;
    MemoryJournal beside;
    beside.baseline(problem.key, vendor);
    Result result = tuneOne(problem, beside, simulation);
    ASSERT_TRUE(result.choice);
    EXPECT_EQ(result.choice->source, source) << factor;
    EXPECT_EQ(result.choice->schedule.empty(), source == Source::vendor);
    EXPECT_EQ(result.choice->reason.find("us of ATen") != std::string::npos,
              driver == std::string_view("simulated 1"));
  }
}

TEST(Search, KeysWithMoreToGainComeFirst) {
  std::vector<Problem> problems{problemOf(128, 10), problemOf(64, 10), problemOf(256, 10)};
  problems[0].calls = 1;
  problems[1].calls = 1000;
  problems[2].calls = 30;
  std::vector<std::string> seen;
  SearchOptions options = quiet();
  Progress last;
  options.progress = [&](const Progress& progress) {
    if (seen.empty() || seen.back() != progress.label)
      seen.push_back(progress.label);
    EXPECT_LE(progress.keysDone, progress.keys);
    last = progress;
  };
  MemoryJournal journal;
  auto results = tune(problems, journal, inProcess({}), inProcess({}), options);
  EXPECT_EQ(seen, (std::vector{problems[1].label, problems[2].label, problems[0].label}));
  EXPECT_EQ(results[0].label, problems[0].label); // in the order given
  EXPECT_EQ(last.keysDone, 3u);
  EXPECT_GE(last.compiled, 3u);
  EXPECT_EQ(last.secondsLeft, 0);
}

TEST(Moves, ChangeAtMostTwoKnobsByAStep) {
  const rows::Model model(test::layerNormFacts(128), 65536);
  auto isNear = [&](const rows::Schedule& from, const rows::Schedule& to) {
    return model.isNear(from.general(), to.general());
  };
  rows::Schedule a;
  a.lanes = 16, a.threads = 128;
  rows::Schedule b = a;
  EXPECT_FALSE(isNear(a, b));
  b.lanes = 32;
  EXPECT_TRUE(isNear(a, b));
  b.threads = 256;
  EXPECT_TRUE(isNear(a, b));
  b.rows = 2;
  EXPECT_FALSE(isNear(a, b));
  b = a;
  b.lanes = 64;
  EXPECT_FALSE(isNear(a, b));
  b = a;
  b.keep = rows::Keep::ring, b.stages = 3, b.grid = rows::Grid::resident;
  EXPECT_TRUE(isNear(a, b));
  b = a; // two blocks that share a row, in the place of one
  b.threads = a.threads / 2, b.blocks = a.blocks * 2, b.cluster = 2;
  EXPECT_TRUE(isNear(a, b));
}

} // namespace
