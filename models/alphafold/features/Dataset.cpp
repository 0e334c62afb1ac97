// See Dataset.h.
#include "models/alphafold/features/Dataset.h"

#include "models/alphafold/features/Text.h"
#include "models/common/Fail.h"
#include "models/common/Random.h"

#include <algorithm>
#include <cctype>

namespace kiln::alphafold {

namespace fs = std::filesystem;

namespace {

std::string clusterName(std::string_view name) {
  std::string key(name);
  const std::size_t end = std::min(key.find('_'), key.size());
  std::transform(key.begin(), key.begin() + std::ptrdiff_t(end), key.begin(),
                 [](unsigned char c) { return char(std::tolower(c)); });
  return key;
}

} // namespace

ClusterSizes readClusters(const fs::path& path) {
  const Text text = readText(path);
  ClusterSizes sizes;
  Lines lines(text);
  for (std::string_view line; lines.next(line);) {
    std::vector<std::string> names;
    for (std::string_view word = nextWord(line); !word.empty(); word = nextWord(line))
      names.push_back(clusterName(word));
    for (const std::string& name : names)
      if (!sizes.emplace(name, std::ssize(names)).second)
        lines.refuse(inQuotes(name) + " is in a cluster already; each chain may be in one");
  }
  return sizes;
}

double sampleWeight(std::int64_t length, std::int64_t clusterSize) {
  constexpr std::int64_t shortest = 256, longest = 512;
  return double(std::clamp(length, shortest, longest)) / double(longest) / double(clusterSize);
}

Dataset::Dataset(const DatasetOptions& options) : distillationShare(options.distillationShare) {
  if (!(distillationShare >= 0 && distillationShare <= 1))
    models::fail(ErrorKind::input, "the share of distillation is {}; 0 to 1 are allowed",
                 distillationShare);
  const ClusterSizes clusters =
      options.clusters.empty() ? ClusterSizes() : readClusters(options.clusters);
  for (const fs::path& cache : options.caches)
    add(cache, false, options, clusters);
  experiments = all.size();
  for (const fs::path& cache : options.distillation)
    add(cache, true, options, clusters);
  if (all.empty())
    models::fail(ErrorKind::input,
                 "no chain to train on: {} were refused, because they have no structure, a "
                 "resolution above {} angstrom, or more than {} of one type of residue",
                 refusedCount, options.worstResolution, options.mostOfOneType);
  double sum = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    sum = (i == experiments ? 0 : sum) + all[i].weight;
    upTo.push_back(sum);
  }
}

void Dataset::add(const fs::path& cache, bool isDistillation, const DatasetOptions& options,
                  const ClusterSizes& clusters) {
  for (CacheEntry& chain : chosen(readCache(cache), options.only)) {
    if (chain.resolved == 0 || chain.resolution > options.worstResolution ||
        chain.commonestType > options.mostOfOneType) {
      ++refusedCount;
      continue;
    }
    const auto found = clusters.find(clusterName(chain.name));
    const double weight = sampleWeight(chain.length, found == clusters.end() ? 1 : found->second);
    all.push_back({std::move(chain), weight, isDistillation});
  }
}

const DatasetEntry& Dataset::draw(std::uint64_t seed, std::uint64_t index) const {
  constexpr std::uint64_t purpose = 2; // of this sequence of random numbers
  models::Random random(seed, {purpose, index});
  const bool mayChoose = experiments > 0 && experiments < all.size();
  const double chosen = random.uniform();
  const bool isDistillation = mayChoose ? chosen < distillationShare : experiments == 0;
  const auto begin = upTo.begin() + std::ptrdiff_t(isDistillation ? experiments : 0),
             end = isDistillation ? upTo.end() : upTo.begin() + std::ptrdiff_t(experiments);
  const double place = random.uniform() * *(end - 1);
  const auto found = std::min(std::upper_bound(begin, end, place), end - 1);
  return all[static_cast<std::size_t>(found - upTo.begin())];
}

} // namespace kiln::alphafold
