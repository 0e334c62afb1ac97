// What a search learns of kernels that spill, and what it does then.
#include "autotune/search/Spills.h"
#include "test/tune/Problems.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace kiln::autotune::test {
namespace {

TEST(Spills, AreOfTheKernelsThatTheAssemblerNames) {
  const std::string first = "kiln_a_1 = #kiln.schedule<lanes = 8>";
  const std::string other = "kiln_a_11 = #kiln.schedule<lanes = 4>";
  Spills spills({});
  EXPECT_FALSE(spills.isIn("{" + first + ", " + other + "}"));
  spills.learn("{" + first + ", " + other + "}",
               "schedule refused:\nkernel 'kiln_a_11' spills 8 bytes of registers\n"
               "kernel 'kiln_a_1': 2 blocks a multiprocessor promised, 1 fit");
  EXPECT_TRUE(spills.isIn("{kiln_a_1 = #kiln.schedule<lanes = 2>, " + other + "}"));
  EXPECT_FALSE(spills.isIn("{" + first + ", kiln_a_11 = #kiln.schedule<lanes = 40>}"));
  spills.learn("#kiln.schedule<lanes = 8>", "kernel 'kiln_a' spills 8 bytes of registers");
  EXPECT_FALSE(spills.isIn("#kiln.schedule<lanes = 8>"));
}

/// The model likes large tiles best, and all of them spill, far more than a search tries: it looks
/// among those that ask for fewer registers, and finds what works.
TEST(Spills, WhatIsLikelyToSpillComesLast) {
  Problem problem = problemOf(4096);
  const KernelSpace& space = problem.spaces[0];
  const auto asked = [&](const Candidate& candidate) {
    return space.model->resources(candidate.schedule);
  };
  std::ranges::stable_sort(spaceOf(problem), std::greater<>(),
                           [&](const Candidate& one) { return asked(one).registers; });
  const std::int64_t most = asked(spaceOf(problem).front()).registers;
  Simulation simulation = exact();
  std::size_t spilling = 0;
  for (std::size_t place = 0; place < spaceOf(problem).size(); ++place) {
    Candidate& candidate = spaceOf(problem)[place];
    candidate.cost.total = candidate.microseconds = double(place + 1);
    if (asked(candidate).registers > most / 2)
      simulation.faults[scheduleAt(problem, place)] = {FailureKind::spill}, ++spilling;
  }
  ASSERT_GT(spilling, 200u);
  ASSERT_LT(spilling, spaceOf(problem).size());
  MemoryJournal journal;
  const Result result = tuneOne(problem, journal, simulation);
  ASSERT_TRUE(result.choice) << result.reason;
  const auto chosen = std::ranges::find_if(spaceOf(problem), [&](const Candidate& candidate) {
    return toText(candidate.schedule) == result.standard;
  });
  ASSERT_NE(chosen, spaceOf(problem).end());
  EXPECT_LE(asked(*chosen).registers, most / 2);
  EXPECT_LT(journal.history(problem.key).failures.size(), 64u);
}

/// Where only what is likely to spill works, it is found.
TEST(Spills, WhatIsLikelyToSpillIsTriedWhereNothingElseWorks) {
  Problem problem = problemOf();
  const KernelSpace& space = problem.spaces[0];
  std::vector<Candidate>& all = spaceOf(problem);
  const auto tight = std::find_if(all.begin() + 2, all.end(), [&](const Candidate& candidate) {
    const auto asked = space.model->resources(candidate.schedule);
    return asked.registers * 5 / 4 > 65536 / (asked.threads * asked.blocks);
  });
  ASSERT_NE(tight, all.end());
  all = {all[0], all[1], *tight};
  Simulation simulation = exact();
  for (std::size_t place : {0, 1})
    simulation.faults[scheduleAt(problem, place)] = {FailureKind::spill};
  MemoryJournal journal;
  const Result result = tuneOne(problem, journal, simulation);
  ASSERT_TRUE(result.choice) << result.reason;
  EXPECT_EQ(result.standard, scheduleAt(problem, 2));
}

/// Of two kernels both first choices spill, and more of one: each kernel is compiled with its next,
/// not one with all that the other may have.
TEST(Spills, AKernelThatSpillsTakesItsNextSchedule) {
  Problem problem = problemOf(128, 60);
  problem.spaces.push_back(problemOf(256, 60).spaces[0]);
  problem.spaces[1].kernel = "kiln_second";
  const auto part = [&](std::size_t kernel, std::size_t place) {
    const KernelSpace& space = problem.spaces[kernel];
    return space.kernel + " = " + toText(space.feasible[place].schedule);
  };
  Simulation simulation = exact();
  simulation.spilling = {part(0, 0), part(1, 0), part(1, 1)};
  MemoryJournal journal;
  Result result = tuneOne(problem, journal, simulation);
  ASSERT_TRUE(result.choice) << result.reason;
  EXPECT_EQ(result.choice->schedule, "{" + part(0, 1) + ", " + part(1, 2) + "}");
  EXPECT_EQ(journal.history(problem.key).failures.size(), 3u);
}

} // namespace
} // namespace kiln::autotune::test
