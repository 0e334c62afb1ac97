// The fit of the ranking, on six keys of a sweep on an H200 (six_keys_h200.json, saved by
// fit_cost): what the regret counts, that shortlists tell the same as whole spaces, and that
// constants which were made wrong are found again or do no harm.
#include "bench/fit_cost/Fit.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <cmath>

using namespace kiln;
using namespace kiln::bench;
using namespace kiln::model;

namespace {

using Part = CostConstant::Part;

/// Read once for all tests.
const std::vector<TunedKey>& keys() {
  static const std::vector<TunedKey> all = [] {
    const std::filesystem::path file =
        std::filesystem::path(KILN_SOURCE_FOLDER) / "test/bench/six_keys_h200.json";
    std::vector<std::string> skipped;
    std::vector<TunedKey> keys = tunedKeys({&file, 1}, skipped);
    EXPECT_THAT(skipped, testing::IsEmpty());
    return keys;
  }();
  return all;
}

/// By whole spaces.
Ranking ranking(const CostConstants& k) {
  return figuresOf(rank(keys(), k), k).ranking;
}

/// Elements of tiles that threads load and sums are dear, elements of rings cheap.
const std::vector<std::string> kWrong = {"element", "partials", "ringElement"};
CostConstants wrong() {
  CostConstants k = kCostConstants;
  k.element *= 4;
  k.partials *= 4;
  k.ringElement /= 4;
  return k;
}

TEST(Regret, IsWhatTheDefaultLosesAndMoreWhereFiguresCountIt) {
  TunedKey key;
  for (double microseconds : {10.0, 10.2, 10.8, 12.0, 50.0})
    key.samples.push_back({"", {}, microseconds, false, false});
  const auto of = [&](std::vector<std::size_t> places) { return regretOf(key, places); };
  EXPECT_DOUBLE_EQ(of({0, 1, 2, 3, 4}), 0);
  EXPECT_DOUBLE_EQ(of({7, 9, 0, 10, 11}), std::log(1.08)) << "the best is among the best eight";
  EXPECT_DOUBLE_EQ(of({9, 1, 0, 10, 11}), std::log(1.08)) << "and one within 3 % is as good";
  EXPECT_GT(of({8, 9, 0, 10, 11}), std::log(1.08) + 0.01) << "eight without a fast one";
  EXPECT_GT(of({1, 2, 3, 0, 4}), std::log(1.2) + 0.01) << "beyond 1.10";
  EXPECT_LT(of({1, 2, 3, 4, 0}), std::log(5)) << "however slow, it is one default";
  EXPECT_GT(of({1, 2, 3, 4, 0}), of({1, 2, 3, 0, 4}));
  EXPECT_GT(of({1, 2, 3, 4, 5}), of({1, 2, 0, 4, 5})) << "an unknown default is no good one";
}

TEST(Regret, ShortlistsTellItAsWholeSpacesDo) {
  CostConstants near = kCostConstants, further = kCostConstants;
  near.element *= 1.3;
  near.ring /= 1.3;
  further.ringUnder *= 2;
  further.tail *= 2;
  for (const CostConstants& k : {kCostConstants, near, further}) {
    double sum = 0;
    for (const TunedKey& key : keys())
      sum += Shortlist(key, kCostConstants).judge(k).regret;
    EXPECT_NEAR(sum, ranking(k).regret, 1e-9);
  }
  double sum = 0;
  for (const TunedKey& key : keys())
    sum += Shortlist(key, wrong()).judge(wrong()).regret;
  EXPECT_NEAR(sum, ranking(wrong()).regret, 1e-9) << "exactly where it was made";
}

TEST(FitRanking, FindsAsGoodFiguresFromWrongConstants) {
  const Ranking before = ranking(wrong()), good = ranking(kCostConstants);
  ASSERT_GT(good.bestEight.count, before.bestEight.count);
  ASSERT_GT(good.standard.count, before.standard.count);
  const CostConstants found = fitToRegret({Part::ranking, kWrong}, keys(), wrong());
  EXPECT_GE(ranking(found).bestEight.count, good.bestEight.count);
  EXPECT_GE(ranking(found).standard.count, good.standard.count);
  EXPECT_LT(ranking(found).regret, ranking(wrong()).regret / 2);
  for (const CostConstant& constant : kAllCostConstants)
    if (std::ranges::find(kWrong, constant.name) == kWrong.end()) {
      EXPECT_EQ(found.*constant.member, kCostConstants.*constant.member) << constant.name;
    }
}

TEST(FitRanking, NeverMakesTheRegretMoreAndLeavesWhatNoKeyTells) {
  const std::vector<std::string> names = {"ring", "tail", "narrow", "narrowRow"};
  const CostConstants found = fitToRegret({Part::ranking, names}, keys(), kCostConstants);
  EXPECT_LE(ranking(found).regret, ranking(kCostConstants).regret);
  EXPECT_EQ(found.narrowRow, kCostConstants.narrowRow) << "no key has such rows";
}

TEST(FitRanking, TellsHowFarBothDescentsAre) {
  std::atomic<int> first = 0, second = 0;
  const std::vector<std::string> names = {"ring"};
  fitToRegret({Part::ranking, names}, keys(), kCostConstants, [&](const std::string& text) {
    first += text.starts_with("from the start: regret ");
    second += text.starts_with("from the least errors: regret ");
  });
  EXPECT_GE(first, 1);
  EXPECT_GE(second, 1);
}

} // namespace
