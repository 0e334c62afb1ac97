// Which chains a run sees: weights, clusters, rules, and that a draw depends on seed and number
// alone.
#include "Helpers.h"

#include "models/alphafold/features/Dataset.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace kiln::alphafold::test {

namespace {

void write(const fs::path& folder, const std::string& name, std::int64_t length,
           float resolution = 2) {
  Chain chain = randomChain(length, 2, 0, std::uint64_t(length));
  chain.name = name;
  chain.resolution = resolution;
  writeChain(folder, chain, "");
}

TEST(Dataset, WeighsByClusterAndLength) {
  EXPECT_EQ(sampleWeight(100, 1), 0.5);
  EXPECT_EQ(sampleWeight(384, 1), 0.75);
  EXPECT_EQ(sampleWeight(2000, 4), 0.25);
}

TEST(Dataset, DrawsInProportionToWeights) {
  const Folder folder;
  write(folder.path / "pdb", "1aaa_A", 100);
  write(folder.path / "pdb", "1bbb_A", 512);
  write(folder.path / "pdb", "1ccc_A", 512);
  write(folder.path / "far", "2ddd_A", 256);
  writeFile(folder.path / "clusters", "1BBB_A 9ZZZ_B\n1CCC_A 8YYY_a\t7XXX_C 6WWW_D\n");
  DatasetOptions options;
  options.caches = {folder.path / "pdb"};
  options.clusters = folder.path / "clusters";
  const auto shares = [&] {
    const Dataset dataset(options);
    std::map<std::string, double> found;
    constexpr int draws = 20000;
    for (int i = 0; i < draws; ++i) {
      const DatasetEntry& entry = dataset.draw(3, std::uint64_t(i));
      EXPECT_EQ(entry.isDistillation, entry.chain.name == "2ddd_A");
      found[entry.chain.name] += 1.0 / draws;
    }
    return found;
  };
  auto found = shares(); // weights 1/2, 1/2 and 1/4
  EXPECT_NEAR(found["1aaa_A"], 0.4, 0.02);
  EXPECT_NEAR(found["1bbb_A"], 0.4, 0.02);
  EXPECT_NEAR(found["1ccc_A"], 0.2, 0.02);
  options.distillation = {folder.path / "far"};
  found = shares();
  EXPECT_NEAR(found["2ddd_A"], 0.75, 0.02);
  EXPECT_NEAR(found["1aaa_A"], 0.1, 0.01);
  options.caches.clear();
  EXPECT_NEAR(shares()["2ddd_A"], 1, 1e-9);
}

TEST(Dataset, RefusesByResolutionAndType) {
  const Folder folder;
  write(folder.path, "1aaa_A", 50, 9.5);
  Chain plain = randomChain(50, 2, 0, 1);
  plain.name = "1bbb_A";
  plain.sequence = std::string(45, 'A') + "CDEFG";
  writeChain(folder.path, plain, "");
  Chain unseen = randomChain(50, 2, 0, 2);
  unseen.name = "1ccc_A";
  std::ranges::fill(unseen.mask.values, 0.0F);
  writeChain(folder.path, unseen, "");
  DatasetOptions options;
  options.caches = {folder.path};
  EXPECT_EQ(
      refusal([&] { Dataset{options}; }),
      "no chain to train on: 3 were refused, because they have no structure, a resolution above "
      "9 angstrom, or more than 0.8 of one type of residue");
  write(folder.path, "1ddd_A", 60);
  const Dataset dataset(options);
  EXPECT_EQ(dataset.entries().size(), 1U);
  EXPECT_EQ(dataset.refused(), 3);
}

TEST(Dataset, RefusesClustersThatShareAChain) {
  const Folder folder;
  writeFile(folder.path / "clusters", "1aaa_A 1bbb_B\n\n1AAA_A\n");
  EXPECT_EQ(refusal([&] { readClusters(folder.path / "clusters"); }),
            (folder.path / "clusters").string() +
                ":3: '1aaa_A' is in a cluster already; each chain may be in one");
}

TEST(Dataset, DrawsByNumberAlone) {
  const Folder folder;
  for (int i = 0; i < 5; ++i)
    write(folder.path, "1aa" + std::to_string(i) + "_A", 40 + i);
  DatasetOptions options;
  options.caches = {folder.path};
  const Dataset dataset(options), again(options);
  std::map<std::string, int> names;
  for (std::uint64_t i = 0; i < 50; ++i) {
    EXPECT_EQ(dataset.draw(1, 49 - i).chain.name, again.draw(1, 49 - i).chain.name);
    ++names[dataset.draw(1, i).chain.name];
  }
  EXPECT_EQ(names.size(), 5U);
}

} // namespace

} // namespace kiln::alphafold::test
