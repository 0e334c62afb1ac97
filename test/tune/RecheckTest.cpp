// What a store has chosen, run again on a simulated device that may have changed since.
#include "autotune/recheck/Recheck.h"
#include "test/tune/Problems.h"

#include <gtest/gtest.h>

namespace kiln::autotune::test {
namespace {

/// A store with one tuned key of 24 candidates, and what runs it again.
struct Tuned {
  explicit Tuned(const Simulation& simulation) : simulated(simulation) {
    problem = problemOf(128, 24);
    problem.task.module = "func.func";
    result = tuneOne(problem, *store, simulation, thorough());
    store->describe(problem.key, problem.label, problem.task.module);
    store->keepTask(problem.key, problem.task);
  }
  Subject subject() const { return subjectOf(*store, store->keys(true).at(0)); }
  Retimed time(const Simulation& now, double pause = 0.001) const {
    SimulatedDevice device(now);
    return Recheck(*store, device, 64, pause).time(subject());
  }
  Change change(const Simulation& now, double tolerance = 0.02) const {
    return changeOf(subject(), time(now), tolerance);
  }
  Check verify(const Simulation& now) const {
    SimulatedDevice device(now);
    return Recheck(*store, device).verify(subject(), 5);
  }

  Problem problem;
  Simulation simulated;
  std::unique_ptr<Store> store = Store::inMemory();
  Result result;
};

/// The third of the space is faster than the model thinks.
Tuned tunedToTheThird() {
  Simulation simulation = exact();
  simulation.slower[scheduleAt(problemOf(128, 24), 2)] = 0.8;
  return Tuned(simulation);
}

TEST(Recheck, SearchesAreRecorded) {
  const Tuned tuned = tunedToTheThird();
  const Subject subject = tuned.subject();
  EXPECT_EQ(subject.trouble, "");
  EXPECT_EQ(subject.choice().schedule, scheduleAt(tuned.problem, 2));
  ASSERT_TRUE(subject.search());
  EXPECT_EQ(subject.search()->standard, scheduleAt(tuned.problem, 0));
  EXPECT_EQ(subject.search()->feasible, 24u);
  EXPECT_NEAR(subject.search()->roofline, tuned.problem.roofline, 1e-9);
  EXPECT_FALSE(subject.search()->reason.empty());
  EXPECT_NE(subject.search()->runnerUp, subject.choice().schedule);
  EXPECT_LT(subject.search()->ratioHigh, 1);
  EXPECT_NEAR(1 - subject.search()->ratio, subject.choice().margin, 1e-9);
  ASSERT_TRUE(subject.record());
  EXPECT_EQ(subject.record()->place, 2);
  EXPECT_EQ(subject.record()->predicted, tuned.problem.spaces[0].feasible[2].microseconds);
}

TEST(Recheck, TimesStandBesideTheDefaultAndACopy) {
  const Tuned tuned = tunedToTheThird();
  const Retimed now = tuned.time(tuned.simulated);
  EXPECT_EQ(now.trouble, "");
  EXPECT_EQ(now.standard.schedule, scheduleAt(tuned.problem, 0));
  EXPECT_NEAR(now.chosen.median, tuned.result.microseconds, 0.03 * tuned.result.microseconds);
  EXPECT_NEAR(now.chosen.ratio, tuned.result.ratio, 0.01);
  EXPECT_LT(now.chosen.ratioHigh, 1);
  EXPECT_EQ(now.standard.ratio, 1);
  EXPECT_NEAR(now.copy.median, tuned.simulated.copy * now.chosen.median, 0.01 * now.copy.median);
  EXPECT_EQ(now.chosen.conditions.driver, "simulated 1");
  EXPECT_EQ(tuned.change(tuned.simulated), Change::none);
}

TEST(Recheck, AChoiceThatIsTheDefaultIsTimedOnce) {
  const Tuned tuned{exact()};
  const Retimed now = tuned.time(exact());
  EXPECT_EQ(now.standard.schedule, now.chosen.schedule);
  EXPECT_EQ(now.toDefault.outcome, Outcome::same);
  EXPECT_EQ(now.chosen.ratio, 1);
  EXPECT_EQ(tuned.change(exact()), Change::none);
}

TEST(Recheck, SlowerThanItsRecord) {
  const Tuned tuned = tunedToTheThird();
  Simulation later = tuned.simulated;
  later.aged[tuned.subject().choice().schedule] = 1.1;
  EXPECT_EQ(tuned.change(later), Change::slower);
  EXPECT_EQ(tuned.change(later, 0.5), Change::none);
}

TEST(Recheck, ADefaultThatBecameFaster) {
  const Tuned tuned = tunedToTheThird();
  Simulation later = tuned.simulated;
  later.aged[scheduleAt(tuned.problem, 0)] = 0.5;
  EXPECT_EQ(tuned.change(later), Change::defaultIsFaster);
}

TEST(Recheck, LaterTimesAreNoRecord) {
  const Tuned tuned = tunedToTheThird();
  Measurement later = *tuned.subject().record();
  later.high = later.median = later.low = 1;
  tuned.store->measure(tuned.problem.key, later);
  EXPECT_NE(tuned.subject().record()->median, 1);
}

TEST(Recheck, WhatIsGoneIsCompiledAgain) {
  const Tuned tuned = tunedToTheThird();
  tuned.store->database().script("DELETE FROM launch WHERE cubin NOT IN (SELECT cubin FROM choice);"
                                 "DELETE FROM artifact WHERE sha256 NOT IN (SELECT cubin FROM "
                                 "launch)");
  const Retimed now = tuned.time(tuned.simulated);
  EXPECT_EQ(now.trouble, "");
  EXPECT_LT(now.chosen.ratioHigh, 1);
  Simulation spills = tuned.simulated;
  spills.faults[scheduleAt(tuned.problem, 0)] = {FailureKind::spill, false};
  EXPECT_NE(tuned.time(spills).trouble.find("does not compile any more"), std::string::npos);
}

TEST(Recheck, VerifiesOnceMore) {
  const Tuned tuned = tunedToTheThird();
  const Check right = tuned.verify(tuned.simulated);
  EXPECT_TRUE(right.verdict.pass);
  EXPECT_EQ(right.verdict.seed, 5u);
  EXPECT_EQ(right.verdict.cubin, tuned.subject().choice().cubin);
  for (FailureKind kind : {FailureKind::wrongResult, FailureKind::wroteOutside, FailureKind::nan,
                           FailureKind::illegalAccess}) {
    Simulation later = tuned.simulated;
    later.faults[tuned.subject().choice().schedule] = {kind, false};
    const Check wrong = tuned.verify(later);
    EXPECT_FALSE(wrong.verdict.pass);
    EXPECT_EQ(wrong.kind, kind);
    EXPECT_FALSE(wrong.log.empty());
  }
}

TEST(Recheck, AFailingVerdictWithdrawsTheChoice) {
  const Tuned tuned = tunedToTheThird();
  Simulation later = tuned.simulated;
  later.faults[tuned.subject().choice().schedule] = {FailureKind::wrongResult, false};
  tuned.store->judge(tuned.problem.key, tuned.verify(later).verdict);
  EXPECT_FALSE(tuned.store->choice(tuned.problem.key));
  EXPECT_EQ(tuned.subject().trouble, "nothing is chosen");
}

TEST(Recheck, TroubleIsTold) {
  const Tuned tuned = tunedToTheThird();
  Simulation later = tuned.simulated;
  later.throttled = 1;
  EXPECT_NE(tuned.time(later).trouble.find("throttles"), std::string::npos);
  later = tuned.simulated;
  later.faults[tuned.subject().choice().schedule] = {FailureKind::illegalAccess, true};
  EXPECT_NE(tuned.time(later).trouble.find("ILLEGAL_ADDRESS"), std::string::npos);

  Choice vendor = tuned.subject().choice();
  vendor.source = Source::vendor;
  vendor.schedule = vendor.cubin = "";
  tuned.store->choose(tuned.problem.key, vendor);
  EXPECT_NE(tuned.subject().trouble.find("the vendor's kernel is chosen"), std::string::npos);
  tuned.store->database().script("DELETE FROM task");
  tuned.store->unpin(tuned.problem.key);
  Key other = tuned.problem.key;
  other.tensors = "129";
  tuned.store->choose(other, {scheduleAt(tuned.problem, 0), "", Source::model, "", 0});
  for (const KnownKey& known : tuned.store->keys())
    if (known.key == other) {
      EXPECT_NE(subjectOf(*tuned.store, known).trouble.find("tune it again"), std::string::npos);
    }
}

/// Searches look at the verdict of what they find; what is only timed again must have passed.
TEST(Recheck, CodeThatDidNotPassIsNotTimed) {
  MemoryJournal journal;
  const Key key;
  const auto found = [&](bool onlyPassed) {
    const auto artifact =
        verifiedArtifact(journal, key, journal.history(key), "schedule", onlyPassed);
    return artifact ? artifact->sha256 : "none";
  };
  const auto judge = [&](const char* cubin, bool pass) {
    Artifact artifact;
    artifact.sha256 = cubin;
    journal.keep(key, "schedule", artifact);
    Verdict verdict;
    verdict.schedule = "schedule";
    verdict.cubin = cubin;
    verdict.pass = pass;
    journal.judge(key, verdict);
  };
  EXPECT_EQ(found(false), "none");
  judge("wrong", false);
  EXPECT_EQ(found(false), "wrong");
  EXPECT_EQ(found(true), "none");
  judge("right", true);
  EXPECT_EQ(found(false), "wrong");
  EXPECT_EQ(found(true), "right");
}

} // namespace
} // namespace kiln::autotune::test
