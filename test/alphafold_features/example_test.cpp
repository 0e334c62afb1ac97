// Whole examples: crops, padding, templates, passes, and that they repeat.
#include "Helpers.h"

#include "models/alphafold/features/Example.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace kiln::alphafold::test {

namespace {

ExampleOptions smallOptions() {
  ExampleOptions options;
  options.crop = 16;
  options.clusters = 8;
  options.extraRows = 10;
  options.templates = 3;
  options.passes = 2;
  return options;
}

TEST(Example, HasTheSizesThatItWasAskedFor) {
  const Example example = makeExample(randomChain(40, 30, 5, 1), smallOptions(), 1);
  std::map<std::string, std::vector<std::int64_t>> shapes;
  forEachField(
      [&](std::string_view name, bool, const auto& array) {
        shapes[std::string(name)] = array.shape;
        EXPECT_EQ(std::ssize(array.values), array.stride(0)) << name;
        for (auto value : array.values)
          ASSERT_TRUE(std::isfinite(double(value))) << name;
      },
      example);
  using Shape = std::vector<std::int64_t>;
  const std::map<std::string, Shape> expected = {
      {"aatype", {16}},
      {"residue_index", {16}},
      {"seq_mask", {16}},
      {"target_feat", {16, 22}},
      {"msa_feat", {2, 8, 16, 49}},
      {"msa_mask", {2, 8, 16}},
      {"true_msa", {2, 8, 16}},
      {"bert_mask", {2, 8, 16}},
      {"extra_msa_feat", {2, 10, 16, 25}},
      {"extra_msa_mask", {2, 10, 16}},
      {"template_mask", {3}},
      {"template_sum_probs", {3}},
      {"template_aatype", {3, 16}},
      {"template_all_atom_positions", {3, 16, 37, 3}},
      {"template_all_atom_mask", {3, 16, 37}},
      {"template_pseudo_beta", {3, 16, 3}},
      {"template_pseudo_beta_mask", {3, 16}},
      {"template_torsion_angles_sin_cos", {3, 16, 7, 2}},
      {"template_alt_torsion_angles_sin_cos", {3, 16, 7, 2}},
      {"template_torsion_angles_mask", {3, 16, 7}},
      {"atom14_atom_exists", {16, 14}},
      {"atom37_atom_exists", {16, 37}},
      {"residx_atom14_to_atom37", {16, 14}},
      {"residx_atom37_to_atom14", {16, 37}},
      {"all_atom_positions", {16, 37, 3}},
      {"all_atom_mask", {16, 37}},
      {"atom14_gt_positions", {16, 14, 3}},
      {"atom14_gt_exists", {16, 14}},
      {"atom14_alt_gt_positions", {16, 14, 3}},
      {"atom14_alt_gt_exists", {16, 14}},
      {"atom14_atom_is_ambiguous", {16, 14}},
      {"rigidgroups_gt_frames", {16, 8, 4, 4}},
      {"rigidgroups_gt_exists", {16, 8}},
      {"rigidgroups_group_exists", {16, 8}},
      {"rigidgroups_group_is_ambiguous", {16, 8}},
      {"rigidgroups_alt_gt_frames", {16, 8, 4, 4}},
      {"torsion_angles_sin_cos", {16, 7, 2}},
      {"alt_torsion_angles_sin_cos", {16, 7, 2}},
      {"torsion_angles_mask", {16, 7}},
      {"chi_angles_sin_cos", {16, 4, 2}},
      {"chi_mask", {16, 4}},
      {"pseudo_beta", {16, 3}},
      {"pseudo_beta_mask", {16}},
      {"backbone_rigid_tensor", {16, 4, 4}},
      {"backbone_rigid_mask", {16}},
      {"seq_length", {}},
      {"resolution", {}},
      {"is_distillation", {}},
      {"use_clamped_fape", {}}};
  EXPECT_EQ(shapes, expected);
}

TEST(Example, ShowsAWindowOfTheChain) {
  const Chain chain = randomChain(40, 30, 5, 2);
  std::map<std::int64_t, int> begins;
  ExampleOptions options = smallOptions();
  options.passes = 1;
  options.clampedShare = 1;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const Example example = makeExample(chain, options, seed);
    const std::int64_t begin = example.residueIndex(0);
    ++begins[begin];
    EXPECT_EQ(example.useClampedFape(), 1);
    for (std::int64_t r = 0; r < 16; ++r) {
      ASSERT_EQ(example.residueIndex(r), begin + r);
      ASSERT_EQ(chemistry().letters[example.aatype(r)], chain.sequence[begin + r]);
      ASSERT_EQ(example.targetFeat(r, 1 + example.aatype(r)), 1);
      ASSERT_EQ(example.targetFeat(r, 0), 0);
      ASSERT_EQ(example.allAtomPositions(r, 5, 1), chain.positions(begin + r, 5, 1));
      ASSERT_EQ(example.trueMsa(0, 0, r), chain.msa.types(0, begin + r)) << "row 0 is the query";
    }
  }
  EXPECT_EQ(begins.size(), 25U) << "0 to 24";
  for (const auto& [begin, count] : begins)
    EXPECT_NEAR(count, 40, 30) << begin;
}

/// Without clamping a begin b of n + 1 comes with probability 1 / (n + 1) * sum over x of
/// 1 / (n - x + 1) where n - x >= b: earlier ones more often.
TEST(Example, FavoursTheBeginOfAChainWithoutClamping) {
  const Chain chain = randomChain(20, 3, 0, 3);
  ExampleOptions options = smallOptions();
  options.passes = 1;
  options.clampedShare = 0;
  constexpr int trials = 4000, last = 4;
  std::map<std::int64_t, int> begins;
  for (int seed = 0; seed < trials; ++seed) {
    const Example example = makeExample(chain, options, std::uint64_t(seed));
    EXPECT_EQ(example.useClampedFape(), 0);
    ++begins[example.residueIndex(0)];
  }
  for (int begin = 0; begin <= last; ++begin) {
    double share = 0;
    for (int end = begin; end <= last; ++end)
      share += 1.0 / (last + 1) / (end + 1);
    EXPECT_NEAR(begins[begin], trials * share, 4.5 * std::sqrt(trials * share)) << begin;
  }
}

TEST(Example, PadsWhatIsShorter) {
  const Chain chain = randomChain(9, 4, 2, 4);
  ExampleOptions options = smallOptions();
  options.deleteBlocks = false;
  const Example example = makeExample(chain, options, 5);
  EXPECT_EQ(example.seqLength(), 9);
  forEachField(
      [&](std::string_view name, bool isPerPass, const auto& array) {
        // The axis of residues is the one with 16 places.
        const auto axis = std::ranges::find(array.shape, 16);
        if (axis == array.shape.end())
          return;
        const std::int64_t inner = array.stride(std::size_t(axis - array.shape.begin()) + 1);
        for (std::int64_t i = 0; i < std::ssize(array.values); ++i)
          if (i / inner % 16 >= 9) {
            ASSERT_EQ(array.values[i], 0) << name << (isPerPass ? ", per pass" : "");
          }
      },
      example);
  for (std::int64_t row = 0; row < 8; ++row)
    EXPECT_EQ(example.msaMask(0, row, 0), row < 4 ? 1 : 0) << "four rows are there at most";
  EXPECT_EQ(example.extraMsaMask(0, 0, 0), 0);
}

TEST(Example, DrawsTemplatesInAnyNumberAndOrder) {
  const Chain chain = randomChain(20, 3, 5, 6);
  ExampleOptions options = smallOptions();
  options.passes = 1;
  std::map<int, int> counts;
  std::map<float, int> firsts;
  constexpr int trials = 3000;
  for (int seed = 0; seed < trials; ++seed) {
    const Example example = makeExample(chain, options, std::uint64_t(seed));
    int count = 0;
    for (std::int64_t t = 0; t < 3; ++t) {
      count += int(example.templateMask(t));
      if (example.templateMask(t) == 0) {
        ASSERT_EQ(example.templateAllAtomMask(t, 3, 1), 0);
      }
    }
    ++counts[count];
    if (count > 0)
      ++firsts[example.templateSumProbs(0)];
  }
  for (int count = 0; count <= 3; ++count) // of 0 to 5, each as likely, at most 3
    EXPECT_NEAR(counts[count], trials / 6.0 * (count == 3 ? 3 : 1), 120) << count;
  EXPECT_EQ(firsts.size(), 5U);
  for (const auto& [probs, count] : firsts)
    EXPECT_NEAR(count, trials * 5.0 / 6 / 5, 120) << probs;
  options.templates = 0;
  EXPECT_EQ(makeExample(chain, options, 1).templateAatype.shape,
            (std::vector<std::int64_t>{0, 16}));
}

TEST(Example, ForPredictionIsWholeAndHasTheLikeliestTemplates) {
  const Chain chain = randomChain(70, 30, 5, 9);
  ExampleOptions options = ExampleOptions::named("predict");
  options.templates = 3;
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const Example example = makeExample(chain, options, seed);
    EXPECT_EQ(example.aatype.shape, (std::vector<std::int64_t>{70}));
    EXPECT_EQ(example.templateSumProbs.values, (std::vector<float>{100, 99, 98}));
    for (std::int64_t row = 0; row < 30; ++row)
      EXPECT_EQ(example.msaMask(3, row, 69), 1) << "no row is deleted";
  }
}

TEST(Example, TorsionsAtTheCropsBeginKnowTheResidueBefore) {
  Chain chain = randomChain(40, 3, 0, 7);
  std::ranges::fill(chain.mask.values, 1.0F);
  std::uint64_t seed = 0;
  while (makeExample(chain, smallOptions(), seed).residueIndex(0) == 0)
    ++seed;
  EXPECT_EQ(makeExample(chain, smallOptions(), seed).torsionAnglesMask(0, 0), 1);
}

TEST(Example, RepeatsFromItsSeedAndPassesDiffer) {
  const Chain chain = randomChain(40, 60, 5, 8);
  const Example one = makeExample(chain, smallOptions(), 11),
                same = makeExample(chain, smallOptions(), 11),
                other = makeExample(chain, smallOptions(), 12);
  bool differs = false;
  forEachField(
      [&](std::string_view name, bool, const auto& a, const auto& b, const auto& c) {
        EXPECT_EQ(a, b) << name;
        differs = differs || a != c;
      },
      one, same, other);
  EXPECT_TRUE(differs);
  EXPECT_FALSE(std::equal(one.trueMsa.at(0), one.trueMsa.at(1), one.trueMsa.at(1)));
  ExampleOptions more = smallOptions();
  more.passes = 4;
  const Example longer = makeExample(chain, more, 11);
  EXPECT_TRUE(std::equal(one.msaFeat.values.begin(), one.msaFeat.values.end(),
                         longer.msaFeat.values.begin()))
      << "the first passes do not depend on how many follow";
}

TEST(Example, OptionsAreChecked) {
  const auto refused = [](auto change) {
    ExampleOptions options;
    change(options);
    return refusal([&] { options.check(); });
  };
  EXPECT_EQ(refused([](auto& o) { o.crop = -1; }), "crop is -1; 0 to 1048576 are allowed");
  EXPECT_EQ(refused([](auto& o) { o.maskedShare = 1.5; }),
            "maskedShare is 1.5; a share of 0 to 1 is needed");
  EXPECT_EQ(refused([](auto& o) { o.maskSame = 0.9; }),
            "maskUniform + maskProfile + maskSame is 1.1; a share of 0 to 1 is needed");
  EXPECT_EQ(refused([](auto& o) { o.blockShare = NAN; }),
            "blockShare is nan; a share of 0 to 1 is needed");
  EXPECT_EQ(refused([](auto&) {}), "no error");
  EXPECT_EQ(refusal([] { ExampleOptions::named("late"); }),
            "'late' is no stage; initial, finetune and predict are");
  EXPECT_EQ(ExampleOptions::named("finetune").extraRows, 5120);
  EXPECT_EQ(refusal([] { makeExample(Chain(), {}, 1); }),
            "chain  has 0 residues and 0 rows of an alignment; both need one");
}

} // namespace

} // namespace kiln::alphafold::test
