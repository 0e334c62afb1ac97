// What a pass of recycling draws from an alignment (supplement 1.2.6 to 1.2.9): blocks are deleted,
// clusters and extra rows sampled, residues masked, extra rows counted into the nearest cluster.
// N rows of the whole alignment, S clusters, E extra rows, R residues; types are 0..22.
#pragma once

#include "models/alphafold/features/Example.h"
#include "models/alphafold/features/StructureFeatures.h"
#include "models/common/Random.h"

#include <span>
#include <vector>

namespace kiln::alphafold {

using models::Random;
inline constexpr std::int64_t msaColumns = 49, extraColumns = 25; // of msa_feat, extra_msa_feat
using Rows = std::vector<std::int64_t>;                           // numbers of rows of an Msa

/// Share of each type 0..21 in each column of all N rows: float [R, 22] (supplement 1.2.7, the
/// profile that masked residues are drawn from).
Array<float> msaProfile(const Msa& msa);

/// The rows that are left of N once `deletedBlocks` blocks of floor(blockShare * N) rows are gone,
/// each beginning at any row, cut off at the last; the first row stays (supplement 1.2.6,
/// algorithm 1).
Rows deleteBlocks(std::int64_t rows, const ExampleOptions& options, Random& random);

/// The first of `from` and others in any order: at most `clusters`; the rest in any order is extra
/// (supplement 1.2.7, steps 1 and 4).
struct SampledRows {
  Rows clusters, extra;
};
SampledRows sampleRows(const Rows& from, std::int64_t clusters, Random& random);

/// Types [S, R] of which `maskedShare` are replaced: by the mask token, by a type drawn uniformly
/// or from the profile, or by itself (supplement 1.2.7, step 2). `masked` is 1 at those, float [S,
/// R].
struct MaskedMsa {
  Array<std::uint8_t> types;
  Array<float> masked;
};
MaskedMsa maskMsa(const Array<std::uint8_t>& types, const Array<float>& profile,
                  const ExampleOptions& options, Random& random);

/// For each extra row the cluster that agrees with it in most columns, gaps and mask tokens not
/// counted; the first of equals (supplement 1.2.7, step 3). `clusters` is [S, R], masked.
Rows nearestClusters(const Array<std::uint8_t>& clusters, const Msa& msa, const Rows& extra);

/// Of each cluster (the masked row and its extra rows), in columns begin .. begin + length: shares
/// of types, float [S, length, 23], and the mean number of deletions, float [S, length].
struct ClusterSummary {
  Array<float> profile, deletionMean;
};
ClusterSummary summarizeClusters(const Array<std::uint8_t>& clusters, const Msa& msa,
                                 const SampledRows& rows, const Rows& assignment,
                                 std::int64_t begin, std::int64_t length);

/// 2 / pi * arctan(deletions / 3), in 0..1 (supplement, table 1).
float deletionValue(double deletions);

/// All of the above for pass `pass` of an example: fills its part of msa_feat, msa_mask, true_msa,
/// bert_mask, extra_msa_feat and extra_msa_mask, which are there already and zero, with residues
/// begin .. begin + length of the chain. At most E of the extra rows are shown, any of them, but
/// all are counted into clusters (supplement 1.2.8 and 1.2.9, table 1).
void makeMsaFeatures(const Msa& msa, const Array<float>& profile, const ExampleOptions& options,
                     std::int64_t pass, std::int64_t begin, std::int64_t length, Random& random,
                     FeatureSet& features);

} // namespace kiln::alphafold
