// The model as a whole: names and shapes of its parameters, passes with and without templates,
// recycling, recomputation, bf16, and what is refused.
#include "models/alphafold/model/AlphaFold.h"
#include "models/common/Checkpoint.h"
#include "test/alphafold/Synthetic.h"
#include "test/lm/Helpers.h"
#include "test/torch/Peak.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <fstream>

namespace kiln::alphafold {
namespace {

using at::Tensor;
using lm::errorOf;

std::vector<std::string> namesAndShapes(const torch::nn::Module& model) {
  std::vector<std::string> all;
  for (const auto& parameter : model.named_parameters())
    all.push_back(fmt::format("{} {}", parameter.key(), fmt::join(parameter.value().sizes(), "x")));
  return all;
}

AlphaFold tinyModel(std::uint64_t seed = 1, at::ScalarType dtype = at::kFloat) {
  AlphaFold model(ModelConfig::named("tiny"));
  stir(*model, seed);
  model->to(dtype);
  model->eval();
  return model;
}

std::vector<Inputs> passesOf(const SyntheticSizes& sizes, int count,
                             at::ScalarType dtype = at::kFloat) {
  std::vector<Inputs> passes;
  for (int i = 0; i < count; ++i) {
    passes.push_back(syntheticInputs(sizes, 7, dtype));
    const Seeded seeded(std::uint64_t(100 + i)); // the alignment is drawn anew
    passes.back().msaFeat = at::randn_like(passes.back().msaFeat);
  }
  return passes;
}

/// A number that depends on every output.
Tensor summary(const Outputs& out) {
  Tensor sum = out.structure.positions.square().mean() + out.structure.angles.select(-1, 0).mean();
  for (const Tensor& logits : {out.predictions.lddt, out.predictions.distogram,
                               out.predictions.maskedMsa, out.predictions.resolved})
    sum = sum + logits.square().mean();
  return sum;
}

TEST(AlphaFold, ParametersAreThoseOfOpenFold) {
  std::ifstream file(KILN_PARAMETERS);
  std::vector<std::string> expected;
  for (std::string line; std::getline(file, line);)
    expected.push_back(line);
  const AlphaFold model(ModelConfig::named("model_1"));
  EXPECT_EQ(expected.size(), 5044U);
  EXPECT_EQ(namesAndShapes(*model), expected);
  EXPECT_EQ(model->parameterCount(), 93'229'082);
}

TEST(AlphaFold, AlignedErrorHeadAddsItsParameters) {
  ModelConfig config = ModelConfig::named("model_1_ptm");
  const Heads with(config);
  config.alignedError = false;
  const Heads without(config);
  const auto count = [](const torch::nn::Module& heads) {
    std::int64_t sum = 0;
    for (const Tensor& parameter : heads.parameters())
      sum += parameter.numel();
    return sum;
  };
  EXPECT_EQ(93'229'082 + count(*with) - count(*without), 93'237'338);
  EXPECT_TRUE(with->named_parameters().contains("tm.linear.weight"));
}

/// Gates are open, what is added to a stream is zero: a new block changes nothing.
TEST(AlphaFold, ANewModelPassesItsStreamsOn) {
  const ModelConfig config = ModelConfig::named("tiny");
  EvoformerBlock block(config);
  block->eval();
  const Representations in = {at::randn({3, 5, config.msa}), at::randn({5, 5, config.pair})};
  const Representations out = block(in, Masks{at::ones({3, 5}), at::ones({5, 5})});
  EXPECT_TRUE(at::equal(out.m, in.m));
  EXPECT_TRUE(at::equal(out.z, in.z));
  AlphaFold model(config);
  const auto passes = passesOf({}, 1);
  const Tensor positions = model(passes).structure.backbones.back().translation;
  EXPECT_EQ(positions.abs().max().item<float>(), 0) << "frames have left the origin";
}

TEST(AlphaFold, PassesWithAndWithoutTemplates) {
  AlphaFold model = tinyModel();
  for (const std::int64_t templates : {0, 1, 4}) {
    const auto passes = passesOf({.templates = templates}, 1);
    const Outputs out = model(passes);
    EXPECT_EQ(out.predictions.maskedMsa.sizes(), at::IntArrayRef({4, 7, 23}));
    EXPECT_EQ(out.predictions.distogram.sizes(), at::IntArrayRef({7, 7, 64}));
    EXPECT_EQ(out.structure.positions.sizes(), at::IntArrayRef({7, 14, 3}));
    EXPECT_TRUE(summary(out).isfinite().item<bool>());
    EXPECT_TRUE(at::equal(out.predictions.distogram, out.predictions.distogram.transpose(0, 1)));
  }
}

/// Masked templates count as none, but that their rows stand in the alignment.
TEST(AlphaFold, MaskedTemplatesAddNothingToPairs) {
  const ModelConfig config = ModelConfig::named("tiny");
  TemplateEmbedder embedder(config);
  stir(*embedder, 3);
  Inputs inputs = syntheticInputs({}, 1);
  const Tensor z = at::randn({7, 7, config.pair}), mask = at::ones({7, 7});
  EXPECT_GT(embedder(inputs, z, mask).z.abs().max().item<float>(), 0);
  inputs.templateMask.zero_();
  EXPECT_EQ(embedder(inputs, z, mask).z.abs().max().item<float>(), 0);
}

/// Where nothing is masked, it is the same whether masks are read or not.
TEST(AlphaFold, FullMasksNeedNotBeRead) {
  AlphaFold model = tinyModel(1, at::kDouble);
  for (const std::int64_t templates : {0, 2}) {
    auto passes = passesOf({.templates = templates, .padding = 0}, 2, at::kDouble);
    const Outputs read = model(passes);
    for (Inputs& inputs : passes) {
      inputs.settle();
      EXPECT_TRUE(inputs.isSeqFull && inputs.isMsaFull && inputs.isExtraMsaFull);
      inputs.extraMsaMask.zero_(); // is not looked at
    }
    EXPECT_NEAR(summary(read).item<double>(), summary(model(passes)).item<double>(), 1e-9);
  }
  Inputs inputs = syntheticInputs({.padding = 1}, 1);
  inputs.templateMask.zero_();
  inputs.settle();
  EXPECT_FALSE(inputs.isSeqFull || inputs.isMsaFull || inputs.isExtraMsaFull);
  EXPECT_FALSE(inputs.hasTemplates()) << "all were masked";
  inputs.check();
}

/// What is padded changes nothing for what is not.
TEST(AlphaFold, PaddingIsNotSeen) {
  AlphaFold model = tinyModel(1, at::kDouble);
  auto passes = passesOf({.padding = 2}, 2, at::kDouble);
  const Outputs out = model(passes);
  for (Inputs& inputs : passes) {
    inputs.msaFeat.narrow(1, 5, 2) += 1;
    inputs.extraMsaFeat.narrow(1, 5, 2) += 1;
    inputs.targetFeat.narrow(0, 5, 2) += 1;
  }
  const Outputs other = model(passes);
  const auto kept = [](const Outputs& of) { return of.structure.positions.narrow(0, 0, 5); };
  EXPECT_TRUE(at::allclose(kept(out), kept(other), 0, 1e-9));
  EXPECT_FALSE(at::allclose(out.structure.positions, other.structure.positions, 0, 1e-9));
}

TEST(AlphaFold, OnlyTheLastPassHasGradients) {
  AlphaFold model = tinyModel(1, at::kDouble);
  const auto passes = passesOf({}, 3, at::kDouble);
  Recycled before = model->nothing(passes[0]);
  for (int i = 0; i < 2; ++i)
    before = model->pass(passes[std::size_t(i)], before).recycled;
  EXPECT_FALSE(before.z.requires_grad());
  const Tensor byHand = summary(model->pass(passes[2], before));
  const Tensor byModel = summary(model(passes));
  // Products may be rounded otherwise where their operands lie otherwise.
  EXPECT_NEAR(byHand.item<double>(), byModel.item<double>(),
              1e-12 * std::abs(byHand.item<double>()));
  const auto parameters = model->parameters();
  const auto expected = torch::autograd::grad({byHand}, parameters, {}, false, false, true);
  const auto found = torch::autograd::grad({byModel}, parameters, {}, false, false, true);
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(!expected[i].defined() || at::allclose(found[i], expected[i], 1e-9, 1e-11));
  const Tensor first = summary(model(std::span(passes).first(1)));
  EXPECT_NE(first.item<double>(), byModel.item<double>()) << "recycling changes nothing";
}

TEST(AlphaFold, EveryParameterGetsAGradient) {
  AlphaFold model = tinyModel();
  model->train();
  at::manual_seed(1);
  const Outputs out = model(passesOf({}, 1));
  (summary(out) + out.structure.backbones.front().translation.sum()).backward();
  for (const auto& parameter : model->named_parameters()) {
    const Tensor& gradient = parameter.value().grad();
    // The last extra block's alignment goes no further than into its pairs.
    ASSERT_TRUE(gradient.defined()) << parameter.key();
    EXPECT_TRUE(gradient.isfinite().all().item<bool>()) << parameter.key();
  }
}

/// Also where weights were cast for passes without gradients before.
TEST(AlphaFold, EveryParameterGetsAGradientInBf16) {
  AlphaFold model = tinyModel();
  model->train();
  at::manual_seed(1);
  Tensor sum;
  {
    const models::Autocast autocast(at::kCPU, models::Autocast::of("bf16"));
    const Outputs out = model(passesOf({}, 2));
    sum = summary(out) + out.structure.backbones.front().translation.sum();
  }
  sum.backward();
  for (const auto& parameter : model->named_parameters())
    EXPECT_TRUE(parameter.value().grad().defined()) << parameter.key();
}

TEST(AlphaFold, RecomputationChangesNothing) {
  ModelConfig config = ModelConfig::named("tiny");
  config.evoformerBlocks = 3;
  AlphaFold model(config);
  stir(*model, 1);
  model->to(at::kDouble);
  model->train(); // with dropout
  const auto passes = passesOf({}, 2, at::kDouble);
  std::vector<std::vector<Tensor>> gradients;
  std::vector<double> sums;
  for (const std::int64_t every : {0, 1, 2}) {
    model->setRecompute(every);
    model->zero_grad();
    at::manual_seed(5);
    const Tensor sum = summary(model(passes));
    sum.backward();
    sums.push_back(sum.item<double>());
    gradients.emplace_back();
    for (const Tensor& parameter : model->parameters())
      gradients.back().push_back(parameter.grad().clone());
  }
  // Without gradients at::scaled_dot_product_attention takes another path, and rounds otherwise.
  for (const std::size_t other : {1, 2}) {
    EXPECT_NEAR(sums[0], sums[other], 1e-10 * sums[0]);
    for (std::size_t i = 0; i < gradients[0].size(); ++i)
      EXPECT_TRUE(at::allclose(gradients[0][i], gradients[other][i], 1e-9, 1e-11)) << other;
  }
}

/// Templates keep two representations a block, whatever is computed within; and hold less at most.
TEST(AlphaFold, RecomputedTemplatesKeepTheirStreamsOnly) {
  ModelConfig config = ModelConfig::named("tiny");
  config.templateBlocks = 2;
  TemplatePairStack stack(config);
  stir(*stack, 7, 0.1);
  const Tensor t = at::randn({2, 24, 24, config.templatePair}).requires_grad_();
  std::vector<std::size_t> kept, most;
  for (const std::int64_t every : {0, 1}) {
    stack->recompute = {every};
    test::Peak memory;
    const Tensor made = stack(t, Tensor());
    kept.push_back(memory.held);
    torch::autograd::grad({made}, {t}, {at::ones_like(made)});
    most.push_back(memory.most);
  }
  const auto streams = std::size_t(2 * stack->blocks->size() + 2); // the first norm has its input
  EXPECT_LE(kept[1], (streams + 1) * t.nbytes());
  EXPECT_GT(kept[0], 4 * kept[1]);
  EXPECT_LT(most[1], most[0]);
}

/// Templates go through their blocks at once, as they do one by one.
TEST(AlphaFold, TemplatesDoNotSeeEachOther) {
  const ModelConfig config = ModelConfig::named("tiny");
  at::manual_seed(6);
  TemplatePairStack stack(config);
  stir(*stack, 7, 0.1);
  stack->to(at::kDouble);
  stack->eval();
  const Tensor t = at::randn({3, 6, 6, config.templatePair}, at::kDouble),
               some = (at::rand({6, 6}) > 0.3).to(at::kDouble);
  for (const Tensor& mask : {some, Tensor()}) {
    const Tensor all = stack(t, mask);
    for (std::int64_t i = 0; i < t.size(0); ++i)
      EXPECT_TRUE(at::allclose(all[i], stack(t[i], mask), 1e-10, 1e-10)) << i;
  }
}

TEST(AlphaFold, Bf16KeepsStructureAndHeadsInFp32) {
  AlphaFold model = tinyModel();
  const auto passes = passesOf({}, 2);
  const Outputs exact = model(passes);
  const models::Autocast autocast(at::kCPU, models::Autocast::of("bf16"));
  const Outputs rounded = model(passes);
  for (const Tensor& one : {rounded.structure.positions, rounded.structure.single,
                            rounded.predictions.distogram, rounded.predictions.lddt})
    EXPECT_EQ(one.scalar_type(), at::kFloat);
  const Tensor apart = rounded.predictions.distogram - exact.predictions.distogram;
  const double share = (apart.norm() / exact.predictions.distogram.norm()).item<double>();
  EXPECT_GT(share, 0) << "nothing was rounded";
  EXPECT_LT(share, 0.1);
  summary(rounded).backward();
  for (const auto& parameter : model->named_parameters())
    EXPECT_EQ(parameter.value().grad().scalar_type(), at::kFloat) << parameter.key();
}

TEST(AlphaFold, CheckpointsComeBackUnderOpenFoldsNames) {
  const lm::Folder folder;
  AlphaFold one = tinyModel(1), other = tinyModel(2);
  std::vector<models::NamedTensor> tensors;
  for (const auto& parameter : one->named_parameters())
    tensors.push_back({parameter.key(), parameter.value()});
  models::writeSafetensors(folder / "weights.safetensors", tensors, {});
  const models::Safetensors file(folder / "weights.safetensors");
  EXPECT_TRUE(file.contains("evoformer.blocks.1.msa_att_col._msa_att.mha.linear_q.weight"));
  models::readParameters(file, *other);
  const auto passes = passesOf({}, 1);
  EXPECT_EQ(summary(one(passes)).item<float>(), summary(other(passes)).item<float>());
  ModelConfig config = ModelConfig::named("tiny");
  config.alignedError = true;
  AlphaFold more(config);
  EXPECT_SAYS(errorOf([&] { models::readParameters(file, *more); }),
              "has no tensor aux_heads.tm.linear.weight");
  config = ModelConfig::named("tiny");
  config.resnet = 9;
  AlphaFold wider(config);
  EXPECT_SAYS(errorOf([&] { models::readParameters(file, *wider); }),
              "angle_resnet.linear_in.weight is Float [8, 20], and Float [9, 20] is needed");
}

TEST(AlphaFold, ConfigsComeBack) {
  ModelConfig config = ModelConfig::named("tiny");
  config.alignedError = true;
  EXPECT_EQ(ModelConfig::parse(config.text()), config);
  EXPECT_SAYS(errorOf([] { ModelConfig::named("model_9"); }), "allowed are model_1, model_1_ptm");
  EXPECT_SAYS(errorOf([] { ModelConfig::parse(R"({"widht": 3})"); }), "no 'widht'");
  EXPECT_SAYS(errorOf([] { ModelConfig::parse("{"); }), "cannot be read");
  config.pairHeads = 0;
  EXPECT_SAYS(errorOf([&] { AlphaFold model(config); }), "pair_heads is 0: at least 1");
  config = {};
  config.msaDropout = 1;
  EXPECT_SAYS(errorOf([&] { config.check(); }), "msa_dropout is 1");
  config = {};
  config.templateBins = 38;
  EXPECT_SAYS(errorOf([&] { config.check(); }), "template_pair_features is 88");
}

TEST(AlphaFold, InputsThatDoNotFitAreRefused) {
  AlphaFold model = tinyModel();
  const auto error = [&](auto change) {
    std::vector<Inputs> passes = {syntheticInputs({}, 1)};
    change(passes.front());
    return errorOf([&] { model(passes); });
  };
  EXPECT_SAYS(error([](Inputs& in) { in.msaFeat = Tensor(); }), "there is no msa_feat");
  EXPECT_SAYS(error([](Inputs& in) { in.msaMask = at::ones({4, 8}); }),
              "msa_mask is [4, 8]: it should be [S R], where R = 7, S = 4");
  EXPECT_SAYS(error([](Inputs& in) { in.extraMsaFeat = at::ones({5, 7, 24}); }),
              "extra_msa_feat has 24 features, and this model reads 25");
  EXPECT_SAYS(error([](Inputs& in) { in.templateMask = Tensor(); }), "but no template_mask");
  EXPECT_SAYS(error([](Inputs& in) { in.templateAatype = at::ones({2, 6}, at::kLong); }),
              "template_aatype is [2, 6]");
  EXPECT_SAYS(errorOf([&] { model(std::span<const Inputs>()); }), "one pass at least");
}

} // namespace
} // namespace kiln::alphafold
