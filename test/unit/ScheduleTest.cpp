// The rules of the row family: each refuses what it should, with its name and the numbers.
#include "codegen/families/rows/Schedule.h"

#include "test/backend/Helpers.h"

using namespace kiln;
using namespace kiln::rows;
using namespace kiln::test;

namespace {

using rows::Schedule;

Facts facts() {
  Facts f;
  f.width = 128;
  f.inputs = {{4, 16}};
  f.outputs = {{4, 16}};
  f.reductions = 2;
  f.passes = 3;
  return f;
}
Schedule schedule() {
  Schedule s;
  s.lanes = 32, s.vector = 4, s.rows = 1, s.threads = 128, s.blocks = 4;
  return s;
}
/// All that is broken, one "rule: message" a line.
std::string violations(const Schedule& s, const Facts& f, std::string_view arch = "sm_90a") {
  std::string text;
  for (const Violation& violation : check(s, f, findTarget(arch)))
    text += violation.rule + ": " + violation.message + "\n";
  EXPECT_EQ(fits(s, f, findTarget(arch)), text.empty());
  return text;
}

TEST(ScheduleRules, AGoodOneBreaksNone) {
  EXPECT_TRUE(check(schedule(), facts(), findTarget("sm_90a")).empty());
  EXPECT_TRUE(fits(schedule(), facts(), findTarget("sm_90a")));
}

TEST(ScheduleRules, RulesOfTheShape) {
  Schedule s = schedule();
  Facts f = facts();
  f.width = 126;
  EXPECT_EQ(violations(s, f), "vector: vector = 4 does not divide the row width 126\n");
  s = schedule(), f = facts(), s.lanes = 128;
  EXPECT_EQ(violations(s, f), "lanes: lanes = 128 for rows of 32 vectors leaves whole warps idle; "
                              "at most 32 are of use\n");
  s = schedule(), f.width = 4096, s.lanes = 1;
  EXPECT_HAS(violations(s, f), "lanes: each thread would hold 1024 vectors of a row, 64 are "
                               "allowed; take more lanes, or keep = global\n");
}

TEST(ScheduleRules, TransposedTensorsMoveInRuns) {
  Schedule s = schedule(); // 4 rows a block
  Facts f = facts();
  f.outputs[0].transposed = true;
  EXPECT_EQ(violations(s, f),
            "rows: a block of 4 rows: tensors whose rows are neighbours in memory take at least "
            "16, so that whole sectors move; take fewer lanes, more rows or more threads\n");
  s.rows = 4;
  EXPECT_EQ(violations(s, f), "");
  EXPECT_EQ(transposedBytes(s, 128, 4), 16 * (33 * 4) * 4); // 32 units of 16 bytes, made odd
  EXPECT_EQ(transposedBytes(s, 128, 2), 16 * (33 * 4) * 2); // a vector of 4
  EXPECT_EQ(sharedBytes(s, f) - sharedBytes(s, facts()), transposedBytes(s, 128, 4));
  f.width = 4096, s.rows = 1, s.lanes = 128; // 16 rows of four such tensors do not fit
  EXPECT_EQ(violations(s, f), "");
}

TEST(ScheduleRules, LimitsOfTheTarget) {
  Schedule s = schedule();
  s.launch = Launch::plain;
  s.threads = 512, s.blocks = 4;
  EXPECT_HAS(violations(s, facts(), "sm_86"), "threads: 4 blocks of 512 threads are 2048 a "
                                              "multiprocessor, sm_86 allows 1536\n");
  s = schedule();
  EXPECT_EQ(violations(s, facts(), "sm_80"),
            "launch: launch = programmatic needs sm_90 or newer, the target is sm_80\n");
  s.launch = Launch::plain, s.threads = 32, s.blocks = 17;
  EXPECT_HAS(violations(s, facts(), "sm_86"),
             "blocks: 17 blocks a multiprocessor asked, sm_86 allows 16\n");
  s = schedule(), s.rows = 16, s.threads = 256;
  EXPECT_HAS(violations(s, facts()), "registers a thread needed, 4 blocks of 256 threads leave 64 "
                                     "on sm_90a\n");
  s = schedule();
  Facts sums = facts();
  sums.columnSums = 1;
  EXPECT_EQ(violations(s, sums), "grid: column sums need grid = resident: each block writes one "
                                 "line of partial sums\n");
  s.grid = Grid::resident;
  EXPECT_EQ(violations(s, sums), "");
}

TEST(ScheduleRules, SharedMemoryIsCountedInBytes) {
  Schedule s = schedule();
  s.keep = Keep::shared, s.rows = 16, s.threads = 1024, s.blocks = 1;
  EXPECT_HAS(violations(s, facts()), "shared memory: 262144 bytes of shared memory asked, sm_90a "
                                     "allows 232448 a block\n");
  EXPECT_HAS(violations(s, facts()), "shared memory: 1 blocks need 263168 bytes of shared memory, "
                                     "sm_90a has 233472 a multiprocessor\n");
}

TEST(ScheduleRules, BytesByUse) {
  Schedule s = schedule();
  EXPECT_EQ(fragmentBytes(s, 128, 4), 0); // in registers
  s.keep = Keep::shared;
  EXPECT_EQ(fragmentBytes(s, 128, 4), 128 * 4 * 4);
  EXPECT_EQ(fragmentBytes(s, 100, 2), 128 * 4 * 2); // the last lanes have room, unused
  EXPECT_EQ(exchangeBytes(s, 3), 0);                // within a warp
  s.lanes = 64;
  EXPECT_EQ(exchangeBytes(s, 3), 3 * 4 * 4);
  EXPECT_EQ(columnSumBytes(s, 128), 2 * 128 * 4);
  s.lanes = 128;
  EXPECT_EQ(columnSumBytes(s, 128), 0);
  EXPECT_EQ(s.chunks(1000), 2);
  EXPECT_EQ(schedule().rowsPerBlock(), 4);
}

TEST(ScheduleRules, TextReadsBack) {
  EXPECT_EQ(toText(schedule()),
            "#kiln.schedule<lanes = 32, vector = 4, rows = 1, threads = 128, blocks = 4, grid = "
            "one_shot, keep = registers, launch = programmatic>");
}

} // namespace
