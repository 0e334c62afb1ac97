// The search space and the cost model: complete, feasible, ordered, and the same every time.
#include "codegen/families/multi_tensor/cost/Cost.h"
#include "codegen/families/rows/cost/Cost.h"

#include <gtest/gtest.h>

using namespace kiln;
using namespace kiln::model;

namespace {

rows::Facts facts(std::int64_t width, bool sums = false) {
  rows::Facts f;
  f.width = width;
  f.inputs = {{2, 16}};
  f.outputs = {{2, 16}};
  f.reductions = 2;
  f.passes = 3;
  f.operations = 12;
  f.columnSums = sums;
  return f;
}

TEST(Space, AllThatIsOfferedFits) {
  for (std::string_view arch : {"sm_80", "sm_86", "sm_90a", "sm_120"})
    for (std::int64_t width : {1, 7, 128, 1000, 16384})
      for (bool sums : {false, true}) {
        rows::Facts f = facts(width, sums);
        const Target& target = findTarget(arch);
        Space space = enumerate(f, target);
        std::int64_t refused = 0;
        for (auto& [rule, fallen] : space.refused) {
          EXPECT_FALSE(fallen.worst.empty()) << rule;
          refused += fallen.count;
        }
        EXPECT_EQ(refused + static_cast<std::int64_t>(space.feasible.size()), space.tuples);
        EXPECT_FALSE(space.feasible.empty()) << arch << " " << width;
        for (const model::Candidate& candidate : space.feasible) {
          auto broken = check(rows::Schedule::of(candidate.schedule), f, target);
          ASSERT_TRUE(broken.empty()) << toText(candidate.schedule) << broken[0].message;
        }
      }
}

/// Every power of two of lanes up to what a row of 8 can use, with all other knobs: nothing is
/// lost by building tuples instead of filtering them.
TEST(Space, SmallSpaceEqualsBruteForce) {
  const Target& target = findTarget("sm_90a");
  rows::Facts f = facts(8);
  std::int64_t tuples = 0, feasible = 0, likely = 0;
  rows::Schedule s;
  for (s.vector = 1; s.vector <= 16; ++s.vector)
    for (s.lanes = 1; s.lanes <= 1024; ++s.lanes)
      for (std::int64_t threads : {64, 128, 256, 320, 512, 640, 1024})
        for (std::int64_t rows : {1, 2, 4, 8})
          for (std::int64_t blocks : {1, 2, 3, 4, 5, 6, 8, 12, 16})
            for (int choice = 0; choice < 12; ++choice) {
              bool power = (s.vector & (s.vector - 1)) == 0 && (s.lanes & (s.lanes - 1)) == 0;
              bool idle = s.lanes > 1 && (s.lanes / 2) * s.vector >= f.width;
              if (!power || f.width % s.vector != 0 || idle || threads % s.lanes != 0)
                continue;
              s.threads = threads, s.rows = rows, s.blocks = blocks;
              s.keep = static_cast<rows::Keep>(choice % 3);
              s.grid = static_cast<rows::Grid>(choice / 3 % 2);
              s.launch = static_cast<rows::Launch>(choice / 6);
              ++tuples;
              feasible += fits(s, f, target);
              likely += fits(s, f, target) && unlikelyLoss(s, f, target) == 0.0;
            }
  Space space = enumerate(f, target);
  EXPECT_EQ(space.tuples, tuples);
  EXPECT_EQ(static_cast<std::int64_t>(space.feasible.size()), feasible);
  EXPECT_EQ(std::ssize(enumerate(f, target, Listing::likely).feasible), likely);
  EXPECT_LT(likely, feasible);
}

/// Kernels of many kinds: wide and narrow, even and odd, with columns, sums, older inputs, few
/// rows.
std::vector<rows::Facts> manyKinds() {
  std::vector<rows::Facts> kinds;
  for (std::int64_t width : {5, 127, 128, 1000, 1280, 9999, 16384})
    for (int kind = 0; kind < 32; ++kind) {
      rows::Facts f = facts(width, kind & 1);
      f.dense = f.packed = true;
      f.inputs[0].older = kind & 2;
      if (kind & 4)
        f.columns = {{4, 16}};
      f.columnsPass = f.columns.empty() ? 0 : 1;
      f.rows = kind & 8 ? 300 : -1;
      f.passes = kind & 16 ? 1 : 3;
      f.reductions = f.passes - 1;
      kinds.push_back(f);
    }
  return kinds;
}

/// What other GPUs may want is there, behind what the H200 was seen to want.
TEST(Space, HasWhatOtherGpusMayWant) {
  const Target& target = findTarget("sm_90a");
  rows::Facts f = facts(4096);
  f.dense = f.packed = true;
  f.columns = {{4, 16}};
  f.columnsPass = 1;
  f.inputs[0].older = true;
  const Space space = enumerate(f, target, Listing::all);
  const auto place = [&](auto isWanted) {
    const auto found = std::ranges::find_if(space.feasible, [&](const model::Candidate& one) {
      return isWanted(rows::Schedule::of(one.schedule));
    });
    EXPECT_LT(found, space.feasible.end());
    return found - space.feasible.begin();
  };
  using rows::Schedule;
  EXPECT_GT(place([](const Schedule& s) { return s.grid == rows::Grid::resident; }), 0);
  EXPECT_GT(place([](const Schedule& s) { return s.keep == rows::Keep::ring; }), 0);
  EXPECT_GT(place([](const Schedule& s) { return s.keep == rows::Keep::global; }), 0);
  EXPECT_GT(place([](const Schedule& s) { return s.cluster == 2; }), 0);
  EXPECT_GT(place([](const Schedule& s) { return s.launch == rows::Launch::plain; }), 0);
  EXPECT_GT(place([](const Schedule& s) {
              return s.keep == rows::Keep::ring && std::max(s.rows, s.blocks) > 4;
            }),
            0);
  f.width = 4099;
  const Space odd = enumerate(f, target, Listing::all);
  for (std::int64_t vector : {2, 4, 8, 16})
    EXPECT_TRUE(std::ranges::any_of(odd.feasible, [&](const model::Candidate& one) {
      return rows::Schedule::of(one.schedule).vector == vector;
    })) << vector;
}

/// Blocks of which a whole number fills a multiprocessor.
TEST(Space, BlocksFitTheMultiprocessor) {
  const auto has = [](std::string_view arch, std::int64_t threads) {
    const Space space = enumerate(facts(128), findTarget(arch), Listing::likely);
    return std::ranges::any_of(space.feasible, [&](const model::Candidate& one) {
      return rows::Schedule::of(one.schedule).threads == threads;
    });
  };
  ASSERT_EQ(findTarget("sm_86").threadsPerSM, 1536);
  for (std::int64_t threads : {192, 384, 768}) {
    EXPECT_TRUE(has("sm_86", threads)) << threads;
    EXPECT_FALSE(has("sm_90a", threads)) << threads;
  }
}

/// The default is found without looking at most schedules, and is the first of all that fit.
TEST(Space, DefaultIsTheCheapestOfAll) {
  for (std::string_view arch : {"sm_80", "sm_86", "sm_90a"})
    for (const rows::Facts& f : manyKinds()) {
      const Target& target = findTarget(arch);
      const Space space = enumerate(f, target, Listing::all);
      ASSERT_FALSE(space.feasible.empty()) << arch << " " << f.width;
      EXPECT_EQ(toText(rows::defaultSchedule(f, target)), toText(space.feasible[0].schedule))
          << arch << " " << f.width;
    }
}

/// What the search for the default leaves out costs at least what it was left out by.
TEST(Cost, NoneIsBelowTheLeastOfItsKind) {
  const Target& target = findTarget("sm_90a");
  for (const rows::Facts& f : manyKinds()) {
    const Space space = enumerate(f, target, Listing::all);
    for (std::size_t i = 0; i < space.feasible.size(); i += 11) {
      const auto schedule = rows::Schedule::of(space.feasible[i].schedule);
      ASSERT_LE(leastCost(schedule, f, target, kTypicalRows),
                space.feasible[i].cost.total * (1 + 1e-12))
          << toText(schedule) << " width " << f.width;
    }
  }
}

TEST(Space, SameAnswerEveryTimeCheapestFirst) {
  for (bool sums : {false, true}) {
    rows::Facts f = facts(384, sums);
    Space first = enumerate(f, findTarget("sm_90a")), again = enumerate(f, findTarget("sm_90a"));
    Space quiet = enumerate(f, findTarget("sm_90a"), Listing::all);
    EXPECT_TRUE(quiet.refused.empty());
    ASSERT_EQ(first.feasible.size(), again.feasible.size());
    ASSERT_EQ(first.feasible.size(), quiet.feasible.size());
    for (std::size_t i = 0; i < first.feasible.size(); ++i) {
      EXPECT_EQ(first.feasible[i].schedule, again.feasible[i].schedule);
      EXPECT_EQ(first.feasible[i].schedule, quiet.feasible[i].schedule);
      EXPECT_EQ(first.feasible[i].cost.total, again.feasible[i].cost.total);
      if (i == 0)
        continue;
      EXPECT_LE(first.feasible[i - 1].cost.total, first.feasible[i].cost.total);
    }
    EXPECT_EQ(rows::defaultSchedule(f, findTarget("sm_90a")).general(), first.feasible[0].schedule);
    f.spilledRegisters = 64; // then only what leaves more is offered
    rows::Schedule roomy = rows::defaultSchedule(f, findTarget("sm_90a"));
    EXPECT_LT(roomy.threads * roomy.blocks, 1024) << toText(roomy);
  }
}

TEST(Space, NothingFitsIsAnErrorWithTheReasons) {
  rows::Facts f = facts(8192);
  f.inputs.assign(9, {4, 16});
  f.columnSums = 9;
  try {
    rows::defaultSchedule(f, findTarget("sm_86"));
    FAIL() << "nine rows of 32 KB and their sums fit no block";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::infeasible);
    EXPECT_NE(std::string(error.what()).find("by registers: about"), std::string::npos)
        << error.what();
  }
}

TEST(Cost, MoreRowsNeverCostLess) {
  for (bool sums : {false, true}) {
    rows::Facts f = facts(256, sums);
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
    rows::Facts f = facts(width);
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
  rows::Facts f = facts(50304);
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
  rows::Facts f = facts(1024);
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
    rows::Facts f = facts(64);
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
  rows::Facts f = facts(1280);
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
    rows::Facts f = facts(1024);
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
    rows::Facts f = facts(width);
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
    rows::Facts f = facts(8192, true);
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
    rows::Facts f = facts(1024);
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
    rows::Facts f = facts(1024);
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

/// What ranks costs ranks times, from what the work takes upwards.
TEST(Calibration, TimesRiseWithCosts) {
  EXPECT_DOUBLE_EQ(slowdown(1), 1);
  EXPECT_LT(slowdown(1.05), 1.03) << "near the cheapest they hardly differ";
  EXPECT_NEAR(slowdown(8) / slowdown(4), 2, 0.05) << "far from it they rise alike";
  for (bool sums : {false, true}) {
    const rows::Facts f = facts(384, sums);
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
  rows::Facts f = facts(1024);
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
                   cheapestMicroseconds(workOf(facts(1024), 1e5), ampere));
}

/// Parts of a kernel move as many bytes a thread, and a thread holds the lists of one.
TEST(Space, OfListsInParts) {
  const multi_tensor::Facts wide{.inputs = 4, .outputs = 3, .bytesRead = 16, .bytesWritten = 12};
  const multi_tensor::Facts narrow{
      .inputs = 1, .outputs = 1, .widestBytes = 2, .bytesRead = 2, .bytesWritten = 2};
  const multi_tensor::Facts both = multi_tensor::together({{0, wide}, {3, narrow}});
  EXPECT_EQ(both.parts, 2);
  EXPECT_EQ(both.inputs, 4);
  EXPECT_EQ(both.outputs, 3);
  EXPECT_EQ(both.bytesRead, 18);
  EXPECT_EQ(both.bytesWritten, 14);
  EXPECT_EQ(multi_tensor::vectorOf(4, both, 4), 4);
  EXPECT_EQ(multi_tensor::vectorOf(4, both, 2), 8);
  EXPECT_EQ(multi_tensor::estimatedRegisters(both), multi_tensor::estimatedRegisters(wide));
  const Target& target = findTarget("sm_90a");
  const multi_tensor::Schedule chosen = multi_tensor::defaultSchedule(both, target);
  EXPECT_EQ(chosen.vector, 4);
  EXPECT_EQ(chosen.threads, 128) << "a chunk of 1024 elements of two bytes";
  const Space space = enumerate(both, target, kTypicalElements);
  ASSERT_FALSE(space.feasible.empty());
  for (const model::Candidate& candidate : space.feasible) {
    const auto schedule = multi_tensor::Schedule::of(candidate.schedule);
    EXPECT_LE(schedule.threads * schedule.vector * 2, 1024);
  }
}

/// Kernels over lists: the family's default first, then by cost, and all of them fit.
TEST(Space, OfLists) {
  multi_tensor::Facts adamw{.inputs = 4, .outputs = 3, .bytesRead = 16, .bytesWritten = 12};
  multi_tensor::Facts norm{.inputs = 1, .bytesRead = 4};
  for (std::string_view arch : {"sm_80", "sm_90a"})
    for (const multi_tensor::Facts& f : {adamw, norm}) {
      const Target& target = findTarget(arch);
      Space space = enumerate(f, target, kTypicalElements);
      ASSERT_GT(space.feasible.size(), 50u);
      EXPECT_TRUE(space.feasible[0].schedule == multi_tensor::defaultSchedule(f, target).general());
      std::int64_t refused = 0;
      for (const auto& [rule, fallen] : space.refused)
        refused += fallen.count;
      EXPECT_EQ(refused + static_cast<std::int64_t>(space.feasible.size()), space.tuples);
      for (std::size_t i = 0; i < space.feasible.size(); ++i) {
        EXPECT_TRUE(
            multi_tensor::check(multi_tensor::Schedule::of(space.feasible[i].schedule), f, target)
                .empty());
        if (i > 1) {
          EXPECT_LE(space.feasible[i - 1].cost.total, space.feasible[i].cost.total);
        }
      }
    }
}

} // namespace
