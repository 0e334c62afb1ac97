// Tuners that share a list.
#include "test/tune/Problems.h"

#include <gtest/gtest.h>

#include <thread>

using namespace kiln;
using namespace kiln::autotune;
using namespace kiln::autotune::test;

namespace {

TEST(Leases, SeveralTunersShareAList) {
  std::vector<Problem> problems;
  for (std::int64_t width : {32, 64, 96, 128, 192, 256})
    problems.push_back(problemOf(width, 12));
  MemoryJournal journal;
  std::vector<std::vector<Result>> results(3);
  {
    std::vector<std::jthread> tuners;
    for (std::size_t t = 0; t < results.size(); ++t)
      tuners.emplace_back([&, t] {
        SearchOptions options = quiet();
        options.owner = "tuner " + std::to_string(t);
        options.compilers = 1;
        results[t] = tune(problems, journal, inProcess({}), inProcess({}), options);
      });
  }
  for (std::size_t i = 0; i < problems.size(); ++i) {
    int own = 0;
    for (const auto& mine : results) {
      ASSERT_TRUE(mine[i].choice);
      own += !mine[i].known;
      EXPECT_EQ(mine[i].choice->schedule, results[0][i].choice->schedule);
    }
    EXPECT_EQ(own, 1) << problems[i].label;
  }
}

TEST(Leases, ThatOfADeadTunerExpires) {
  Problem problem = problemOf(128, 8);
  MemoryJournal journal;
  ASSERT_TRUE(journal.lease(problem.key, "dead", 1));
  EXPECT_TRUE(tuneOne(problem, journal, Simulation()).choice);
  EXPECT_TRUE(journal.lease(problem.key, "next", 1)) << "released at the end";
}

TEST(Leases, OneThatIsLostEndsTheSearchOfItsKey) {
  Problem problem = problemOf(128, 8);
  MemoryJournal journal;
  SearchOptions options = quiet();
  options.leaseSeconds = 0; // renewed at every step
  options.owner = "slow";
  bool taken = false;
  options.progress = [&](const Progress& progress) {
    if (progress.measured > 0 && !taken) // another tuner takes it, and is done in the end
      taken = journal.lease(problem.key, "other", 1);
  };
  Result result = tuneOne(problem, journal, Simulation(), options);
  EXPECT_TRUE(taken);
  EXPECT_TRUE(result.choice); // after the other's lease fell
}

/// Else another tuner takes it, and what was compiled ahead is lost.
TEST(Leases, TheNextKeyIsHeldWhileItIsCompiled) {
  std::vector<Problem> problems;
  for (std::int64_t width : {64, 96, 128})
    problems.push_back(problemOf(width, 12));
  MemoryJournal journal;
  const auto freeKeys = [&] {
    std::ptrdiff_t count = 0;
    for (const Problem& problem : problems)
      if (journal.lease(problem.key, "other", 100)) {
        journal.release(problem.key, "other");
        ++count;
      }
    return count;
  };
  SearchOptions options = quiet();
  options.owner = "this";
  std::vector<std::ptrdiff_t> free; // within the first key, then behind each
  options.progress = [&](const Progress& progress) {
    if (progress.measured > 0 && free.size() == progress.keysDone)
      free.push_back(freeKeys());
  };
  tune(problems, journal, inProcess({}), inProcess({}), options);
  EXPECT_EQ(free, (std::vector<std::ptrdiff_t>{1, 2, 2, 3}));
  EXPECT_EQ(freeKeys(), 3);
}

TEST(Leases, OfTheNextKeyEndsWithTheTuner) {
  const std::vector<Problem> problems = {problemOf(64, 12), problemOf(128, 12)};
  MemoryJournal journal;
  SearchOptions options = quiet();
  bool stop = false;
  options.owner = "this";
  options.isStopped = [&] { return stop; };
  options.progress = [&](const Progress& progress) { stop = progress.measured > 0; };
  tune(problems, journal, inProcess({}), inProcess({}), options);
  for (const Problem& problem : problems)
    EXPECT_TRUE(journal.lease(problem.key, "other", 100)) << problem.label;
}

} // namespace
