// What attention's cost model chooses where nothing is tuned, and that it chooses something.
#include "codegen/families/attention/Resources.h"
#include "test/Errors.h"
#include "test/unit/AttentionRules.h"

#include <gmock/gmock.h>

namespace kiln::attention {
namespace {

using testing::HasSubstr;

TEST(AttentionDefaults, LongHeadsTakeTurns) {
  for (std::int64_t width : {64, 128})
    for (bool isCausal : {false, true})
      for (double rows : {512, 1024, 2048, 4096, 16384}) {
        if (rows * static_cast<double>(width) < 512 * 128 && !isCausal)
          continue; // kernels of their own
        Facts facts;
        facts.kind = Kind::keyGradient;
        facts.isMapped = facts.sumsQueries = facts.canTakeTurns = true;
        facts.isCausal = isCausal;
        facts.width = facts.valueWidth = width;
        facts.queries = facts.keys = rows;
        facts.heads = facts.keyHeads = 16384 / rows * (2048.0 / static_cast<double>(width));
        for (bool isKnown : {false, true}) { // how many heads there are
          facts.sharing = isKnown ? static_cast<std::int64_t>(facts.heads) : 0;
          const Schedule best = defaultSchedule(facts, findTarget("sm_90a"));
          EXPECT_TRUE(takesTurns(best, facts)) << width << " " << rows << " " << isCausal;
          EXPECT_EQ(best.keys, 128);
          EXPECT_EQ(best.queries, width == 64 ? 128 : 64);
        }
      }
}

TEST(AttentionDefaults, BlocksStayByDefaultWhereThatIsFaster) {
  const auto stays = [](double rows, std::int64_t width, bool isCausal) {
    Facts facts;
    facts.isMapped = true;
    facts.isCausal = isCausal;
    facts.width = facts.valueWidth = width;
    facts.queries = facts.keys = rows;
    facts.heads = facts.keyHeads = 16384 / rows * (2048.0 / static_cast<double>(width));
    facts.sharing = static_cast<std::int64_t>(facts.heads);
    return isResident(defaultSchedule(facts, findTarget("sm_90a")));
  };
  for (bool isCausal : {false, true}) {
    for (double rows : {512, 1024})
      EXPECT_FALSE(stays(rows, 64, isCausal)) << rows << " " << isCausal;
    for (double rows : {2048, 4096, 8192, 16384})
      EXPECT_TRUE(stays(rows, 64, isCausal)) << rows << " " << isCausal;
    for (double rows : {512, 1024, 2048})
      EXPECT_TRUE(stays(rows, 128, isCausal)) << rows << " " << isCausal;
    for (double rows : {4096, 8192})
      EXPECT_EQ(stays(rows, 128, isCausal), isCausal) << rows;
    EXPECT_FALSE(stays(16384, 128, isCausal)) << isCausal;
  }
  EXPECT_FALSE(stays(4096, 32, false)) << "not timed";
}

TEST(AttentionDefaults, WideRowsWithAnythingHaveASchedule) {
  for (const char* arch : {"sm_80", "sm_86", "sm_90a", "sm_120"})
    for (Kind kind : {Kind::forward, Kind::queryGradient, Kind::keyGradient})
      for (int bytes : {2, 4})
        for (int more = 0; more < 16; ++more) {
          Facts f = facts();
          f.kind = kind, f.bytes = f.outBytes = f.otherOutBytes = f.queryOutBytes = bytes;
          f.width = f.valueWidth = 256;
          f.hasValues = false; // gradients of wide keys and of wide values are kernels of their own
          f.isCausal = f.hasDropout = more & 1, f.hasSoftcap = more & 2;
          f.hasMask = f.masksPlaces = more & 4, f.biasBytes = more & 8 ? 4 : 0;
          const Target& target = findTarget(arch);
          const Schedule s = defaultSchedule(f, target);
          EXPECT_TRUE(check(s, f, target).empty()) << arch << " " << more;
          f.spills = 20; // of what was tried
          EXPECT_THAT(test::errorOf(ErrorKind::infeasible, [&] { defaultSchedule(f, target); }),
                      HasSubstr(" by registers: about "));
        }
}

} // namespace
} // namespace kiln::attention
