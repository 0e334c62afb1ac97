// Rules and choices of schedules for heads of few rows: threads that have a row, and blocks that
// have all keys of a head.
#include "codegen/families/attention/Resources.h"
#include "test/unit/AttentionRules.h"

#include <gmock/gmock.h>

namespace kiln::attention {
namespace {

using testing::HasSubstr;

TEST(AttentionRules, ByThreads) {
  Schedule schedule;
  schedule.products = Products::threads;
  schedule.keys = 16;
  schedule.stages = 1;
  EXPECT_EQ(violations(schedule, facts()), "");
  EXPECT_EQ(Schedule::of(schedule.general()), schedule);
  schedule.keys = 32;
  EXPECT_THAT(
      violations(schedule, facts()),
      HasSubstr("products: products = threads has no tiles of keys and no stages: keys = 16 "
                "and stages = 1, not 32 and 1"));
  schedule.keys = 16;
  Facts narrow = facts();
  narrow.width = narrow.valueWidth = 8;
  schedule.queries = 16;
  EXPECT_THAT(
      violations(schedule, narrow),
      HasSubstr("products: products = threads has 1 for a row of 8 elements, and 16 rows are "
                "not whole warps of 32"));
  Facts bias = facts();
  bias.kind = Kind::biasGradient;
  EXPECT_THAT(violations(schedule, bias),
              HasSubstr("products: products = threads is of forward kernels, of gradients of "
                        "queries, and of gradients of keys and values, each by itself"));
}

/// AlphaFold's pointwise attention of templates: one query and four keys.
TEST(AttentionRules, FewRowsOfAHeadAreLeftToThreads) {
  Facts few = facts();
  few.width = few.valueWidth = 16;
  few.queries = 1;
  few.keys = few.places = 4;
  few.heads = few.keyHeads = 262144;
  for (Kind kind : {Kind::forward, Kind::queryGradient, Kind::keyGradient}) {
    few.kind = kind;
    EXPECT_EQ(defaultSchedule(few, findTarget("sm_90a")).products, Products::threads);
    EXPECT_EQ(defaultSchedule(few, findTarget("sm_80")).products, Products::threads);
  }
  EXPECT_NE(defaultSchedule(facts(), findTarget("sm_90a")).products, Products::threads);
}

/// All gradients of 132 queries and keys, as columns of AlphaFold's alignments have.
Facts columnFacts() {
  Facts facts;
  facts.kind = Kind::keyGradient;
  facts.isMapped = facts.sumsQueries = true;
  facts.width = facts.valueWidth = 32;
  facts.queries = facts.keys = 132;
  facts.knownQueries = facts.knownKeys = 132;
  facts.heads = facts.keyHeads = 256 * 8;
  facts.places = 132 * 132;
  facts.sharing = 0;
  return facts;
}

TEST(AttentionRules, Heads) {
  const auto broken = [](auto change) {
    Facts facts = columnFacts();
    Schedule schedule;
    schedule.products = Products::heads;
    schedule.queries = schedule.keys = 144;
    schedule.stages = 1;
    change(schedule, facts);
    return violations(schedule, facts);
  };
  EXPECT_EQ(broken([](Schedule& s, Facts&) { s.blocks = 2; }), "");
  EXPECT_EQ(broken([](Schedule& s, Facts&) { s.queries = s.keys = 160; }), "");
  const auto forward = [](Schedule&, Facts& f) {
    f.kind = Kind::forward, f.sumsQueries = false, f.hasSoftcap = true;
  };
  EXPECT_EQ(broken(forward), "");
  EXPECT_THAT(broken([](Schedule&, Facts& f) { f.sumsQueries = false; }),
              HasSubstr("products: products = heads is of forward kernels and of the gradients of "
                        "queries, keys and values in one kernel without a bias\n"));
  EXPECT_THAT(broken([](Schedule&, Facts& f) { f.bytes = 4; }),
              HasSubstr("products: products = heads is of bf16 or fp16\n"));
  EXPECT_THAT(broken([](Schedule&, Facts& f) { f.hasSoftcap = true; }),
              HasSubstr("products = heads of gradients needs a positive scale and no softcap\n"));
  EXPECT_THAT(broken([](Schedule&, Facts& f) { f.knownKeys = 0; }),
              HasSubstr("products = heads needs a number of keys that the function's type tells, "
                        "not 0, and that is no more than keys = 144, not ?\n"));
  EXPECT_THAT(broken([](Schedule&, Facts& f) { f.knownKeys = 150; }),
              HasSubstr("no more than keys = 144, not 150\n"));
  EXPECT_THAT(broken([](Schedule& s, Facts&) { s.keys = 160; }),
              HasSubstr("products = heads of keys = 160 takes queries by 32, not 144\n"));
  EXPECT_THAT(broken([](Schedule& s, Facts&) { s.stages = 2; }),
              HasSubstr("products = heads has no stages: stages = 1, not 2\n"));
}

TEST(AttentionRules, ColumnsAreByHeads) {
  Facts facts = columnFacts();
  for (bool isForward : {false, true}) {
    if (isForward)
      facts.kind = Kind::forward, facts.sumsQueries = false;
    const Schedule best = defaultSchedule(facts, findTarget("sm_90a"));
    EXPECT_EQ(best.products, Products::heads);
    EXPECT_EQ(best.keys, 144);
    EXPECT_EQ(best.queries, 144);
  }
}

} // namespace
} // namespace kiln::attention
