// Training runs of a tiny model on proteins that nobody has seen: the loss falls, a resumed run
// goes on bit by bit, averages are what is evaluated, and what is not finite changes no weight.
#include "kiln/torch.h"
#include "models/alphafold/train/Trainer.h"
#include "models/common/Graph.h"
#include "models/common/Random.h"
#include "test/alphafold/Synthetic.h"
#include "test/lm/Helpers.h"

#include <ATen/Context.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>

namespace kiln::alphafold {
namespace {

using at::Tensor;
using lm::errorOf;

/// `proteins` in turn, `size` a step.
class SyntheticSource : public Source {
 public:
  explicit SyntheticSource(std::int64_t proteins, std::int64_t size = 1, std::int64_t most = 2)
      : proteins(proteins), size(size), most(most) {}

  std::vector<std::vector<Inputs>> batch(std::int64_t step) override {
    std::vector<std::vector<Inputs>> all;
    for (std::int64_t i = 0; i < size; ++i) {
      const auto seed = std::uint64_t(1 + (step * size + i) % proteins);
      const std::int64_t passes = passesAt(step);
      all.emplace_back(std::size_t(passes), syntheticInputs({}, seed));
      if (step == spoiled)
        all.back().back().msaFeat.fill_(std::numeric_limits<float>::infinity());
    }
    return all;
  }

  std::int64_t passesAt(std::int64_t step) const {
    return 1 + std::int64_t(models::Random(1, {std::uint64_t(step)}).below(std::uint64_t(most)));
  }

  std::int64_t spoiled = -1; // step

 private:
  std::int64_t proteins, size, most;
};

TrainOptions smallOptions(const std::string& out) {
  TrainOptions options;
  options.model = ModelConfig::named("tiny");
  options.device = "cpu";
  options.out = out;
  options.warmup = 10;
  options.learningRate = 3e-3;
  options.ema = 0.9;
  return options;
}

TEST(AlphaFoldTrainer, AProteinIsLearnt) {
  const lm::Folder folder;
  TrainOptions options = smallOptions(folder.string());
  options.clip = 1;
  options.learningRate = 2e-3;
  options.model.msaDropout = options.model.pairDropout = options.model.structureDropout = 0;
  SyntheticSource source(1);
  Trainer trainer(options, source);
  const Trainer::Evaluation before = trainer.evaluate(source, 1);
  for (int i = 0; i < 150; ++i)
    trainer.step();
  const Trainer::Evaluation after = trainer.evaluate(source, 1);
  EXPECT_LT(before.lddt, 0.5);
  EXPECT_GT(after.lddt, 0.9);
  EXPECT_LT(after.drmsd, 0.5) << "angstrom";
  EXPECT_LT(after.loss, 0.05 * before.loss);
}

std::vector<double> lossesOf(Trainer& trainer, int steps) {
  std::vector<double> all;
  for (int i = 0; i < steps; ++i)
    all.push_back(trainer.step().loss);
  return all;
}

TEST(AlphaFoldTrainer, AResumedRunGoesOnBitByBit) {
  const lm::Folder folder;
  TrainOptions options = smallOptions(folder.string());
  options.stage = "finetune";
  options.keep = 1;
  SyntheticSource source(3, /*size=*/2);
  Trainer whole(options, source);
  lossesOf(whole, 3);
  const auto path = whole.save();
  const auto expected = lossesOf(whole, 3);
  Trainer resumed(options, source);
  lossesOf(resumed, 1); // weights, averages and random numbers of another moment
  resumed.resume(path);
  EXPECT_EQ(resumed.position(), 3);
  EXPECT_EQ(lossesOf(resumed, 3), expected);
  const models::Safetensors one(whole.save());
  std::map<std::string, Tensor> state;
  for (const std::string& name : one.names())
    state[name] = one.tensor(name).clone();
  const models::Safetensors other(resumed.save());
  for (const auto& [name, tensor] : state)
    EXPECT_TRUE(at::equal(other.tensor(name), tensor)) << name;
  EXPECT_TRUE(state.contains("ema.evoformer.linear.weight"));
  EXPECT_TRUE(state.contains("optimizer.exp_avg.evoformer.linear.weight"));
  EXPECT_EQ(path.filename(), "step-000003.safetensors");
  EXPECT_FALSE(std::filesystem::exists(path)) << "only the newest is kept";
}

/// Fine-tuning begins with the averages of a first training.
TEST(AlphaFoldTrainer, AveragesAreShippedAndBegunWith) {
  const lm::Folder folder;
  TrainOptions options = smallOptions(folder.string());
  SyntheticSource source(2);
  Trainer first(options, source);
  lossesOf(first, 3);
  first.saveAverages(folder / "weights.safetensors");
  const double expected = first.evaluate(source, 2).loss;
  options.seed = 2;
  Trainer second(options, source);
  EXPECT_NE(second.evaluate(source, 2).loss, expected);
  second.beginWith(folder / "weights.safetensors");
  EXPECT_EQ(second.evaluate(source, 2).loss, expected);
  EXPECT_EQ(second.position(), 0);
}

TEST(AlphaFoldTrainer, WhatCannotBeComparedIsNotEvaluated) {
  struct Unresolved : SyntheticSource {
    Unresolved(std::int64_t proteins, std::int64_t only) : SyntheticSource(proteins), only(only) {}
    std::vector<std::vector<Inputs>> batch(std::int64_t step) override {
      auto all = SyntheticSource::batch(step);
      if (only < 0 || step == only)
        for (Inputs& inputs : all[0])
          inputs.allAtomMask.zero_();
      return all;
    }
    std::int64_t only; // this step; negative: all
  };
  const lm::Folder folder;
  SyntheticSource source(2);
  Trainer trainer(smallOptions(folder.string()), source);
  Unresolved second(2, 1), none(2, -1);
  const Trainer::Evaluation found = trainer.evaluate(second, 2),
                            first = trainer.evaluate(source, 1);
  EXPECT_EQ(found.lddt, first.lddt);
  EXPECT_EQ(found.loss, first.loss);
  EXPECT_SAYS(errorOf([&] { trainer.evaluate(none, 2); }),
              "none of 2 proteins to evaluate on has two resolved residues");
}

/// Figures of a step are what the host reads once: also of several proteins, and lDDT among them.
TEST(AlphaFoldTrainer, StepsTellTheQualityOfWhatTheyPredict) {
  const lm::Folder folder;
  TrainOptions options = smallOptions(folder.string());
  options.model.msaDropout = options.model.pairDropout = options.model.structureDropout = 0;
  options.ema = 0;
  SyntheticSource source(1, 1, /*most=*/1);
  Trainer trainer(options, source);
  for (int i = 0; i < 3; ++i) {
    const double expected = trainer.evaluate(source, 1).lddt; // of the weights as they are
    EXPECT_NEAR(trainer.step().lddt, expected, 1e-6);
  }
}

TEST(AlphaFoldTrainer, LossesAreMeansOfTheirTerms) {
  const lm::Folder folder;
  SyntheticSource source(3, /*size=*/2, /*most=*/3);
  Trainer trainer(smallOptions(folder.string()), source);
  for (std::int64_t step = 0; step < 4; ++step) {
    const Trainer::Step now = trainer.step();
    EXPECT_EQ(now.passes, source.passesAt(step));
    double sum = 0;
    for (const Term& term : now.terms)
      sum += term.weight * term.value.item<double>();
    EXPECT_NEAR(now.loss, sum * std::sqrt(6.0), 1e-3) << "6 residues of 7";
    EXPECT_GT(now.norm.item<double>(), 0);
  }
}

TEST(AlphaFoldTrainer, WhatIsNotFiniteChangesNoWeight) {
  const lm::Folder folder;
  TrainOptions options = smallOptions(folder.string());
  SyntheticSource source(1);
  Trainer trainer(options, source);
  trainer.step();
  const Tensor before = trainer.network()->evoformer->single->weight.detach().clone();
  source.spoiled = 1;
  const Trainer::Step bad = trainer.step();
  EXPECT_SAYS(bad.nonFinite, "masked_msa is nan");
  EXPECT_TRUE(at::equal(trainer.network()->evoformer->single->weight, before));
  EXPECT_EQ(trainer.step().nonFinite, "");
  EXPECT_FALSE(at::equal(trainer.network()->evoformer->single->weight, before));
  EXPECT_SAYS(errorOf([&] {
                for (int i = 0; i < 10; ++i) {
                  source.spoiled = trainer.position();
                  trainer.step();
                }
              }),
              "10 steps in a row had losses that are not finite");
}

TEST(AlphaFoldTrainer, Bf16AndRecomputationTrainAlike) {
  const lm::Folder folder;
  TrainOptions options = smallOptions(folder.string());
  SyntheticSource source(1);
  const auto losses = [&] {
    Trainer trainer(options, source);
    return lossesOf(trainer, 4);
  };
  const auto exact = losses();
  options.recompute = "blocks";
  const auto again = losses();
  options.precision = "bf16";
  const auto rounded = losses();
  for (std::size_t i = 0; i < exact.size(); ++i) {
    EXPECT_NEAR(again[i], exact[i], 1e-3 * exact[i]);
    EXPECT_NEAR(rounded[i], exact[i], 2e-2 * exact[i]);
  }
}

/// Kiln's kernels for tensors of the CPU, for a scope.
class KilnOnCpu {
 public:
  KilnOnCpu() {
    ::setenv("KILN_PLACE", "cpu", 1);
    kiln::enable(kiln::Options::fromEnvironment());
  }
  ~KilnOnCpu() {
    kiln::disable();
    ::unsetenv("KILN_PLACE");
  }
  KilnOnCpu(const KilnOnCpu&) = delete;
  KilnOnCpu& operator=(const KilnOnCpu&) = delete;
};

TEST(AlphaFoldTrainer, KilnChangesRoundingsOnly) {
  const lm::Folder folder;
  TrainOptions options = smallOptions(folder.string());
  options.model.evoformerBlocks = 1;
  SyntheticSource source(1, 1, /*most=*/1);
  const auto losses = [&] {
    Trainer trainer(options, source);
    lossesOf(trainer, 1);
    kiln::wait(); // until kernels are there
    return lossesOf(trainer, 3);
  };
  const auto expected = losses();
  const KilnOnCpu enabled;
  options.kiln = "on";
  const auto found = losses();
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], 2e-3 * expected[i]);
  for (const char* op :
       {"native_layer_norm ", "native_layer_norm_backward ", "_softmax ", "optim.AdamW "})
    EXPECT_SAYS(kiln::report(), std::string("\n") + op);
}

TEST(AlphaFoldTrainerOnGpu, AgreesWithTheCpu) {
  if (!at::hasCUDA() || at::getNumGPUs() == 0)
    GTEST_SKIP() << "needs a GPU that LibTorch can use";
  const lm::Folder folder;
  TrainOptions options = smallOptions(folder.string());
  options.model.msaDropout = options.model.pairDropout = options.model.structureDropout = 0;
  options.stage = "finetune";
  SyntheticSource source(2);
  const auto run = [&](const char* device, const char* precision) {
    options.device = device;
    options.precision = precision;
    Trainer trainer(options, source);
    auto all = lossesOf(trainer, 3);
    all.push_back(trainer.evaluate(source, 2).loss);
    return all;
  };
  const auto expected = run("cpu", "fp32"), found = run("cuda", "fp32"), bf16 = run("cuda", "bf16");
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(found[i], expected[i], 1e-3 * expected[i]);
    EXPECT_NEAR(bf16[i], expected[i], 3e-2 * expected[i]);
  }
}

/// Two kinds of steps, a graph and its update each, and one step without an update.
TEST(AlphaFoldTrainerOnGpu, GraphsTrainAsLaunchesDo) {
  if (!at::hasCUDA() || at::getNumGPUs() == 0)
    GTEST_SKIP() << "no GPU, so that nothing can be captured";
  const lm::Folder folder;
  TrainOptions options = smallOptions(folder.string());
  options.device = "cuda";
  options.kiln = "on";
  options.clip = 1;
  kiln::enable();
  SyntheticSource source(2);
  source.spoiled = 9;
  std::map<std::string, Tensor> counts[2], averages[2];
  std::vector<double> losses[2];
  for (bool graphs : {false, true}) {
    options.graphs = graphs;
    Trainer trainer(options, source);
    for (int step = 0; step < 14; ++step)
      if (const Trainer::Step now = trainer.step(); now.nonFinite.empty())
        losses[graphs].push_back(now.loss);
    const models::Safetensors saved(trainer.save());
    for (const std::string& name : saved.names()) {
      if (name.starts_with("optimizer.step."))
        counts[graphs][name] = saved.tensor(name).clone();
      if (name.starts_with("ema."))
        averages[graphs][name] = saved.tensor(name).clone();
    }
  }
  kiln::disable();
  ASSERT_EQ(losses[0].size(), 13U);
  ASSERT_EQ(losses[1].size(), 13U);
  for (std::size_t i = 0; i < losses[0].size(); ++i)
    EXPECT_NEAR(losses[1][i], losses[0][i], 2e-3 * losses[0][i]) << i;
  for (const auto& [name, count] : counts[0])
    EXPECT_TRUE(at::equal(counts[1].at(name), count)) << name;
  for (const auto& [name, average] : averages[0])
    EXPECT_LT((averages[1].at(name) - average).abs().max().item<double>(), 1e-2) << name;
}

/// What lives only within steps is in the same place for all graphs.
TEST(AlphaFoldTrainerOnGpu, GraphsBesideEachOtherShareMemory) {
  if (!at::hasCUDA() || at::getNumGPUs() == 0)
    GTEST_SKIP() << "no GPU, so that nothing can be captured";
  const at::Device device(at::kCUDA, 0);
  const Tensor x = at::ones({64, 1024, 1024}, device); // 256 MiB
  std::vector<Tensor> sums(2);
  const auto work = [&](std::size_t i) { return [&, i] { sums[i] = (x * 2).exp().sum(); }; };
  const auto reserved = [&] {
    constexpr auto all = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    return c10::getDeviceAllocator(device.type())->getDeviceStats(0).reserved_bytes[all].current;
  };
  models::StepGraph first(device, work(0));
  const std::int64_t alone = reserved();
  double lent = 0;
  first.lendMemory([&] { lent = (x * 2).exp().sum().item<double>(); });
  EXPECT_NEAR(lent / double(x.numel()), std::exp(2.0), 1e-3);
  EXPECT_LT(reserved(), alone + std::int64_t(x.nbytes()));
  models::StepGraph second(device, work(1), &first);
  EXPECT_LT(reserved(), alone + std::int64_t(x.nbytes()));
  for (std::size_t i : {0, 1, 0}) {
    (i == 0 ? first : second).replay();
    EXPECT_NEAR(sums[i].item<double>() / double(x.numel()), std::exp(2.0), 1e-3);
  }
}

TEST(AlphaFoldTrainer, TheRateRisesAndFalls) {
  TrainOptions options;
  EXPECT_DOUBLE_EQ(learningRate(options, 0), 1e-6);
  EXPECT_DOUBLE_EQ(learningRate(options, 499), 5e-4);
  EXPECT_DOUBLE_EQ(learningRate(options, 999), 1e-3);
  EXPECT_DOUBLE_EQ(learningRate(options, 49999), 1e-3);
  EXPECT_DOUBLE_EQ(learningRate(options, 50000), 0.95e-3);
  EXPECT_DOUBLE_EQ(learningRate(options, 100000), 0.95 * 0.95e-3);
  options.warmup = 0;
  EXPECT_DOUBLE_EQ(learningRate(options, 0), 1e-3);
}

TEST(AlphaFoldTrainer, OptionsThatDoNotFitAreRefused) {
  const lm::Folder folder;
  SyntheticSource source(1);
  const auto error = [&](auto change) {
    TrainOptions options = smallOptions(folder.string());
    change(options);
    return errorOf([&] { Trainer trainer(options, source); });
  };
  EXPECT_SAYS(error([](TrainOptions& o) { o.steps = 0; }), "--steps=0: at least 1");
  EXPECT_SAYS(error([](TrainOptions& o) { o.precision = "fp8"; }), "--precision=fp8: allowed");
  EXPECT_SAYS(error([](TrainOptions& o) { o.stage = "last"; }), "--stage=last");
  for (const char* text : {"all", "every=0", "every=2x", "every="})
    EXPECT_SAYS(error([&](TrainOptions& o) { o.recompute = text; }),
                std::string("--recompute=") + text + ": allowed are none, blocks, and every=N");
  EXPECT_SAYS(error([](TrainOptions& o) { o.ema = 1; }), "--ema=1: must lie in");
  TrainOptions options = smallOptions(folder.string());
  Trainer trainer(options, source);
  const auto path = trainer.save();
  options.model.evoformerBlocks = 3;
  Trainer other(options, source);
  EXPECT_SAYS(errorOf([&] { other.resume(path); }),
              "another model than the options make: evoformer_blocks 2 and 3; --config=");
}

} // namespace
} // namespace kiln::alphafold
