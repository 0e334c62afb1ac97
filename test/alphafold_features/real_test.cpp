// The real proteins, from files to examples: counts that were found by other programs, and geometry
// that must hold of any protein.
#include "Helpers.h"

#include "models/alphafold/features/Build.h"
#include "models/alphafold/features/Example.h"
#include "models/alphafold/features/StructureFeatures.h"

#include <algorithm>
#include <cmath>

namespace kiln::alphafold::test {

namespace {

struct Golden {
  const char* name;
  std::int64_t residues, resolved, rows;
  float resolution;
  const char* released;
};

// Residues and resolved ones as the handbook of the data says; rows counted by sort and uniq.
const Golden goldens[] = {{"102m_A", 154, 154, 836, 1.84F, "1998-04-08"},
                          {"1k1a_A", 241, 228, 7967, 1.86F, "2001-11-21"},
                          {"5zyh_A", 237, 228, 926, 1.95F, "2019-02-27"}};

class RealProteins : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (proteins().empty())
      return;
    folder = new Folder;
    BuildOptions options;
    for (const char* id : {"102m", "1k1a", "5zyh"})
      options.structures.push_back(proteins() / id);
    options.alignments = proteins();
    options.output = folder->path;
    result = buildCache(options);
  }
  static void TearDownTestSuite() {
    delete folder;
    folder = nullptr;
  }
  void SetUp() override { SKIP_WITHOUT_PROTEINS(); }

  static Chain chain(const std::string& name) { return readChain(cacheFile(folder->path, name)); }

  static inline Folder* folder = nullptr;
  static inline BuildResult result;
};

TEST_F(RealProteins, HaveTheirCounts) {
  EXPECT_TRUE(result.leftOut.empty()) << result.leftOut[0].what << ": " << result.leftOut[0].why;
  ASSERT_EQ(result.made.size(), std::size(goldens));
  for (std::size_t i = 0; i < std::size(goldens); ++i) {
    const Golden& golden = goldens[i];
    const CacheEntry& made = result.made[i];
    EXPECT_EQ(made.name, golden.name);
    EXPECT_EQ(made.length, golden.residues);
    EXPECT_EQ(made.resolved, golden.resolved);
    EXPECT_EQ(made.msaRows, golden.rows);
    EXPECT_FLOAT_EQ(float(made.resolution), golden.resolution);
    EXPECT_EQ(made.releaseDate, golden.released);
  }
}

TEST_F(RealProteins, AreMadeOnce) {
  BuildOptions options;
  options.structures = {proteins() / "102m"};
  options.alignments = proteins();
  options.output = folder->path;
  EXPECT_EQ(buildCache(options).kept.size(), 1U);
  options.chain.mostCells = 154 * 100;
  const BuildResult clipped = buildCache(options);
  ASSERT_EQ(clipped.made.size(), 1U) << "other options make another file";
  EXPECT_EQ(clipped.made[0].msaRows, 100);
  options.chain.mostCells = ChainOptions().mostCells;
  EXPECT_EQ(buildCache(options).made.size(), 1U);
}

/// Atoms that idealised residues have where the real frames are, against the real ones: their root
/// mean square distance, angstrom. Bonds and angles differ by a few hundredths.
double distanceFromIdeal(const Chain& chain) {
  FeatureSet f;
  f.aatype = Array<std::int64_t>({chain.length()});
  for (std::int64_t r = 0; r < chain.length(); ++r)
    f.aatype(r) = std::int64_t(chemistry().letters.find(chain.sequence[r]));
  f.allAtomPositions = chain.positions;
  f.allAtomMask = chain.mask;
  makeRigidGroups(f);
  makeAtom14Positions(f);
  double sum = 0;
  std::int64_t atoms = 0;
  for (std::int64_t r = 0; r < chain.length(); ++r)
    for (int i = 0; i < denseAtoms; ++i) {
      const int type = int(f.aatype(r)), group = chemistry().groupOfAtom[type][i];
      if (group < 0 || f.atom14GtExists(r, i) == 0 || f.rigidgroupsGtExists(r, group) == 0)
        continue;
      const float* frame = f.rigidgroupsGtFrames.at(r, group);
      const auto& place = chemistry().placeInGroup[type][i];
      for (int axis = 0; axis < 3; ++axis) {
        const float* row = frame + axis * 4;
        const double x = row[0] * place[0] + row[1] * place[1] + row[2] * place[2] + row[3];
        sum += std::pow(x - f.atom14GtPositions(r, i, axis), 2);
      }
      ++atoms;
    }
  EXPECT_GT(atoms, chain.length() * 6);
  return std::sqrt(sum / double(atoms));
}

TEST_F(RealProteins, LieWhereTheirFramesPutIdealisedResidues) {
  for (const Golden& golden : goldens)
    EXPECT_LT(distanceFromIdeal(chain(golden.name)), 0.08) << golden.name;
}

TEST_F(RealProteins, HaveTorsionsOfProteins) {
  for (const Golden& golden : goldens) {
    const Chain real = chain(golden.name);
    FeatureSet f;
    f.aatype = Array<std::int64_t>({real.length()});
    for (std::int64_t r = 0; r < real.length(); ++r)
      f.aatype(r) = std::int64_t(chemistry().letters.find(real.sequence[r]));
    f.allAtomPositions = real.positions;
    f.allAtomMask = real.mask;
    makeTorsionAngles(f);
    std::int64_t known = 0, trans = 0, helical = 0;
    for (std::int64_t r = 0; r < real.length(); ++r) {
      for (int angle = 0; angle < torsions; ++angle)
        if (f.torsionAnglesMask(r, angle) == 1) {
          const float* own = f.torsionAnglesSinCos.at(r, angle);
          EXPECT_NEAR(own[0] * own[0] + own[1] * own[1], 1, 1e-4);
        }
      if (f.torsionAnglesMask(r, 0) == 0)
        continue;
      ++known;
      trans += f.torsionAnglesSinCos(r, 0, 1) < -0.9 ? 1 : 0;
      const double phi = std::atan2(f.torsionAnglesSinCos(r, 1, 0), f.torsionAnglesSinCos(r, 1, 1)),
                   psi = std::atan2(f.torsionAnglesSinCos(r, 2, 0), f.torsionAnglesSinCos(r, 2, 1));
      helical += std::abs(phi + 1.1) < 0.4 && std::abs(psi + 0.75) < 0.4 ? 1 : 0;
    }
    EXPECT_GT(double(trans) / double(known), 0.95) << golden.name << ": peptide bonds are trans";
    EXPECT_GT(double(helical) / double(known), std::string(golden.name) == "102m_A" ? 0.6 : 0.1)
        << golden.name << ": myoglobin is made of helices";
  }
}

TEST_F(RealProteins, MakeExamplesOfBothStages) {
  const Chain real = chain("1k1a_A");
  ExampleOptions initial;
  initial.passes = 1;
  const Example one = makeExample(real, initial, 1);
  EXPECT_EQ(one.seqLength(), 241);
  EXPECT_EQ(one.msaFeat.shape, (std::vector<std::int64_t>{1, 128, 256, 49}));
  EXPECT_EQ(one.extraMsaMask(0, 1023, 240), 1) << "all 1024 extra rows are filled";
  EXPECT_EQ(one.extraMsaMask(0, 1023, 241), 0);
  ExampleOptions finetune = ExampleOptions::named("finetune");
  finetune.passes = 1;
  const Example two = makeExample(chain("102m_A"), finetune, 1);
  EXPECT_EQ(two.extraMsaFeat.shape, (std::vector<std::int64_t>{1, 5120, 384, 25}));
  EXPECT_EQ(two.msaMask(0, 0, 153), 1);
  for (const Example* example : {&one, &two})
    forEachField(
        [&](std::string_view name, bool, const auto& array) {
          EXPECT_TRUE(std::ranges::all_of(array.values, [](auto x) {
            return std::isfinite(double(x));
          })) << name;
        },
        *example);
}

TEST_F(RealProteins, AQueryWithoutStructureHasTemplates) {
  const Folder output;
  writeFile(output.path / "q.fasta",
            ">pdb70_query73\n"
            "MAAHKGAEHHHKAAEHHEQAAKHHHAAAEHHEKGEHEQAAHHADTAYAHHKHAEEHAAQAAKHDAEHHAPKPH\n");
  BuildOptions options;
  options.sequences = output.path / "q.fasta";
  options.alignments = proteins();
  options.output = output.path / "cache";
  options.chain.templates.structures = proteins() / "pdb70_query73/templates";
  const BuildResult built = buildCache(options);
  ASSERT_EQ(built.made.size(), 1U) << built.leftOut.at(0).why;
  EXPECT_EQ(built.made[0].length, 73);
  EXPECT_EQ(built.made[0].resolved, 0);
  EXPECT_EQ(built.made[0].msaRows, 1136) << "as OpenFold's features of the same files";
  const Chain made = readChain(built.made[0].path);
  EXPECT_EQ(made.templates.names,
            (std::vector<std::string>{"3u8v_A", "4zey_A", "3zee_A", "4i6p_A", "2q2k_A"}));
  EXPECT_TRUE(std::ranges::is_sorted(made.templates.sumProbs, std::greater()));
  EXPECT_EQ(built.notes.size(), 5U);
  ExampleOptions example;
  example.passes = 1;
  EXPECT_EQ(makeExample(made, example, 1).templateMask.shape[0], 4);
}

} // namespace

} // namespace kiln::alphafold::test
