// Which chains a run of training sees, and how often (supplement 1.2.5 and 1.3): a function of a
// seed and of the example's number alone.
#pragma once

#include "models/alphafold/features/Cache.h"

#include <map>
#include <string>
#include <vector>

namespace kiln::alphafold {

struct DatasetOptions {
  std::vector<std::filesystem::path> caches;            // of experiments' structures
  std::vector<std::filesystem::path> distillation = {}; // of predicted structures
  std::filesystem::path clusters =
      {}; // a line a cluster: names of its chains; empty: one chain each
  std::vector<std::string> only = {}; // names of chains, in each cache; empty: all
  double distillationShare = 0.75;    // of examples, where there are predicted structures
  double worstResolution = 9;         // angstrom; chains beyond are left out
  double mostOfOneType = 0.8;         // share of a chain's residues that may be of one type
};

/// A chain that may be drawn, and how often: in proportion to `weight` among those of its kind.
struct DatasetEntry {
  CacheEntry chain;
  double weight = 0;
  bool isDistillation = false;
};

/// Sizes of clusters by chain. A name's part before '_' counts without case.
using ClusterSizes = std::map<std::string, std::int64_t>;
/// Throws Error(io), and Error(input) with the line for a chain in two clusters.
ClusterSizes readClusters(const std::filesystem::path& path);

/// 1 / cluster size * max(min(residues, 512), 256) / 512.
double sampleWeight(std::int64_t length, std::int64_t clusterSize);

class Dataset {
 public:
  /// Throws Error(missing, input) for caches without chains, or without one of those that are asked
  /// for, or if the rules leave none.
  explicit Dataset(const DatasetOptions& options);

  const std::vector<DatasetEntry>& entries() const { return all; }
  std::int64_t refused() const { return refusedCount; } // by resolution, one type, or no structure

  /// The entry that example number `index` of a run shows.
  const DatasetEntry& draw(std::uint64_t seed, std::uint64_t index) const;

 private:
  void add(const std::filesystem::path& cache, bool isDistillation, const DatasetOptions& options,
           const ClusterSizes& clusters);

  std::vector<DatasetEntry> all; // experiments first
  std::size_t experiments = 0;
  std::vector<double> upTo; // sums of weights, of each kind from 0
  double distillationShare;
  std::int64_t refusedCount = 0;
};

} // namespace kiln::alphafold
