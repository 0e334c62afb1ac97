// --graphs: steps that are replayed are those that would have been enqueued, bit by bit, also
// across a checkpoint; and what cannot be captured is refused with a way out. The first needs a
// GPU.
#include "test/lm/Helpers.h"
#include "test/lm/Runs.h"

#include <gtest/gtest.h>

namespace kiln::lm {
namespace {

using at::Tensor;

Options graphOptions(const Folder& folder) {
  Options options = smallOptions(folder.string());
  options.kiln = "on";
  options.graphs = true;
  return options;
}

TEST(LmGraphs, WhatCannotBeCapturedIsRefusedWithAWayOut) {
  const Folder folder;
  const auto refusal = [&](auto change) {
    return errorOf([&] {
      Options options = graphOptions(folder);
      change(options);
      options.settle();
    });
  };
  EXPECT_EQ(refusal([](Options&) {}), "no error");
  EXPECT_SAYS(refusal([](Options& o) { o.accumulate = 4; }),
              "--graphs and --accumulate=4: a graph is a step of one batch");
  EXPECT_SAYS(refusal([](Options& o) { o.kiln = "off"; }),
              "--graphs and --kiln=off: LibTorch's AdamW computes each step's size on the host; "
              "take --kiln=on or --kiln=modules");
  EXPECT_SAYS(refusal([](Options& o) { o.kiln = "verify"; }), "compared on the host");
}

TEST(LmGraphs, ACpuHasNone) {
  const Folder folder;
  const Options options = graphOptions(folder);
  EXPECT_SAYS(errorOf([&] { trainerOf(options); }),
              "--graphs: CUDA graphs need a GPU and the run is on cpu; leave --graphs out");
}

TEST(LmGraphs, AnOptimizerThatIsNotKilnsIsRefused) {
  torch::nn::Linear model(3, 4);
  Options options;
  options.kiln = "off";
  Updater updater(*model, updateOptions(options));
  EXPECT_SAYS(errorOf([&] { updater.setRate(1e-3); }),
              "Kiln's AdamW did not compute the last step");
}

class LmGraphsOnGpu : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available())
      GTEST_SKIP() << "no GPU, so that nothing can be captured";
  }
  void TearDown() override { disable(); }

  static Options options(const Folder& folder, bool graphs) {
    Options chosen = graphOptions(folder);
    chosen.device = "cuda";
    chosen.kiln = GetParam();
    chosen.precision = "bf16";
    chosen.graphs = graphs;
    chosen.steps = 12;
    startKiln(chosen.kiln);
    return chosen;
  }
  static void expectSame(Trainer& one, Trainer& other) {
    const auto theirs = other.transformer()->named_parameters();
    for (const auto& parameter : one.transformer()->named_parameters())
      EXPECT_TRUE(at::equal(parameter.value(), theirs[parameter.key()])) << parameter.key();
  }
};

TEST_P(LmGraphsOnGpu, ReplaysAreTheStepsThemselves) {
  const Folder folder;
  Trainer eager = trainerOf(options(folder, false)), replayed = trainerOf(options(folder, true));
  for (Trainer* one : {&eager, &replayed})
    one->prepare();
  EXPECT_EQ(lossesOf(eager, 12), lossesOf(replayed, 12));
  expectSame(eager, replayed);
  EXPECT_EQ(eager.evaluate(), replayed.evaluate());
}

TEST_P(LmGraphsOnGpu, ARunIsResumedBitByBit) {
  const Folder folder;
  Trainer whole = trainerOf(options(folder, true)), begun = trainerOf(options(folder, true));
  for (Trainer* one : {&whole, &begun})
    one->prepare();
  lossesOf(whole, 12);
  lossesOf(begun, 6);
  const auto checkpoint = begun.save();
  Trainer rest = trainerOf(options(folder, true));
  rest.resume(checkpoint);
  rest.prepare();
  lossesOf(rest, 6);
  expectSame(whole, rest);
}

INSTANTIATE_TEST_SUITE_P(Kiln, LmGraphsOnGpu, testing::Values("on", "modules"),
                         [](const auto& one) { return std::string(one.param); });

} // namespace
} // namespace kiln::lm
