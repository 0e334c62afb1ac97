// What a pass draws from an alignment: each part against the supplement's formula over one-hot
// arrays, in double loops, and draws against their probabilities.
#include "Helpers.h"

#include "models/alphafold/features/MsaFeatures.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <set>

namespace kiln::alphafold::test {

namespace {

Rows upTo(std::int64_t count) {
  Rows rows(count);
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

/// Within 4.5 standard deviations of a binomial distribution.
void expectShare(std::int64_t hits, std::int64_t trials, double share) {
  const double deviation = std::sqrt(double(trials) * share * (1 - share));
  EXPECT_NEAR(double(hits), double(trials) * share, 4.5 * deviation + 1) << "of " << trials;
}

TEST(MsaProfile, IsTheMeanOfOneHots) {
  const Msa msa = randomChain(11, 40, 0, 1).msa;
  const Array<float> profile = msaProfile(msa);
  for (std::int64_t r = 0; r < 11; ++r)
    for (int type = 0; type < 22; ++type) {
      double sum = 0;
      for (std::int64_t row = 0; row < 40; ++row)
        sum += msa.types(row, r) == type ? 1 : 0;
      EXPECT_FLOAT_EQ(profile(r, type), float(sum / 40));
    }
}

TEST(MsaBlocks, AreDeletedAndTheFirstRowStays) {
  ExampleOptions options;
  Random random(1);
  std::vector<int> kept(1000);
  constexpr int trials = 2000;
  for (int trial = 0; trial < trials; ++trial) {
    const Rows rows = deleteBlocks(1000, options, random);
    EXPECT_EQ(rows[0], 0);
    EXPECT_TRUE(std::ranges::is_sorted(rows, std::less_equal()));
    EXPECT_LE(rows.back(), 999);
    EXPECT_LE(1000 - std::ssize(rows), 5 * 300);
    for (std::int64_t row : rows)
      ++kept[row];
  }
  // A row survives if none of five blocks begins in the 300 rows that end with it.
  expectShare(kept[500], trials, std::pow(0.7, 5));
  expectShare(kept[999], trials, std::pow(0.7, 5));
  expectShare(kept[99], trials, std::pow(0.9, 5));
  EXPECT_EQ(deleteBlocks(1, options, random), (Rows{0}));
  EXPECT_EQ(deleteBlocks(3, options, random), (Rows{0, 1, 2})) << "0.3 x 3 rows are none";
}

TEST(MsaRows, AreSampledWithoutRepetition) {
  Random random(2);
  std::map<std::int64_t, int> firsts;
  for (int trial = 0; trial < 3000; ++trial) {
    const SampledRows rows = sampleRows({0, 3, 5, 7, 9, 11}, 3, random);
    ASSERT_EQ(rows.clusters.size(), 3U);
    EXPECT_EQ(rows.clusters[0], 0);
    std::set<std::int64_t> all(rows.clusters.begin(), rows.clusters.end());
    all.insert(rows.extra.begin(), rows.extra.end());
    EXPECT_EQ(all, (std::set<std::int64_t>{0, 3, 5, 7, 9, 11}));
    ++firsts[rows.clusters[1]];
  }
  for (std::int64_t row : {3, 5, 7, 9, 11})
    expectShare(firsts[row], 3000, 0.2);
  const SampledRows few = sampleRows({0, 2}, 5, random);
  EXPECT_EQ(few.clusters, (Rows{0, 2}));
  EXPECT_TRUE(few.extra.empty());
}

TEST(MsaMask, ReplacesAsOftenAsItSays) {
  constexpr std::int64_t rows = 500, length = 400;
  Array<std::uint8_t> types({rows, length}, 5); // Q everywhere, a gap in the last column
  Array<float> profile({length, 22});
  for (std::int64_t r = 0; r < length; ++r) {
    profile(r, 5) = 0.5;
    profile(r, 9) = 0.25;
    profile(r, gapType) = 0.25;
  }
  Random random(3);
  const MaskedMsa drawn = maskMsa(types, profile, {}, random);
  std::map<int, std::int64_t> counts;
  std::int64_t masked = 0;
  for (std::size_t i = 0; i < types.values.size(); ++i)
    if (drawn.masked.values[i] == 1) {
      ++masked;
      ++counts[drawn.types.values[i]];
    } else {
      EXPECT_EQ(drawn.masked.values[i], 0);
      ASSERT_EQ(drawn.types.values[i], 5);
    }
  expectShare(masked, rows * length, 0.15);
  expectShare(counts[maskType], masked, 0.7);
  expectShare(counts[5], masked, 0.1 + 0.1 * 0.5 + 0.1 / 20); // itself, the profile, uniform
  expectShare(counts[9], masked, 0.1 * 0.25 + 0.1 / 20);
  expectShare(counts[gapType], masked, 0.1 * 0.25);
  expectShare(counts[0], masked, 0.1 / 20);
  EXPECT_EQ(counts[unknownType], 0);
}

TEST(MsaMask, NothingIsMaskedWhereNothingIsTo) {
  const Msa msa = randomChain(50, 20, 0, 4).msa;
  ExampleOptions options;
  options.maskedShare = 0;
  Random random(5);
  EXPECT_EQ(maskMsa(msa.types, msaProfile(msa), options, random).types, msa.types);
}

/// A clustering of a random alignment with mask tokens in the clusters.
struct Clustering {
  Msa msa;
  SampledRows rows;
  Array<std::uint8_t> clusters;

  Clustering(std::int64_t length, std::int64_t count, std::int64_t clustered, std::uint64_t seed)
      : msa(randomChain(length, count, 0, seed).msa) {
    Random random(seed);
    rows = sampleRows(upTo(count), clustered, random);
    clusters = Array<std::uint8_t>({std::ssize(rows.clusters), length});
    for (std::int64_t c = 0; c < std::ssize(rows.clusters); ++c)
      for (std::int64_t r = 0; r < length; ++r)
        clusters(c, r) = random.uniform() < 0.2 ? maskType : msa.types(rows.clusters[c], r);
  }
};

TEST(MsaClusters, AreNearestByTheProductOfOneHots) {
  for (std::int64_t length : {7, 254, 255, 256, 700}) {
    const Clustering from(length, 60, 9, 6);
    const Rows nearest = nearestClusters(from.clusters, from.msa, from.rows.extra);
    ASSERT_EQ(nearest.size(), from.rows.extra.size());
    for (std::size_t e = 0; e < nearest.size(); ++e) {
      std::vector<double> agreement;
      for (std::int64_t c = 0; c < from.clusters.shape[0]; ++c) {
        double sum = 0;
        for (std::int64_t r = 0; r < length; ++r)
          for (int type = 0; type < msaTypes; ++type) {
            const double weight = type < gapType ? 1 : 0; // neither gaps nor mask tokens count
            sum += weight * (from.clusters(c, r) == type ? 1 : 0) *
                   (from.msa.types(from.rows.extra[e], r) == type ? 1 : 0);
          }
        agreement.push_back(sum);
      }
      EXPECT_EQ(nearest[e], std::ranges::max_element(agreement) - agreement.begin());
    }
  }
}

TEST(MsaClusters, AreSummedUpOverTheirMembers) {
  const std::int64_t length = 30, begin = 4, shown = 20;
  const Clustering from(length, 80, 6, 7);
  const Rows nearest = nearestClusters(from.clusters, from.msa, from.rows.extra);
  const ClusterSummary summary =
      summarizeClusters(from.clusters, from.msa, from.rows, nearest, begin, shown);
  for (std::int64_t c = 0; c < 6; ++c)
    for (std::int64_t r = 0; r < shown; ++r) {
      const std::int64_t column = begin + r;
      double members = 1, deletions = from.msa.deletions(from.rows.clusters[c], column);
      std::vector<double> counts(msaTypes);
      ++counts[from.clusters(c, column)];
      for (std::size_t e = 0; e < nearest.size(); ++e)
        if (nearest[e] == c) {
          ++members;
          ++counts[from.msa.types(from.rows.extra[e], column)];
          deletions += from.msa.deletions(from.rows.extra[e], column);
        }
      for (int type = 0; type < msaTypes; ++type)
        EXPECT_NEAR(summary.profile(c, r, type), counts[type] / members, 1e-6);
      EXPECT_NEAR(summary.deletionMean(c, r), deletions / members, 1e-6);
    }
}

TEST(MsaFeatures, HaveTheirColumns) {
  const std::int64_t length = 25, begin = 3, shown = 15, crop = 18;
  const Msa msa = randomChain(length, 50, 0, 8).msa;
  ExampleOptions options;
  options.clusters = 12;
  options.extraRows = 16;
  options.deleteBlocks = false;
  FeatureSet f;
  f.msaFeat = Array<float>({2, 12, crop, 49});
  f.msaMask = f.bertMask = Array<float>({2, 12, crop});
  f.trueMsa = Array<std::int64_t>({2, 12, crop});
  f.extraMsaFeat = Array<float>({2, 16, crop, 25});
  f.extraMsaMask = Array<float>({2, 16, crop});
  Random random(9), again(9);
  makeMsaFeatures(msa, msaProfile(msa), options, 1, begin, shown, random, f);

  // The same draws, put together once more.
  const SampledRows rows = sampleRows(upTo(50), 12, again);
  Array<std::uint8_t> types({12, length});
  for (std::int64_t s = 0; s < 12; ++s)
    std::copy_n(msa.types.at(rows.clusters[s]), length, types.at(s));
  const MaskedMsa drawn = maskMsa(types, msaProfile(msa), options, again);
  const Rows nearest = nearestClusters(drawn.types, msa, rows.extra);
  const ClusterSummary summary = summarizeClusters(drawn.types, msa, rows, nearest, 0, length);
  const auto value = [](double d) { return 2 / std::numbers::pi * std::atan(d / 3); };
  for (std::int64_t s = 0; s < 12; ++s)
    for (std::int64_t r = 0; r < crop; ++r) {
      const float* feat = f.msaFeat.at(1, s, r);
      if (r >= shown) {
        EXPECT_EQ(std::count(feat, feat + 49, 0.0F), 49);
        EXPECT_EQ(f.msaMask(1, s, r), 0);
        continue;
      }
      const std::int64_t column = begin + r;
      const double deletions = msa.deletions(rows.clusters[s], column);
      for (int type = 0; type < 23; ++type) {
        EXPECT_EQ(feat[type], drawn.types(s, column) == type ? 1 : 0);
        EXPECT_EQ(feat[25 + type], summary.profile(s, column, type));
      }
      EXPECT_EQ(feat[23], deletions > 0 ? 1 : 0);
      EXPECT_NEAR(feat[24], value(deletions), 1e-6);
      EXPECT_NEAR(feat[48], value(summary.deletionMean(s, column)), 1e-6);
      EXPECT_EQ(f.trueMsa(1, s, r), types(s, column));
      EXPECT_EQ(f.bertMask(1, s, r), drawn.masked(s, column));
      EXPECT_EQ(f.msaMask(1, s, r), 1);
      EXPECT_EQ(f.msaMask(0, s, r), 0) << "another pass is left alone";
    }
  for (std::int64_t e = 0; e < 16; ++e)
    for (std::int64_t r = 0; r < shown; ++r) {
      const float* feat = f.extraMsaFeat.at(1, e, r);
      const std::int64_t from = rows.extra[e];
      for (int type = 0; type < 23; ++type)
        EXPECT_EQ(feat[type], msa.types(from, begin + r) == type ? 1 : 0);
      EXPECT_EQ(feat[23], msa.deletions(from, begin + r) > 0 ? 1 : 0);
      EXPECT_NEAR(feat[24], value(msa.deletions(from, begin + r)), 1e-6);
      EXPECT_EQ(f.extraMsaMask(1, e, r), 1);
    }
}

} // namespace

} // namespace kiln::alphafold::test
