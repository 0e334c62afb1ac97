// The search space of row kernels: complete, feasible, ordered, and the same every time.
#include "test/unit/RowFacts.h"

#include <gtest/gtest.h>

#include <algorithm>

using namespace kiln;
using namespace kiln::model;
using kiln::test::rowFacts;

namespace {

TEST(Space, AllThatIsOfferedFits) {
  for (std::string_view arch : {"sm_80", "sm_86", "sm_90a", "sm_120"})
    for (std::int64_t width : {1, 7, 128, 1000, 16384})
      for (bool sums : {false, true}) {
        rows::Facts f = rowFacts(width, sums);
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
  rows::Facts f = rowFacts(8);
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
              likely += fits(s, f, target) && unlikelyTerm(s, f, target) == 0.0;
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
      rows::Facts f = rowFacts(width, kind & 1);
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
  rows::Facts f = rowFacts(4096);
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
    const Space space = enumerate(rowFacts(128), findTarget(arch), Listing::likely);
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
      ASSERT_LE(leastCost(schedule, f, target, typicalRows(f)),
                space.feasible[i].cost.total * (1 + 1e-12))
          << toText(schedule) << " width " << f.width;
    }
  }
}

TEST(Space, SameAnswerEveryTimeCheapestFirst) {
  for (bool sums : {false, true}) {
    rows::Facts f = rowFacts(384, sums);
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
  rows::Facts f = rowFacts(8192);
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

} // namespace
