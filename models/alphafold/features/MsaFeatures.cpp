// See MsaFeatures.h.
#include "models/alphafold/features/MsaFeatures.h"

#include "models/alphafold/features/Chemistry.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace kiln::alphafold {

namespace {

constexpr int profileTypes = 22; // without the mask token

Array<std::uint8_t> typesOf(const Msa& msa, const Rows& rows) {
  const std::int64_t length = msa.types.shape[1];
  Array<std::uint8_t> types({std::ssize(rows), length});
  for (std::int64_t row = 0; row < std::ssize(rows); ++row)
    std::copy_n(msa.types.at(rows[row]), length, types.at(row));
  return types;
}

/// A type by its share of 22, whose sum may be off by rounding.
std::uint8_t drawType(const float* shares, double number) {
  for (int type = 0; type < profileTypes; ++type)
    if ((number -= shares[type]) < 0)
      return static_cast<std::uint8_t>(type);
  return static_cast<std::uint8_t>(std::max_element(shares, shares + profileTypes) - shares);
}

std::uint8_t replacement(std::uint8_t type, const float* profile, const ExampleOptions& options,
                         Random& random) {
  double number = random.uniform();
  if ((number -= options.maskUniform) < 0)
    return static_cast<std::uint8_t>(random.below(residueTypes));
  if ((number -= options.maskProfile) < 0)
    return drawType(profile, random.uniform());
  return (number -= options.maskSame) < 0 ? type : std::uint8_t(maskType);
}

/// one-hot 23, has deletion, deletion value: the first 25 of a row's features.
void writeResidue(std::uint8_t type, std::uint16_t deletions, float* to) {
  to[type] = 1;
  to[msaTypes] = deletions > 0 ? 1 : 0;
  to[msaTypes + 1] = deletionValue(deletions);
}

} // namespace

Array<float> msaProfile(const Msa& msa) {
  const std::int64_t rows = msa.types.shape[0], length = msa.types.shape[1];
  Array<std::int64_t> counts({length, profileTypes});
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t r = 0; r < length; ++r)
      ++counts(r, msa.types(row, r));
  Array<float> profile({length, profileTypes});
  std::ranges::transform(counts.values, profile.values.begin(),
                         [&](std::int64_t count) { return float(double(count) / double(rows)); });
  return profile;
}

Rows deleteBlocks(std::int64_t rows, const ExampleOptions& options, Random& random) {
  const auto size = static_cast<std::int64_t>(options.blockShare * double(rows));
  std::vector<bool> isDeleted(rows, false);
  for (std::int64_t block = 0; block < options.deletedBlocks; ++block) {
    const auto begin = static_cast<std::int64_t>(random.below(rows));
    for (std::int64_t row = begin; row < std::min(begin + size, rows); ++row)
      isDeleted[row] = true;
  }
  Rows kept = {0};
  for (std::int64_t row = 1; row < rows; ++row)
    if (!isDeleted[row])
      kept.push_back(row);
  return kept;
}

SampledRows sampleRows(const Rows& from, std::int64_t clusters, Random& random) {
  Rows others(from.begin() + 1, from.end());
  random.shuffle(others);
  const std::int64_t sampled = std::min(clusters - 1, std::ssize(others));
  SampledRows rows{{from[0]}, Rows(others.begin() + sampled, others.end())};
  rows.clusters.insert(rows.clusters.end(), others.begin(), others.begin() + sampled);
  return rows;
}

MaskedMsa maskMsa(const Array<std::uint8_t>& types, const Array<float>& profile,
                  const ExampleOptions& options, Random& random) {
  MaskedMsa result{types, Array<float>(types.shape)};
  for (std::int64_t row = 0; row < types.shape[0]; ++row)
    for (std::int64_t r = 0; r < types.shape[1]; ++r)
      if (random.uniform() < options.maskedShare) {
        result.types(row, r) = replacement(types(row, r), profile.at(r), options, random);
        result.masked(row, r) = 1;
      }
  return result;
}

Rows nearestClusters(const Array<std::uint8_t>& clusters, const Msa& msa, const Rows& extra) {
  const std::int64_t count = clusters.shape[0], length = clusters.shape[1];
  Array<std::uint8_t> counted = clusters;
  for (std::uint8_t& type : counted.values)
    if (type >= gapType)
      type = 255; // which no row has
  Rows nearest;
  nearest.reserve(extra.size());
  for (std::int64_t row : extra) {
    const std::uint8_t* types = msa.types.at(row);
    std::int64_t best = 0, most = -1;
    for (std::int64_t cluster = 0; cluster < count; ++cluster) {
      const std::uint8_t* own = counted.at(cluster);
      std::int64_t agreeing = 0;
      constexpr std::int64_t block = 255; // counts in bytes: as many at a time as a register has
      for (std::int64_t begin = 0; begin < length; begin += block) {
        std::uint8_t equal = 0;
        for (std::int64_t r = begin; r < std::min(begin + block, length); ++r)
          equal = static_cast<std::uint8_t>(equal + (own[r] == types[r] ? 1 : 0));
        agreeing += equal;
      }
      if (agreeing > most) {
        most = agreeing;
        best = cluster;
      }
    }
    nearest.push_back(best);
  }
  return nearest;
}

ClusterSummary summarizeClusters(const Array<std::uint8_t>& clusters, const Msa& msa,
                                 const SampledRows& rows, const Rows& assignment,
                                 std::int64_t begin, std::int64_t length) {
  const std::int64_t count = clusters.shape[0];
  ClusterSummary sums{Array<float>({count, length, msaTypes}), Array<float>({count, length})};
  std::vector<double> members(count, 1);
  const auto add = [&](std::int64_t cluster, const std::uint8_t* types,
                       const std::uint16_t* deletions) {
    float *profile = sums.profile.at(cluster), *deletion = sums.deletionMean.at(cluster);
    for (std::int64_t r = 0; r < length; ++r) {
      ++profile[r * msaTypes + types[begin + r]]; // exact: counts stay below 2^24
      deletion[r] += float(deletions[begin + r]);
    }
  };
  for (std::int64_t cluster = 0; cluster < count; ++cluster)
    add(cluster, clusters.at(cluster), msa.deletions.at(rows.clusters[cluster]));
  for (std::size_t i = 0; i < rows.extra.size(); ++i) {
    add(assignment[i], msa.types.at(rows.extra[i]), msa.deletions.at(rows.extra[i]));
    ++members[assignment[i]];
  }
  for (std::int64_t cluster = 0; cluster < count; ++cluster) {
    const auto share = float(1 / members[cluster]);
    std::for_each_n(sums.profile.at(cluster), length * msaTypes, [&](float& x) { x *= share; });
    std::for_each_n(sums.deletionMean.at(cluster), length, [&](float& x) { x *= share; });
  }
  return sums;
}

float deletionValue(double deletions) {
  return float(std::atan(deletions / 3) * (2 / std::numbers::pi));
}

void makeMsaFeatures(const Msa& msa, const Array<float>& profile, const ExampleOptions& options,
                     std::int64_t pass, std::int64_t begin, std::int64_t length, Random& random,
                     FeatureSet& features) {
  Rows kept(msa.rows());
  std::iota(kept.begin(), kept.end(), 0);
  if (options.deleteBlocks)
    kept = deleteBlocks(msa.rows(), options, random);
  const SampledRows rows = sampleRows(kept, options.clusters, random);
  const Array<std::uint8_t> original = typesOf(msa, rows.clusters);
  const MaskedMsa drawn = maskMsa(original, profile, options, random);
  const Rows assignment = nearestClusters(drawn.types, msa, rows.extra);
  const ClusterSummary summary =
      summarizeClusters(drawn.types, msa, rows, assignment, begin, length);

  for (std::int64_t row = 0; row < std::ssize(rows.clusters); ++row)
    for (std::int64_t r = 0; r < length; ++r) {
      float* feat = features.msaFeat.at(pass, row, r);
      writeResidue(drawn.types(row, begin + r), msa.deletions(rows.clusters[row], begin + r), feat);
      std::copy_n(summary.profile.at(row, r), msaTypes, feat + msaTypes + 2);
      feat[2 * msaTypes + 2] = deletionValue(summary.deletionMean(row, r));
      features.msaMask(pass, row, r) = 1;
      features.trueMsa(pass, row, r) = original(row, begin + r);
      features.bertMask(pass, row, r) = drawn.masked(row, begin + r);
    }
  // Rows of `extra` are in any order, so the first ones are any of them.
  const std::int64_t shown = std::min(options.extraRows, std::ssize(rows.extra));
  for (std::int64_t row = 0; row < shown; ++row)
    for (std::int64_t r = 0; r < length; ++r) {
      const std::int64_t from = rows.extra[row];
      writeResidue(msa.types(from, begin + r), msa.deletions(from, begin + r),
                   features.extraMsaFeat.at(pass, row, r));
      features.extraMsaMask(pass, row, r) = 1;
    }
}

} // namespace kiln::alphafold
