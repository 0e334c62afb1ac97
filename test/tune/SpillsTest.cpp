// What a search learns of kernels that spill, and what it does then.
#include "autotune/search/Spills.h"
#include "test/tune/Problems.h"

#include <gtest/gtest.h>

namespace kiln::autotune::test {
namespace {

TEST(Spills, AreOfTheKernelsThatTheAssemblerNames) {
  const std::string first = "kiln_a_1 = #kiln.schedule<lanes = 8>";
  const std::string other = "kiln_a_11 = #kiln.schedule<lanes = 4>";
  Spills spills;
  EXPECT_FALSE(spills.isIn("{" + first + ", " + other + "}"));
  spills.learn("{" + first + ", " + other + "}",
               "schedule refused:\nkernel 'kiln_a_11' spills 8 bytes of registers\n"
               "kernel 'kiln_a_1': 2 blocks a multiprocessor promised, 1 fit");
  EXPECT_TRUE(spills.isIn("{kiln_a_1 = #kiln.schedule<lanes = 2>, " + other + "}"));
  EXPECT_FALSE(spills.isIn("{" + first + ", kiln_a_11 = #kiln.schedule<lanes = 40>}"));
  spills.learn("#kiln.schedule<lanes = 8>", "kernel 'kiln_a' spills 8 bytes of registers");
  EXPECT_FALSE(spills.isIn("#kiln.schedule<lanes = 8>"));
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
