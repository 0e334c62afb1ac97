// Each rule that a schedule of attention may break, with its numbers.
#include "codegen/families/attention/Resources.h"
#include "codegen/families/attention/cost/Cost.h"
#include "test/unit/AttentionRules.h"

#include <gmock/gmock.h>

namespace kiln::attention {
namespace {

/// Of a pair representation: all that holding a bias asks for.
Facts pairFacts() {
  Facts pair = facts();
  pair.isMapped = pair.isBiasMapped = true;
  pair.biasBytes = 2;
  pair.sharing = 256;
  pair.knownKeys = 256;
  return pair;
}
Schedule byWarpgroups() {
  Schedule schedule;
  schedule.products = Products::warpgroups;
  return schedule;
}
Schedule holding() {
  Schedule schedule = byWarpgroups();
  schedule.bias = Bias::held;
  schedule.queries = 128;
  schedule.stages = 4;
  schedule.groups = 16;
  schedule.side = 2;
  return schedule;
}

using testing::HasSubstr;

TEST(AttentionRules, GoodOnesBreakNone) {
  EXPECT_EQ(violations({}, facts()), "");
  EXPECT_EQ(violations(byWarpgroups(), pairFacts()), "");
  EXPECT_EQ(violations(holding(), pairFacts()), "");
}

TEST(AttentionRules, TextReadsBack) {
  Schedule resident = byWarpgroups();
  resident.grid = Grid::resident;
  for (const Schedule& schedule : {Schedule(), byWarpgroups(), holding(), resident})
    EXPECT_EQ(Schedule::of(schedule.general()), schedule);
  EXPECT_EQ(toText(holding().general()),
            "#kiln.schedule<attention, queries = 128, keys = 64, stages = 4, blocks = 1, launch = "
            "programmatic, groups = 16, products = warpgroups, bias = held, side = 2>");
}

TEST(AttentionRules, NumbersOfTheKnobs) {
  const auto problem = [](auto change) {
    Schedule schedule;
    change(schedule);
    return scheduleForm.problemOf(schedule.general());
  };
  EXPECT_EQ(problem([](Schedule& s) { s.queries = 24; }),
            "queries = 24: a multiple of 16 from 16 to 256 is allowed");
  EXPECT_EQ(problem([](Schedule& s) { s.keys = 272; }),
            "keys = 272: a multiple of 16 from 16 to 256 is allowed");
  EXPECT_EQ(problem([](Schedule& s) { s.stages = 9; }), "stages = 9: 1 to 8 are allowed");
  EXPECT_EQ(problem([](Schedule& s) { s.blocks = 0; }),
            "blocks = 0: 1 to 32 blocks a multiprocessor are allowed");
  EXPECT_EQ(problem([](Schedule& s) { s.groups = 2000; }),
            "groups = 2000: 1 to 1024 groups of heads are allowed");
  EXPECT_EQ(problem([](Schedule& s) { s.side = 5; }),
            "side = 5: 1 to 4 heads side by side are allowed");
}

TEST(AttentionRules, ProductsOfWarpgroups) {
  EXPECT_EQ(violations(byWarpgroups(), pairFacts(), "sm_120"),
            "products: products = warpgroups needs sm_90a, the target is sm_120\n");
  Facts f = pairFacts();
  f.bytes = 4;
  EXPECT_THAT(
      violations(byWarpgroups(), f),
      HasSubstr("products: products = warpgroups is of bf16 or fp16, of forward kernels, of all "
                "gradients without a bias and, with bias = held, of gradients\n"));
  EXPECT_THAT(violations(byWarpgroups(), facts()),
              HasSubstr("needs queries, keys and values whose strides are known to be multiples of "
                        "16 bytes, and heads that lie in two strides\n"));
  f = pairFacts(), f.valueWidth = 24;
  EXPECT_THAT(violations(byWarpgroups(), f),
              HasSubstr("takes rows of 8, 16, 32, 64, 128, 192 or 256 elements, not 24\n"));
  Schedule s = byWarpgroups();
  s.queries = 80;
  EXPECT_THAT(violations(s, pairFacts()),
              HasSubstr("queries = 80: multiples of 64 up to 192 with products = warpgroups\n"));
  s = byWarpgroups(), s.keys = 112;
  EXPECT_THAT(violations(s, pairFacts()), HasSubstr("keys = 112: multiples of 16 up to 96, 128"));
  s = byWarpgroups(), s.keys = 256, s.blocks = 4;
  EXPECT_THAT(
      violations(s, pairFacts()),
      HasSubstr("products = warpgroups: 256 keys and rows of 32 elements take 158 registers "
                "a thread, 4 blocks begin with 64\n"));
}

TEST(AttentionRules, Turns) {
  const auto broken = [](auto change) {
    Facts facts;
    facts.kind = Kind::keyGradient;
    facts.isMapped = facts.sumsQueries = facts.canTakeTurns = true;
    facts.width = facts.valueWidth = 128;
    Schedule schedule = byWarpgroups();
    schedule.keys = 128;
    change(schedule, facts);
    return violations(schedule, facts);
  };
  EXPECT_EQ(broken([](Schedule&, Facts&) {}), "");
  EXPECT_EQ(broken([](Schedule& s, Facts& f) { f.width = f.valueWidth = 64, s.queries = 128; }),
            "");
  EXPECT_THAT(broken([](Schedule&, Facts& f) { f.isMapped = false; }),
              HasSubstr("needs queries, keys and values whose strides are known"));
  EXPECT_THAT(broken([](Schedule& s, Facts&) { s.queries = 32; }),
              HasSubstr("products: queries = 32: multiples of 64 with products = warpgroups of all "
                        "gradients\n"));
  EXPECT_THAT(broken([](Schedule& s, Facts& f) { f.width = 64, s.keys = 192; }),
              HasSubstr("products: products = warpgroups of all gradients: the gradients of 64 "
                        "queries are 2 pieces of 64 x 32, which 3 warpgroups of 64 keys cannot "
                        "share\n"));
  EXPECT_THAT(broken([](Schedule& s, Facts&) { s.stages = 1; }),
              HasSubstr("stages: stages = 1: all gradients in one kernel need 2 or more\n"));
  EXPECT_THAT(broken([](Schedule& s, Facts&) { s.stages = 3; }),
              HasSubstr("shared memory: 263816 bytes for these tiles, sm_90a allows 232448\n"));
  EXPECT_THAT(broken([](Schedule& s, Facts&) { s.queries = 128; }),
              HasSubstr("registers: about 304 registers a thread needed, 1 blocks of 384 threads "
                        "leave 240 on sm_90a\n"));
}

TEST(AttentionRules, HeldBiases) {
  const auto broken = [](auto change) {
    Schedule schedule = holding();
    Facts facts = pairFacts();
    change(schedule, facts);
    return violations(schedule, facts);
  };
  EXPECT_EQ(broken([](Schedule&, Facts& f) { f.biasBytes = 0, f.knownKeys = 0; }), "");
  const auto open = [](Schedule& s, Facts& f) {
    f.biasBytes = 0, f.sharing = 0;
    s.groups = s.side = 1;
  };
  EXPECT_EQ(broken(open), "");
  EXPECT_THAT(broken([&](Schedule& s, Facts& f) { open(s, f), s.groups = 2; }),
              HasSubstr("without a bias takes one head a block where the function's type does not "
                        "tell how many there are: groups = 1 and side = 1\n"));
  EXPECT_THAT(broken([](Schedule& s, Facts&) { s.products = Products::threads; }),
              HasSubstr("bias: bias = held needs products = warpgroups, or of warps\n"));
  EXPECT_THAT(
      broken([](Schedule& s, Facts&) { s.products = Products::warps; }),
      HasSubstr("products: bias = held with products = warps takes rows of 8 elements of bf16 or "
                "fp16, not 32 and 32\n"));
  EXPECT_THAT(broken([](Schedule&, Facts& f) { f.knownKeys = 0; }),
              HasSubstr("bias = held needs a number of keys that the function's type tells"));
  EXPECT_THAT(broken([](Schedule&, Facts& f) { f.isBiasMapped = false; }),
              HasSubstr("bias = held needs a bias of 2 bytes an element whose rows lie densely"));
  EXPECT_THAT(broken([](Schedule&, Facts& f) { f.hasSoftcap = true; }),
              HasSubstr("bias = held needs a positive scale and no softcap\n"));
  EXPECT_THAT(broken([](Schedule&, Facts& f) { f.hasPositiveScale = false; }),
              HasSubstr("bias = held needs a positive scale and no softcap\n"));
  EXPECT_THAT(broken([](Schedule& s, Facts&) { s.groups = 512; }),
              HasSubstr("groups: groups = 512: 256 heads share a bias\n"));
  EXPECT_THAT(broken([](Schedule& s, Facts&) { s.queries = 256, s.side = 4; }),
              HasSubstr("threads: 2176 threads for these tiles, 1024 are allowed\n"));
  EXPECT_THAT(broken([](Schedule&, Facts& f) { f.knownKeys = 1024; }),
              HasSubstr("shared memory: 381256 bytes for these tiles, sm_90a allows 232448\n"));
}

TEST(AttentionRules, HeldBiasesOfGradients) {
  const auto broken = [](Kind kind, auto change) {
    Schedule schedule = holding();
    schedule.queries = 32, schedule.keys = 128, schedule.side = 1;
    Facts facts = pairFacts();
    facts.kind = kind;
    facts.keyHeads = facts.heads;
    facts.knownQueries = 256;
    change(schedule, facts);
    return violations(schedule, facts);
  };
  EXPECT_EQ(broken(Kind::keyGradient, [](Schedule&, Facts&) {}), "");
  EXPECT_THAT(broken(Kind::keyGradient, [](Schedule&, Facts& f) { f.hasValues = false; }),
              HasSubstr("bias = held computes gradients of keys and of values together"));
  EXPECT_THAT(broken(Kind::keyGradient,
                     [](Schedule&, Facts& f) {
                       f.sharingKeys = 2;
                       f.heads = f.keyHeads = 0; // of an empty batch
                     }),
              HasSubstr("needs as many heads of keys as of queries\n"));
  EXPECT_THAT(broken(Kind::keyGradient, [](Schedule&, Facts& f) { f.knownQueries = 0; }),
              HasSubstr("needs a number of queries that the function's type tells, and not 0\n"));
  EXPECT_THAT(broken(Kind::keyGradient, [](Schedule& s, Facts&) { s.keys = 80; }),
              HasSubstr("keys = 80: multiples of 64 up to 256 with products = warpgroups\n"));
  EXPECT_THAT(broken(Kind::keyGradient, [](Schedule& s, Facts&) { s.queries = 112; }),
              HasSubstr("queries = 112: multiples of 16 up to 96, 128"));
  const auto ofBias = [](Schedule& s, Facts& f) {
    s.queries = 128, s.keys = 64;
    f.knownKeys = f.knownQueries = 0; // it holds a tile
  };
  EXPECT_EQ(broken(Kind::biasGradient, ofBias), "");
}

/// The gradient of the bias, summed beside those of keys and values.
Facts factsOfSums() {
  Facts facts = pairFacts();
  facts.kind = Kind::keyGradient;
  facts.sumsBias = true;
  facts.knownQueries = 256;
  return facts;
}
Schedule ofSums() {
  Schedule schedule = holding();
  schedule.queries = 32, schedule.keys = 128, schedule.side = 1;
  return schedule;
}

TEST(AttentionRules, SumsOfBiasGradients) {
  const Facts facts = factsOfSums();
  Schedule schedule = ofSums();
  EXPECT_EQ(violations(schedule, facts), "");
  EXPECT_EQ(summedTiles(schedule, facts), 8);
  EXPECT_EQ(tilesInRegisters(schedule, facts), 6);
  Facts without = facts;
  without.sumsBias = false; // two tiles of sums, 32 queries with 128 keys, lie in shared memory
  EXPECT_EQ(sharedBytes(schedule, facts) - sharedBytes(schedule, without), 2 * 32 * 128 * 4);
  schedule.queries = 64;
  EXPECT_THAT(violations(schedule, facts),
              HasSubstr("registers: about 240 registers a thread needed"));
  schedule = ofSums(), schedule.keys = 64, schedule.side = 2;
  EXPECT_THAT(violations(schedule, facts),
              HasSubstr("registers: about 240 registers a thread needed"));
}

TEST(AttentionRules, AllGradientsOfNarrowRowsByProductsOfWarps) {
  const auto broken = [](auto change) {
    Schedule schedule = ofSums();
    schedule.products = Products::warps;
    schedule.queries = 256, schedule.stages = 2;
    Facts facts = factsOfSums();
    facts.sumsQueries = true;
    facts.width = facts.valueWidth = 8;
    change(schedule, facts);
    return violations(schedule, facts);
  };
  EXPECT_EQ(broken([](Schedule&, Facts&) {}), "");
  EXPECT_THAT(
      broken([](Schedule& s, Facts&) { s.queries = 128; }),
      HasSubstr("takes all gradients of 128 keys and of all queries, by 128, not of 128 and "
                "128 of 256\n"));
  EXPECT_THAT(
      broken([](Schedule&, Facts& f) { f.knownKeys = 100; }),
      HasSubstr("takes all gradients of up to 128 keys with queries = 128 alone, not 256\n"));
  EXPECT_THAT(broken([](Schedule&, Facts& f) { f.sumsQueries = false; }),
              HasSubstr("is of heads that have a bias, of forward kernels and of all gradients in "
                        "one\n"));
}

TEST(AttentionRules, SumsOfBiasGradientsByWarpsAreASecondKernel) {
  const Facts facts = factsOfSums();
  EXPECT_EQ(partsOf(ofSums(), facts).size(), 1U);
  Schedule byWarps;
  byWarps.groups = 4;
  const std::vector<Part> parts = partsOf(byWarps, facts);
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[0].facts.kind, Kind::keyGradient);
  EXPECT_EQ(parts[1].facts.kind, Kind::biasGradient);
  EXPECT_EQ(parts[1].schedule.groups, 4);
  EXPECT_EQ(violations(byWarps, facts), "");
  const Target& target = findTarget("sm_90a");
  double total = 0;
  for (const Part& part : parts)
    total += costOf(part.schedule, part.facts, target, 0).total;
  EXPECT_DOUBLE_EQ(costOf(byWarps, facts, target, 0).total, total);
  EXPECT_LT(costOf(ofSums(), facts, target, 0).total, total);
}

TEST(AttentionRules, GroupsAndSides) {
  Schedule s;
  s.groups = 2;
  EXPECT_EQ(violations(s, facts()),
            "groups: groups = 2: the gradient of a bias has groups, and bias = held\n");
  s = Schedule(), s.side = 2;
  EXPECT_EQ(violations(s, facts()),
            "side: side = 2: blocks that hold a bias take heads side by side\n");
  Facts f = pairFacts();
  f.kind = Kind::biasGradient;
  s = Schedule();
  EXPECT_EQ(violations(s, f), "stages: stages = 2: the gradient of a bias that is read has 1\n");
  s = holding(), s.stages = 1;
  EXPECT_EQ(violations(s, pairFacts()), "stages: stages = 1: bias = held needs 2 or more\n");
}

/// Two tiles of 192 queries, three stages, what is stored, barriers, three of them for turns, and
/// where two tiles are.
TEST(AttentionRules, BlocksThatStay) {
  const auto broken = [](auto change) {
    Schedule schedule = byWarpgroups();
    schedule.grid = Grid::resident;
    schedule.queries = 192, schedule.keys = 96, schedule.stages = 3;
    Facts facts = pairFacts();
    facts.width = facts.valueWidth = 64;
    facts.biasBytes = 0;
    change(schedule, facts);
    return violations(schedule, facts) +
           std::to_string(sharedBytes(schedule, facts) - 2 * 192 * 128 - 3 * 96 * 256);
  };
  const std::string stored = std::to_string(12 * 16 * (64 + 8) * 2 + (4 + 3 + 12 + 2) * 8);
  EXPECT_EQ(broken([](Schedule&, Facts&) {}), stored);
  const char* refusal = "grid: grid = resident is of forward kernels, with products = warpgroups "
                        "and bias = read\n";
  EXPECT_THAT(broken([](Schedule& s, Facts&) { s.products = Products::warps; }),
              HasSubstr(refusal));
  EXPECT_THAT(broken([](Schedule&, Facts& f) { f.kind = Kind::queryGradient; }),
              HasSubstr(refusal));
  EXPECT_THAT(broken([](Schedule& s, Facts&) { s.bias = Bias::held; }), HasSubstr(refusal));
  const auto ofKeys = [&](std::int64_t keys) {
    return broken([keys](Schedule& s, Facts& f) { s.keys = keys, f.isCausal = true; });
  };
  EXPECT_THAT(ofKeys(128), testing::Not(HasSubstr("registers")));
  EXPECT_THAT(ofKeys(144), HasSubstr("registers: about 172 registers a thread needed, 1 blocks of "
                                     "512 threads leave 160 on sm_90a\n"));
}

TEST(AttentionRules, LimitsOfTheTarget) {
  Schedule s;
  s.queries = 256, s.blocks = 4;
  EXPECT_THAT(violations(s, facts(), "sm_86"),
              HasSubstr("blocks: 4 blocks of 512 threads asked, sm_86 allows 16 blocks and 1536 "
                        "threads a multiprocessor\n"));
  EXPECT_THAT(
      violations({}, facts(), "sm_80"),
      HasSubstr("launch: launch = programmatic needs sm_90 or newer, the target is sm_80\n"));
  s = Schedule(), s.blocks = 8;
  EXPECT_THAT(violations(s, facts()), HasSubstr("registers: about"));
}

} // namespace
} // namespace kiln::attention
