// What must hold of losses whatever the numbers: no turn or shift of space changes them, gradients
// are those of finite differences, symmetric atoms get the names that fit, and what is not finite
// is reported by name.
#include "models/alphafold/losses/Fape.h"
#include "models/alphafold/losses/Losses.h"
#include "models/alphafold/losses/Metrics.h"
#include "models/alphafold/losses/Structure.h"
#include "models/alphafold/losses/Violation.h"
#include "models/common/Ema.h"
#include "test/alphafold/Synthetic.h"
#include "test/lm/Helpers.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <limits>

namespace kiln::alphafold {
namespace {

using at::Tensor;
using lm::errorOf;

constexpr SyntheticSizes sizes = {.residues = 8, .clusters = 4, .extra = 5, .templates = 0};

/// With residues that matter: symmetric atoms, cysteines, a proline, a gap.
Inputs protein() {
  Inputs inputs = syntheticInputs(sizes, 3, at::kDouble);
  inputs.aatype = at::tensor({3, 4, 14, 6, 7, 13, 4, 18}, at::kLong);
  inputs.residueIndex = at::tensor({0, 1, 2, 3, 6, 7, 8, 9}, at::kLong);
  const Seeded seeded(4);
  addTruth(inputs, sizes, at::kDouble);
  return inputs;
}

/// A turn and a shift.
Rigid somewhere() {
  const Seeded seeded(9);
  return Rigid::fromUpdate(at::randn({6}, at::kDouble) * at::tensor({1, 1, 1, 9, 9, 9}));
}

/// Outputs as of a model, near to the truth.
Outputs guessed(const Inputs& truth) {
  const Seeded seeded(5);
  const auto options = at::TensorOptions(at::kDouble);
  Outputs out;
  const Rigid backbone = Rigid::fromMatrix(truth.rigidgroupsGtFrames.select(1, 0));
  for (const double spread : {2.0, 0.3})
    out.structure.backbones.push_back(
        backbone.compose(Rigid::fromUpdate(spread * at::randn({8, 6}, options))));
  out.structure.rawAngles = at::randn({2, 8, 7, 2}, options);
  out.structure.angles = normalized(out.structure.rawAngles);
  out.structure.groups =
      groupFrames(out.structure.backbones.back(), out.structure.angles[1], truth.aatype);
  out.structure.positions = atomPositions(out.structure.groups, truth.aatype);
  out.predictions = {at::randn({8, 50}, options), at::randn({8, 8, 64}, options),
                     at::randn({4, 8, 23}, options), at::randn({8, 37}, options),
                     at::randn({8, 8, 64}, options)};
  return out;
}

Outputs moved(const Outputs& out, const Rigid& by) {
  Outputs there = out;
  for (Rigid& frames : there.structure.backbones)
    frames = by.compose(frames);
  there.structure.groups = by.compose(out.structure.groups);
  there.structure.positions = by.apply(out.structure.positions);
  return there;
}

Inputs movedTruth(const Inputs& truth, const Rigid& by) {
  Inputs there = truth;
  for (Tensor Inputs::* frames : {&Inputs::rigidgroupsGtFrames, &Inputs::rigidgroupsAltGtFrames})
    there.*frames = by.compose(Rigid::fromMatrix(truth.*frames)).matrix();
  for (Tensor Inputs::* points : {&Inputs::atom14GtPositions, &Inputs::atom14AltGtPositions,
                                  &Inputs::pseudoBeta, &Inputs::allAtomPositions})
    there.*points = by.apply(truth.*points);
  return there;
}

LossConfig everything() {
  LossConfig config = LossConfig::named("finetune");
  config.violation = 0.02;
  return config;
}

TEST(AlphaFoldLosses, NoTurnOrShiftChangesThem) {
  const Inputs truth = protein();
  const Outputs out = guessed(truth);
  const Rigid by = somewhere();
  const Losses here = losses(out, truth, everything());
  for (const Losses& there : {losses(moved(out, by), truth, everything()),
                              losses(out, movedTruth(truth, by), everything())}) {
    ASSERT_EQ(here.terms.size(), 9U);
    for (std::size_t i = 0; i < here.terms.size(); ++i) {
      EXPECT_GT(here.terms[i].value.item<double>(), 0) << here.terms[i].name;
      EXPECT_NEAR(here.terms[i].value.item<double>(), there.terms[i].value.item<double>(), 1e-9)
          << here.terms[i].name;
    }
    EXPECT_NEAR(here.total.item<double>(), there.total.item<double>(), 1e-8);
  }
}

/// But a mirror image is another molecule.
TEST(AlphaFoldLosses, FapeKnowsMirrorImages) {
  const Inputs truth = protein();
  const Rigid frames = Rigid::fromMatrix(truth.rigidgroupsGtFrames.select(1, 0));
  const Tensor points = truth.atom14GtPositions.flatten(0, 1), there = truth.seqMask;
  const Tensor atoms = truth.atom14GtExists.flatten();
  const auto of = [&](const Tensor& x) {
    return fape({frames, x}, {frames, points}, there, atoms).item<double>();
  };
  EXPECT_NEAR(of(points), 1e-3, 1e-6) << "the root of eps, in units of 10";
  const Tensor flip = at::tensor({1, 1, -1}, at::kDouble);
  const Rigid mirrored = Rigid::fromThreePoints( // of the same backbone, seen in a mirror
      truth.atom14GtPositions.select(1, 0) * flip, truth.atom14GtPositions.select(1, 1) * flip,
      truth.atom14GtPositions.select(1, 2) * flip);
  const double mirror =
      fape({mirrored, points * flip}, {frames, points}, there, atoms).item<double>();
  EXPECT_GT(mirror, 0.1);
}

TEST(AlphaFoldLosses, PointAttentionKnowsNoGlobalFrame) {
  const ModelConfig config = ModelConfig::named("tiny");
  InvariantPointAttention ipa(config);
  ipa->to(at::kDouble);
  stir(*ipa, 2);
  const Seeded seeded(6);
  const Tensor s = at::randn({6, config.single}, at::kDouble);
  const Tensor z = at::randn({6, 6, config.pair}, at::kDouble), mask = at::ones({6}, at::kDouble);
  const Rigid frames = Rigid::fromUpdate(at::randn({6, 6}, at::kDouble));
  const Tensor here = ipa(s, z, frames, mask), there = ipa(s, z, somewhere().compose(frames), mask);
  EXPECT_TRUE(at::allclose(here, there, 1e-9, 1e-9));
  const Rigid other = Rigid::fromUpdate(at::randn({6, 6}, at::kDouble));
  EXPECT_FALSE(at::allclose(here, ipa(s, z, other, mask), 1e-3, 1e-3)) << "frames are not seen";
}

/// d loss / d x by central differences, of some elements of each tensor.
void expectGradients(const std::vector<Tensor>& leaves, const std::function<Tensor()>& function) {
  const auto gradients = torch::autograd::grad({function()}, leaves);
  constexpr double step = 1e-5;
  for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf) {
    const Tensor flat = leaves[leaf].detach().view(-1), gradient = gradients[leaf].reshape(-1);
    for (std::int64_t i = 0; i < flat.numel(); i += std::max<std::int64_t>(flat.numel() / 12, 1)) {
      const double value = flat[i].item<double>();
      flat[i] = value + step;
      const double above = function().item<double>();
      flat[i] = value - step;
      const double below = function().item<double>();
      flat[i] = value;
      EXPECT_NEAR((above - below) / (2 * step), gradient[i].item<double>(), 1e-5)
          << "leaf " << leaf << ", element " << i;
    }
  }
}

TEST(AlphaFoldLosses, GradientsAreThoseOfFiniteDifferences) {
  const Inputs truth = protein();
  Outputs out = guessed(truth);
  std::vector<Tensor> leaves;
  const auto leaf = [&](Tensor& tensor) {
    tensor = tensor.detach().contiguous().requires_grad_();
    leaves.push_back(tensor);
  };
  PredictedStructure& found = out.structure;
  for (Rigid& frames : found.backbones) {
    leaf(frames.rotation);
    leaf(frames.translation);
  }
  for (Tensor* tensor :
       {&found.groups.rotation, &found.groups.translation, &found.positions, &found.angles,
        &found.rawAngles, &out.predictions.lddt, &out.predictions.distogram,
        &out.predictions.maskedMsa, &out.predictions.resolved, &out.predictions.alignedError})
    leaf(*tensor);
  expectGradients(leaves, [&] { return losses(out, truth, everything()).total; });
}

/// Through torsions, frames and atoms, to the updates of the backbone.
TEST(AlphaFoldLosses, GradientsOfAtomsAreThoseOfFiniteDifferences) {
  const Inputs truth = protein();
  const Seeded seeded(8);
  const Tensor update = at::randn({8, 6}, at::kDouble).requires_grad_();
  const Tensor raw = at::randn({8, 7, 2}, at::kDouble).requires_grad_();
  const Tensor weights = at::randn({8, 14, 3}, at::kDouble);
  expectGradients({update, raw}, [&] {
    const Rigid groups = groupFrames(Rigid::fromUpdate(update), normalized(raw), truth.aatype);
    return (atomPositions(groups, truth.aatype) * weights).sum();
  });
}

/// Angles are those of the published formula, and so are gradients, until vectors are so short that
/// theirs would outweigh all others.
TEST(AlphaFoldLosses, GradientsOfShortAnglesAreBounded) {
  const auto options = at::TensorOptions(at::kDouble);
  const Tensor lengths = at::tensor({0.0, 1e-9, 1e-5, 9e-3, 1.1e-2, 0.3, 7.0}, options);
  const Tensor raw = (lengths.unsqueeze(1) * at::tensor({0.6, -0.8}, options)).requires_grad_();
  const Tensor given = at::tensor({2.0, 1.0}, options).expand_as(raw);
  const auto gradientOf = [&](const Tensor& angles) {
    return torch::autograd::grad({angles}, {raw}, {given})[0];
  };
  const Tensor found = directionsOf(raw);
  const Tensor expected = raw / raw.square().sum(-1, /*keepdim=*/true).clamp_min(1e-12).sqrt();
  EXPECT_TRUE(at::allclose(found, expected, 1e-12, 1e-12));
  const Tensor ours = gradientOf(found), formula = gradientOf(expected);
  EXPECT_TRUE(at::allclose(ours.slice(0, 4), formula.slice(0, 4), 1e-9, 1e-12));
  EXPECT_GT(formula.norm(2, -1).max().item<double>(), 1e5) << "nothing needs to be bounded";
  EXPECT_LE(ours.norm(2, -1).max().item<double>(), steepest * std::sqrt(5.0) * (1 + 1e-9));
  EXPECT_GT(ours.norm(2, -1).min().item<double>(), 0);
}

/// The prediction is the truth with some names swapped: each is found, and costs nothing.
TEST(AlphaFoldLosses, SymmetricAtomsGetTheNamesThatFit) {
  const Inputs truth = protein(); // 3, 6, 13 and 18 have symmetric atoms, but 18 is padding
  for (const std::int64_t swappedOne : {0, 3, 5}) {
    Outputs out = guessed(truth);
    Tensor positions = truth.atom14GtPositions.clone();
    Tensor frames = truth.rigidgroupsGtFrames.clone();
    positions[swappedOne] = truth.atom14AltGtPositions[swappedOne];
    frames[swappedOne] = truth.rigidgroupsAltGtFrames[swappedOne];
    const Renamed names = renamed(positions, truth);
    Tensor expected = at::zeros({8}, at::kDouble);
    expected[swappedOne] = 1;
    EXPECT_TRUE(at::equal(names.swapped, expected)) << names.swapped;
    EXPECT_TRUE(at::equal(names.positions, positions));
    out.structure.positions = positions;
    out.structure.groups = Rigid::fromMatrix(frames);
    EXPECT_NEAR(sidechainFape(out.structure, names, truth).item<double>(), 1e-3, 1e-5);
    const Renamed given = renamed(truth.atom14GtPositions, truth);
    EXPECT_EQ(given.swapped.sum().item<double>(), 0);
    EXPECT_GT(sidechainFape(out.structure, given, truth).item<double>(), 2e-3);
  }
}

/// Alanines as literature has them break no rule within; overlapping ones do.
TEST(AlphaFoldLosses, ViolationsSeeOverlapsAndBrokenChains) {
  Inputs truth = protein();
  truth.aatype.zero_();
  addTruth(truth, sizes, at::kDouble);
  Tensor apart = truth.atom14GtPositions.clone();
  for (std::int64_t i = 0; i < 8; ++i)
    apart[i] += 100.0 * double(i) - truth.atom14GtPositions[i][1];
  const Violations far = violations(apart, truth);
  EXPECT_EQ(far.clash.item<double>(), 0);
  EXPECT_GT(far.bond.item<double>(), 100);
  truth.residueIndex = at::arange(8, at::kLong) * 2; // none bound to the next
  EXPECT_EQ(violations(apart, truth).bond.item<double>(), 0);
  apart[1] = apart[0];
  EXPECT_GT(violations(apart, truth).clash.item<double>(), 0.1);
}

/// Two sulphurs of cysteines may come close, no other atoms. Atoms of a residue lie along a line,
/// and two such lines, of residues 1 and 6, cross near one atom.
TEST(AlphaFoldLosses, SulphursOfCysteinesMayBond) {
  Inputs inputs = protein();
  inputs.residueIndex = at::arange(8, at::kLong) * 2;
  const Tensor places = at::arange(14, at::kDouble) * 1000, none = at::zeros({14}, at::kDouble);
  const auto clash = [&](std::int64_t crossing, double apart) {
    Tensor positions = at::zeros({8, 14, 3}, at::kDouble);
    for (std::int64_t i = 0; i < 8; ++i)
      positions[i] = at::stack({none + 1e6 * double(i), none, places}, -1);
    positions[1] =
        at::stack({none, places - places[crossing] + apart, none}, -1) + positions[6][crossing];
    return violations(positions, inputs).clash.item<double>();
  };
  constexpr std::int64_t nitrogen = 0, sulphur = 5;
  inputs.seqMask = at::ones({8}, at::kDouble);
  EXPECT_EQ(clash(sulphur, 1), clash(sulphur, 100));
  EXPECT_GT(clash(nitrogen, 1), clash(nitrogen, 100));
  inputs.aatype[6] = 5; // glutamine, whose sixth atom is a carbon
  EXPECT_GT(clash(sulphur, 1), clash(sulphur, 100));
}

TEST(AlphaFoldLosses, WhatIsNotFiniteIsNamed) {
  const Inputs truth = protein();
  Outputs out = guessed(truth);
  const Losses fine = losses(out, truth, everything());
  EXPECT_EQ(fine.nonFinite(), "");
  EXPECT_EQ(fine.onHost().total.item<double>(), fine.total.item<double>());
  EXPECT_EQ(fine.onHost().terms[3].value.item<double>(), fine.terms[3].value.item<double>());
  EXPECT_FALSE(fine.onHost().total.requires_grad());
  out.predictions.distogram[1][2][3] = std::numeric_limits<double>::quiet_NaN();
  out.predictions.maskedMsa.fill_(std::numeric_limits<double>::infinity());
  const Losses found = losses(out, truth, everything());
  EXPECT_EQ(found.nonFinite(), "distogram is nan, masked_msa is nan");
  EXPECT_TRUE(std::isnan(found.total.item<double>())) << "it must not become zero";
}

/// Heads begin with zeros: each class is as likely as the others.
TEST(AlphaFoldLosses, ANewModelGuessesEvenly) {
  ModelConfig config = ModelConfig::named("tiny");
  config.alignedError = true;
  AlphaFold model(config);
  model->eval();
  const std::vector<Inputs> passes = {syntheticInputs(sizes, 3)};
  const Losses found = losses(model(passes), passes[0], LossConfig::named("initial"));
  const std::map<std::string, double> classes = {{"distogram", 64},
                                                 {"masked_msa", 23},
                                                 {"plddt", 50},
                                                 {"experimentally_resolved", 2},
                                                 {"aligned_error", 64}};
  std::size_t seen = 0;
  for (const Term& term : found.terms)
    if (const auto known = classes.find(term.name); known != classes.end()) {
      EXPECT_NEAR(term.value.item<double>(), std::log(known->second), 1e-4) << term.name;
      ++seen;
    }
  EXPECT_EQ(seen, classes.size());
}

TEST(AlphaFoldLosses, StagesHaveTheirWeights) {
  const LossConfig first = LossConfig::named("initial"), last = LossConfig::named("finetune");
  EXPECT_EQ(first.violation, 0);
  EXPECT_EQ(last.violation, 1);
  EXPECT_EQ(last.resolved, 0.01);
  EXPECT_EQ(last.alignedError, 0.1);
  EXPECT_SAYS(errorOf([] { LossConfig::named("middle"); }), "allowed are initial and finetune");
  const Inputs truth = protein();
  const Losses found = losses(guessed(truth), truth, first);
  double sum = 0;
  for (const Term& term : found.terms)
    sum += term.weight * term.value.item<double>();
  EXPECT_NEAR(found.total.item<double>(), sum * std::sqrt(7.0), 1e-9) << "7 residues of 8";
}

TEST(AlphaFoldLosses, TruthThatIsMissingIsNamed) {
  Inputs truth = protein();
  const Outputs out = guessed(truth);
  truth.pseudoBeta = Tensor();
  EXPECT_SAYS(errorOf([&] { losses(out, truth, {}); }), "there is no pseudo_beta");
  truth = protein();
  truth.trueMsa = at::zeros({4, 9}, at::kLong);
  EXPECT_SAYS(errorOf([&] { losses(out, truth, {}); }), "true_msa is [4, 9]");
}

TEST(AlphaFoldLosses, Bf16LogitsAreTakenInFp32) {
  const Inputs truth = syntheticInputs(sizes, 3);
  AlphaFold model(ModelConfig::named("tiny"));
  stir(*model, 1);
  model->eval();
  const std::vector<Inputs> passes = {truth};
  const models::Autocast autocast(at::kCPU, models::Autocast::of("bf16"));
  const Losses found = losses(model(passes), truth, LossConfig::named("finetune"));
  EXPECT_EQ(found.total.scalar_type(), at::kFloat);
  EXPECT_EQ(found.nonFinite(), "");
}

TEST(AlphaFoldLosses, PerfectStructuresHavePerfectMetrics) {
  const Inputs truth = protein();
  const Tensor ca = truth.atom14GtPositions.select(1, 1);
  const Metrics same = metrics(somewhere().apply(ca), ca, truth.seqMask);
  EXPECT_NEAR(same.lddt.item<double>(), 1, 1e-9);
  EXPECT_NEAR(same.drmsd.item<double>(), 0, 1e-9);
  EXPECT_NEAR(same.gdtTs.item<double>(), 1, 1e-9);
  const Tensor mirrored = ca * at::tensor({1, 1, -1}, at::kDouble);
  EXPECT_NEAR(metrics(mirrored, ca, truth.seqMask).drmsd.item<double>(), 0, 1e-9);
  EXPECT_LT(metrics(mirrored, ca, truth.seqMask).gdtHa.item<double>(), 1)
      << "a mirror image is not superposed by a reflection";
}

TEST(Ema, FollowsAndChangesPlaces) {
  Linear model(3, 2);
  const Tensor begin = model->weight.detach().clone();
  models::Ema ema(*model, 0.9);
  {
    const at::NoGradGuard constant;
    model->weight.add_(1);
  }
  ema.update();
  const Tensor now = model->weight.detach().clone();
  {
    const models::Ema::Exchanged averaged(ema);
    EXPECT_TRUE(at::allclose(model->weight, begin + 0.1));
  }
  EXPECT_TRUE(at::equal(model->weight, now));
  const lm::Folder folder;
  models::writeSafetensors(folder / "a.safetensors", ema.state(), {});
  models::Ema other(*model, 0.9);
  other.restore(models::Safetensors(folder / "a.safetensors"));
  EXPECT_TRUE(at::equal(other.state()[0].tensor, ema.state()[0].tensor));
  EXPECT_EQ(other.state()[0].name, "ema.weight");
  EXPECT_SAYS(errorOf([&] { models::Ema(*model, 1); }), "decay 1: must be at least 0");
}

} // namespace
} // namespace kiln::alphafold
