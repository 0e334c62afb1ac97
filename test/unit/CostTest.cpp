// What the cost model says of row kernels: which schedule costs more than which, and the times that
// costs stand for.
#include "codegen/model/Calibration.h"
#include "test/unit/RowFacts.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace kiln;
using namespace kiln::model;
using kiln::test::rowFacts;

namespace {

TEST(Cost, MoreRowsNeverCostLess) {
  for (bool sums : {false, true}) {
    rows::Facts f = rowFacts(256, sums);
    Space space = enumerate(f, findTarget("sm_90a"), Listing::all);
    for (std::size_t i = 0; i < space.feasible.size(); i += 37) {
      double before = 0;
      for (double rows = 1024; rows < 1e8; rows *= 2) {
        double now =
            costOf(rows::Schedule::of(space.feasible[i].schedule), f, findTarget("sm_90a"), rows)
                .total;
        EXPECT_GE(now, before * (1 - 1e-12))
            << toText(space.feasible[i].schedule) << " rows " << rows;
        before = now;
      }
    }
  }
}

TEST(Cost, NeverFasterThanACopyOfTheBytes) {
  for (std::int64_t width : {64, 128, 1280}) {
    rows::Facts f = rowFacts(width);
    for (const model::Candidate& candidate :
         enumerate(f, findTarget("sm_90a"), Listing::all).feasible) {
      EXPECT_GE(candidate.cost.total, candidate.cost.copy * 0.99);
      EXPECT_GT(candidate.cost.waves, 0);
    }
  }
}

/// The cost of a schedule on the GPU that the model was fitted to.
double totalOf(const rows::Schedule& schedule, const rows::Facts& f) {
  return costOf(schedule, f, findTarget("sm_90a"), 65536).total;
}

/// Two rows of 200 KB fit in no block, but half of each does; what no block keeps is read again
/// from memory, unless few rows are at work.
TEST(Cost, RowsBeyondTheCacheAreReadFromMemoryAgain) {
  rows::Facts f = rowFacts(50304);
  f.inputs = {{4, 16}, {4, 16}};
  f.outputs = {{4, 16}};
  f.passes = 2;
  f.reductions = 1;
  rows::Schedule few{.lanes = 768, .vector = 4, .threads = 768, .keep = rows::Keep::global};
  rows::Schedule many = few;
  many.lanes = many.threads = 384;
  many.blocks = 4;
  EXPECT_LT(totalOf(few, f), totalOf(many, f));
  EXPECT_EQ(rows::defaultSchedule(f, findTarget("sm_90a")).cluster, 2);
  f.inputs.pop_back(); // fits, and then two blocks have nothing to give each other
  EXPECT_EQ(rows::defaultSchedule(f, findTarget("sm_90a")).cluster, 1);
}

/// Copies of a single row of columns start behind the first pass over registers, so that waiting
/// for them must be hidden; with shared memory all copies start together.
TEST(Cost, StagedColumnsComeLateForTilesInRegisters) {
  rows::Facts f = rowFacts(1024);
  f.columns = {{4, 16}};
  f.columnsPass = 1;
  f.passes = 2;
  f.reductions = 1;
  auto gain = [&](rows::Keep keep, const rows::Facts& of) {
    rows::Schedule s{.vector = 8, .threads = 256, .blocks = 4, .keep = keep};
    rows::Schedule staged = s;
    staged.columns = rows::Columns::shared;
    return totalOf(s, of) / totalOf(staged, of);
  };
  const double late = gain(rows::Keep::registers, f);
  EXPECT_LT(late, gain(rows::Keep::shared, f) - 0.02);
  f.outputs.push_back({2, 16}); // stored meanwhile
  EXPECT_GT(gain(rows::Keep::registers, f), late + 0.02);
}

/// The more is exchanged the better are few lanes, unless they read less than 64 bytes side by
/// side.
TEST(Cost, FewLanesExchangeLess) {
  auto gain = [](std::int64_t lanes, int reductions) {
    rows::Facts f = rowFacts(64);
    f.reductions = reductions;
    rows::Schedule s{.lanes = lanes, .vector = 8, .rows = lanes / 2, .blocks = 8};
    rows::Schedule half = s;
    half.lanes = half.lanes / 2;
    half.rows = half.rows / 2;
    return totalOf(s, f) / totalOf(half, f);
  };
  EXPECT_LT(gain(8, 1), gain(8, 4) - 0.005);
  EXPECT_LT(gain(4, 2), gain(8, 2) - 0.05);
}

/// Where memory does not hide the operations, shared memory adds to them.
TEST(Cost, ManyOperationsKeepOutOfSharedMemory) {
  rows::Facts f = rowFacts(1280);
  auto extra = [&](int operations) {
    f.operations = operations;
    rows::Schedule s{.lanes = 160, .vector = 8, .rows = 2, .threads = 160, .blocks = 4};
    rows::Schedule shared = s;
    shared.keep = rows::Keep::shared;
    return totalOf(shared, f) / totalOf(s, f);
  };
  EXPECT_LT(extra(12), extra(28) - 0.05);
}

/// Threads that only map elements wait for no other: two accesses each suffice, and few of them in
/// flight. Where rows are reduced four accesses are no worse.
TEST(Cost, MappingTakesFewAccesses) {
  auto more = [](int passes) {
    rows::Facts f = rowFacts(1024);
    f.passes = passes;
    f.reductions = passes - 1;
    rows::Schedule two{.lanes = 128, .vector = 8, .rows = 2, .blocks = 8};
    rows::Schedule four = two;
    four.rows = 4;
    return totalOf(four, f) / totalOf(two, f);
  };
  EXPECT_GT(more(1), 1.0);
  EXPECT_LT(more(2), 1.0);
}

/// Each block copies the columns, which many rows use, or one.
TEST(Cost, StagedColumnsAreForManyRows) {
  auto gain = [](std::int64_t width, std::int64_t lanes) {
    rows::Facts f = rowFacts(width);
    f.columns = {{2, 16}, {2, 16}};
    f.columnsPass = 2;
    rows::Schedule s{.lanes = lanes, .vector = 8, .threads = 256, .blocks = 4};
    s.keep = rows::Keep::shared;
    rows::Schedule staged = s;
    staged.columns = rows::Columns::shared;
    return totalOf(s, f) / totalOf(staged, f);
  };
  EXPECT_GT(gain(128, 16), 1.0);
  EXPECT_LT(gain(8192, 256), gain(128, 16) - 0.02);
}

/// What a wide vector takes longer at shared memory only other rows at work hide.
TEST(Cost, ASingleRowInARingTakesNarrowVectors) {
  auto wide = [](std::int64_t threads) { // a row takes 512
    rows::Facts f = rowFacts(8192, true);
    f.inputs = {{2, 16}, {2, 16}};
    f.dense = true;
    f.passes = 2;
    rows::Schedule s{.lanes = 512, .vector = 2, .threads = threads, .grid = rows::Grid::resident};
    s.keep = rows::Keep::ring;
    s.stages = 2;
    rows::Schedule eight = s;
    eight.vector = 8;
    return totalOf(eight, f) / totalOf(s, f);
  };
  EXPECT_GT(wide(512), 1.02);
  EXPECT_LT(wide(1024), wide(512) - 0.02);
}

/// In a round that some blocks fill, those share the memory of all, but not their arithmetic.
TEST(Cost, OperationsSufferFromAPartialRound) {
  auto loss = [](int operations) {
    rows::Facts f = rowFacts(1024);
    f.passes = 1;
    f.reductions = 0;
    f.operations = operations;
    const rows::Schedule s{.lanes = 128, .vector = 8, .rows = 2, .blocks = 8};
    const double round = 2.0 * 8 * findTarget("sm_90a").multiprocessors; // rows
    const Target& target = findTarget("sm_90a");
    return costOf(s, f, target, 5.2 * round).moving / costOf(s, f, target, 5 * round).moving;
  };
  EXPECT_GT(loss(30), loss(4) + 0.03);
}

/// What a thread starts with is shared by its elements, which counts where instructions do.
TEST(Cost, LongFunctionsTakeMoreElementsAThread) {
  auto more = [](int erfs) {
    rows::Facts f = rowFacts(1024);
    f.passes = 1;
    f.reductions = 0;
    f.erfs = erfs;
    rows::Schedule few{.lanes = 128, .vector = 8, .blocks = 8};
    rows::Schedule many = few;
    many.lanes = 16;
    return totalOf(many, f) / totalOf(few, f);
  };
  EXPECT_LT(more(1), more(0) - 0.05);
}

/// Rows that are drawn, say, of a number each: thousands of operations a byte.
TEST(Cost, RowsOfNextToNothingHaveCosts) {
  rows::Facts f = rowFacts(758);
  f.inputs.clear();
  f.outputs.clear();
  f.rowInputs = f.rowOutputs = 1;
  f.operations = 60;
  for (const std::int64_t vector : {1, 2})
    for (const std::int64_t lanes : {1, 32, 256}) {
      const double total =
          totalOf({.lanes = lanes, .vector = vector, .rows = 1, .threads = 256, .blocks = 8}, f);
      EXPECT_TRUE(std::isfinite(total) && total > 0) << lanes << " lanes, " << total;
    }
}

/// What ranks costs ranks times, from what the work takes upwards.
TEST(Calibration, TimesRiseWithCosts) {
  EXPECT_DOUBLE_EQ(slowdown(1), 1);
  EXPECT_LT(slowdown(1.05), 1.03) << "near the cheapest they hardly differ";
  EXPECT_NEAR(slowdown(8) / slowdown(4), 2, 0.05) << "far from it they rise alike";
  for (bool sums : {false, true}) {
    const rows::Facts f = rowFacts(384, sums);
    const Target& target = findTarget("sm_90a");
    const Space space = enumerate(f, target);
    EXPECT_DOUBLE_EQ(space.feasible[0].microseconds,
                     cheapestMicroseconds(workOf(f, kTypicalRows), target));
    for (std::size_t i = 1; i < space.feasible.size(); ++i)
      EXPECT_GE(space.feasible[i].microseconds, space.feasible[i - 1].microseconds);
  }
}

TEST(Calibration, MoreWorkTakesLonger) {
  const Target& target = findTarget("sm_90a");
  auto time = [&](const rows::Facts& f, double rows) {
    return cheapestMicroseconds(workOf(f, rows), target);
  };
  rows::Facts f = rowFacts(1024);
  EXPECT_GT(time(f, 0), 0.5) << "a launch";
  EXPECT_LT(time(f, 0), 1.0);
  EXPECT_NEAR(time(f, 2e6) / time(f, 1e6), 2, 0.01);
  EXPECT_GT(time(f, 1e5), 4e5 * 1024 / target.memoryGBs / 1e3) << "than memory at its best";
  const double before = time(f, 1e5);
  f.inputs[0].again = true; // no bytes of its own
  EXPECT_LT(time(f, 1e5), before * 0.7);
  f.inputs[0].again = false;
  f.columnSums = 2;
  EXPECT_GT(time(f, 1e5), before + 1);
  f.columnSums = 0;
  f.erfs = 4;
  EXPECT_GT(time(f, 1e5), before * 1.5);
  f.erfs = 0;
  f.inputs[0].older = true;
  EXPECT_LT(time(f, 1e5), before);
  const Target& ampere = findTarget("sm_86"); // overlaps no launches
  EXPECT_DOUBLE_EQ(cheapestMicroseconds(workOf(f, 1e5), ampere),
                   cheapestMicroseconds(workOf(rowFacts(1024), 1e5), ampere));
}

} // namespace
