// kiln::optim::AdamW beside torch::optim::AdamW on the CPU, where the host target executes Kiln's
// kernels: twenty steps, groups, clips, copies, averages, checkpoints both ways, and what is left
// to torch's formulas.
#include "test/torch/OptimHelpers.h"

#include <torch/nn/utils/clip_grad.h>
#include <torch/serialize.h>

#include <limits>
#include <sstream>

using namespace kiln;
using namespace kiln::test;
using at::Tensor;
using torch::optim::AdamWOptions;
using torch::optim::OptimizerParamGroup;

namespace {

class Optim : public testing::Test {
 protected:
  void SetUp() override { enable(strictOnCpu()); }
  void TearDown() override { disable(); }
};

const std::vector<std::vector<std::int64_t>> shapes = {{33, 65}, {0, 7}, {1}, {1024}, {3000}, {}};

Tensors parameters(at::ScalarType dtype = at::kFloat) {
  at::manual_seed(3);
  Tensors all;
  for (const auto& shape : shapes)
    all.push_back(at::randn(shape).to(dtype).requires_grad_());
  return all;
}

/// Gradients of a step, newly allocated, as a backward makes them; those of a step whose number
/// `skips` divides lack the third.
void setGradients(std::initializer_list<Tensors*> sides, int step, int skips = 0,
                  double scale = 1) {
  for (Tensors* side : sides) {
    at::manual_seed(100 + step);
    for (std::size_t i = 0; i < side->size(); ++i) {
      Tensor& parameter = (*side)[i];
      const Tensor grad = at::randn(parameter.sizes()).mul(scale).to(parameter.scalar_type());
      const bool skipped = i == 2 && skips > 0 && step % skips == 0;
      parameter.mutable_grad() = skipped ? Tensor() : grad;
    }
  }
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kFp32 = 5e-6; // twenty roundings of parameters of up to 4

TEST_F(Optim, TwentyStepsAreTorchsInFp64) {
  Tensors ours = parameters(), theirs = parameters(at::kDouble);
  optim::AdamW mine(ours, AdamWOptions(1e-2));
  torch::optim::AdamW reference(theirs, AdamWOptions(1e-2));
  for (int step = 0; step < 20; ++step) {
    setGradients({&ours}, step);
    for (std::size_t i = 0; i < ours.size(); ++i)
      theirs[i].mutable_grad() = ours[i].grad().to(at::kDouble);
    mine.step();
    reference.step();
  }
  EXPECT_LE(worst(ours, theirs), kFp32);
  EXPECT_EQ(stateOf(mine, ours[0]).step(), 20);
  EXPECT_LE(
      worst({stateOf(mine, ours[4]).exp_avg_sq()}, {stateOf(reference, theirs[4]).exp_avg_sq()}),
      1e-7);
  EXPECT_EQ(callsByKiln("optim.AdamW"), 20U) << report();
  EXPECT_EQ(mine.launches(), 1U);
}

TEST_F(Optim, GroupsClipAndMissingGradients) {
  Tensors ours = parameters(), theirs = clones(ours);
  auto groupsOf = [](const Tensors& all) {
    std::vector<OptimizerParamGroup> groups;
    groups.emplace_back(Tensors(all.begin(), all.begin() + 3),
                        std::make_unique<AdamWOptions>(AdamWOptions(1e-2).weight_decay(0.1)));
    groups.emplace_back(Tensors(all.begin() + 3, all.end()),
                        std::make_unique<AdamWOptions>(AdamWOptions(3e-3).weight_decay(0)));
    return groups;
  };
  optim::AdamW mine(groupsOf(ours), {}, {.maxGradNorm = 20});
  torch::optim::AdamW reference(groupsOf(theirs));
  for (int step = 0; step < 20; ++step) {
    setGradients({&ours, &theirs}, step, /*skips=*/6, step < 3 ? 0.01 : 1);
    if (step % 5 == 4)
      for (torch::optim::Optimizer* one :
           {(torch::optim::Optimizer*)&mine, (torch::optim::Optimizer*)&reference})
        one->param_groups()[1].options().set_lr(1e-3 * step);
    const Tensor before = ours[0].grad().clone();
    mine.step();
    EXPECT_TRUE(at::equal(ours[0].grad(), before)) << "gradients stay as they are";
    const double norm = torch::nn::utils::clip_grad_norm_(theirs, 20);
    reference.step();
    EXPECT_NEAR(mine.gradNorm().item<double>(), norm, 1e-5 * norm) << step;
  }
  EXPECT_LE(worst(ours, theirs), kFp32);
  EXPECT_EQ(stateOf(mine, ours[2]).step(), 16);
  EXPECT_EQ(stateOf(mine, ours[0]).step(), 20);
}

TEST_F(Optim, AnInfiniteLimitTellsTheNormAndClipsNothing) {
  Tensors ours = parameters(), plain = clones(ours);
  optim::AdamW mine(ours, AdamWOptions(1e-2), {.maxGradNorm = kInfinity});
  optim::AdamW without(plain, AdamWOptions(1e-2));
  for (int step = 0; step < 4; ++step) {
    setGradients({&ours, &plain}, step);
    const double norm = torch::nn::utils::clip_grad_norm_(plain, kInfinity);
    mine.step();
    without.step();
    EXPECT_NEAR(mine.gradNorm().item<double>(), norm, 1e-5 * norm) << step;
    EXPECT_FALSE(without.gradNorm().defined());
    for (std::size_t i = 0; i < ours.size(); ++i)
      EXPECT_TRUE(at::equal(ours[i], plain[i])) << step << ", parameter " << i;
  }
}

TEST_F(Optim, CopiesAveragesAndUnscaledGradientsOfBf16) {
  Tensors ours = parameters(), theirs = clones(ours), averages = clones(ours);
  const Tensor unscale = at::full({}, 1.0 / 128);
  optim::AdamW mine(
      ours, AdamWOptions(1e-2),
      {.maxGradNorm = 5, .copies = at::kBFloat16, .emaDecay = 0.9, .unscale = unscale});
  torch::optim::AdamW reference(theirs, AdamWOptions(1e-2));
  for (int step = 0; step < 6; ++step) {
    const bool mixed = step >= 3; // one in fp32
    // Gradients are those of the bf16 copies, as in a model in bf16 with fp32 masters.
    setGradients({&theirs}, step);
    for (std::size_t i = 0; i < ours.size(); ++i) {
      theirs[i].mutable_grad() = theirs[i].grad().to(at::kBFloat16).to(at::kFloat);
      Tensor copy = mine.copyOf(ours[i]);
      copy.mutable_grad() = theirs[i].grad().mul(128).to(at::kBFloat16);
      if (mixed && i == 3)
        ours[i].mutable_grad() = copy.grad().to(at::kFloat);
    }
    mine.step();
    const double norm = torch::nn::utils::clip_grad_norm_(theirs, 5);
    reference.step();
    EXPECT_NEAR(mine.gradNorm().item<double>(), norm, 1e-5 * norm);
    EXPECT_EQ(mine.launches(), 2U) << "the norm, the update with copies and averages";
    for (std::size_t i = 0; i < ours.size(); ++i) {
      EXPECT_TRUE(at::equal(mine.copyOf(ours[i]), ours[i].detach().to(at::kBFloat16)));
      averages[i].detach().lerp_(theirs[i].detach(), 0.1);
      EXPECT_TRUE(at::allclose(mine.emaOf(ours[i]), averages[i].detach(), 0, kFp32));
    }
  }
  EXPECT_LE(worst(ours, theirs), kFp32);
  ours[0].detach().fill_(3);
  mine.refreshCopies();
  EXPECT_TRUE(mine.copyOf(ours[0]).eq(3).all().item<bool>());
  mine.zero_grad();
  EXPECT_FALSE(mine.copyOf(ours[0]).grad().defined());
}

/// As in a language model: a group without decay, and of the other one some parameters have copies
/// in bf16, whose gradients theirs are.
void takesOneUpdate(double maxNorm) {
  Tensors ours = parameters(), theirs = clones(ours);
  auto groupsOf = [](const Tensors& all) {
    std::vector<OptimizerParamGroup> groups;
    groups.emplace_back(Tensors(all.begin(), all.begin() + 4),
                        std::make_unique<AdamWOptions>(AdamWOptions(1e-2).weight_decay(0.1)));
    groups.emplace_back(Tensors(all.begin() + 4, all.end()),
                        std::make_unique<AdamWOptions>(AdamWOptions(1e-2).weight_decay(0)));
    return groups;
  };
  optim::AdamW mine(groupsOf(ours), {}, {.maxGradNorm = maxNorm});
  torch::optim::AdamW reference(groupsOf(theirs));
  for (std::size_t i : {0, 3})
    mine.bindCopy(ours[i], ours[i].detach().to(at::kBFloat16));
  for (int step = 0; step < 20; ++step) {
    setGradients({&ours, &theirs}, step, /*skips=*/step < 12 ? 0 : 5);
    for (std::size_t i : {0, 3}) {
      Tensor copy = mine.copyOf(ours[i]);
      copy.mutable_grad() = ours[i].grad().to(at::kBFloat16);
      theirs[i].mutable_grad() = copy.grad().to(at::kFloat);
      ours[i].mutable_grad().reset();
    }
    mine.step();
    EXPECT_EQ(mine.launches(), maxNorm > 0 ? 2U : 1U) << step;
    if (maxNorm > 0) {
      const double norm = torch::nn::utils::clip_grad_norm_(theirs, maxNorm);
      EXPECT_NEAR(mine.gradNorm().item<double>(), norm, 1e-5 * norm);
    }
    reference.step();
    for (std::size_t i : {0, 3})
      EXPECT_TRUE(at::equal(mine.copyOf(ours[i]), ours[i].detach().to(at::kBFloat16)));
  }
  EXPECT_LE(worst(ours, theirs), kFp32);
  mine.readSteps(); // from where the last step left them
  EXPECT_EQ(stateOf(mine, ours[0]).step(), 20);
  EXPECT_EQ(stateOf(mine, ours[2]).step(), 19); // without its gradient in step 15
}

TEST_F(Optim, ThreeKindsTakeThreeLaunchesWithAClip) {
  takesOneUpdate(5);
}
TEST_F(Optim, ThreeKindsTakeOneLaunchWithoutAClip) {
  takesOneUpdate(0);
}

/// The most kinds that a launch takes, and one more.
TEST_F(Optim, SixteenKindsAreTakenMoreAreTorchs) {
  enable(onCpu());
  for (int count : {16, 17}) {
    Tensors ours;
    for (int i = 0; i < count; ++i)
      ours.push_back(at::randn({i + 1}).requires_grad_());
    Tensors theirs = clones(ours);
    auto groupsOf = [](const Tensors& all) {
      std::vector<OptimizerParamGroup> groups;
      for (std::size_t i = 0; i < all.size(); ++i)
        groups.emplace_back(
            Tensors{all[i]},
            std::make_unique<AdamWOptions>(AdamWOptions(1e-2).weight_decay(0.01 * double(i))));
      return groups;
    };
    optim::AdamW mine(groupsOf(ours), {}, {.maxGradNorm = 1});
    torch::optim::AdamW reference(groupsOf(theirs));
    for (int step = 0; step < 2; ++step) {
      setGradients({&ours, &theirs}, step);
      mine.step();
      torch::nn::utils::clip_grad_norm_(theirs, 1);
      reference.step();
    }
    EXPECT_EQ(mine.launches(), count == 16 ? 2U : 0U) << report();
    EXPECT_LE(worst(ours, theirs), kFp32);
  }
  EXPECT_TRUE(reports("parameters of more than 16 groups")) << report();
}

TEST_F(Optim, StridedParametersAndGradients) {
  Tensors ours = {at::randn({16, 8, 5, 3}).contiguous(at::MemoryFormat::ChannelsLast),
                  at::randn({40, 50}).t(), at::randn({6, 7})};
  Tensors theirs = {ours[0].clone(), ours[1].clone(), ours[2].clone()};
  for (Tensors* side : {&ours, &theirs})
    for (Tensor& one : *side)
      one.requires_grad_();
  optim::AdamW mine(ours, AdamWOptions(1e-2));
  torch::optim::AdamW reference(theirs, AdamWOptions(1e-2));
  for (int step = 0; step < 3; ++step) {
    setGradients({&ours, &theirs}, step); // contiguous: not like their parameters
    ours[2].mutable_grad() = theirs[2].mutable_grad() = at::ones({1, 1}).expand({6, 7});
    mine.step();
    reference.step();
  }
  EXPECT_LE(worst(ours, theirs), kFp32);
}

/// A third side, restored from the archive of `from`, goes on as `from` does.
template <class To, class From>
void moves(To& to, Tensors& toParameters, From& from, Tensors& fromParameters) {
  std::stringstream archive;
  torch::save(from, archive);
  torch::load(to, archive);
  for (std::size_t i = 0; i < toParameters.size(); ++i)
    toParameters[i].detach().copy_(fromParameters[i].detach());
  for (int step = 50; step < 53; ++step) {
    setGradients({&toParameters, &fromParameters}, step);
    to.step();
    from.step();
  }
  EXPECT_LE(worst(toParameters, fromParameters), kFp32);
  EXPECT_EQ(stateOf(to, toParameters[0]).step(), stateOf(from, fromParameters[0]).step());
  const auto& options = static_cast<AdamWOptions&>(to.param_groups()[0].options());
  EXPECT_EQ(options.lr(), 2e-2);
}

TEST_F(Optim, CheckpointsMoveBothWays) {
  Tensors ours = parameters(), theirs = parameters(), averaged = parameters(), again = parameters();
  optim::AdamW mine(ours, AdamWOptions(2e-2));
  torch::optim::AdamW reference(theirs, AdamWOptions(1e-3));
  for (int step = 0; step < 4; ++step) {
    setGradients({&ours}, step);
    mine.step();
  }
  moves(reference, theirs, mine, ours);
  optim::AdamW restored(again, AdamWOptions(1e-3));
  moves(restored, again, reference, theirs);
  EXPECT_EQ(stateOf(restored, again[0]).step(), 10);

  optim::AdamW one(averaged, AdamWOptions(2e-2), {.emaDecay = 0.5});
  optim::AdamW other(ours, AdamWOptions(1e-3), {.emaDecay = 0.5});
  setGradients({&averaged}, 1);
  one.step();
  moves(other, ours, one, averaged);
  EXPECT_LE(worst({other.emaOf(ours[0])}, {one.emaOf(averaged[0])}), kFp32);
}

TEST_F(Optim, WhatIsLeftToTorchIsToldAndTheSame) {
  enable(onCpu());
  for (auto dtype : {at::kDouble, at::kFloat}) {
    Tensors ours = parameters(dtype), theirs = clones(ours);
    const auto options = AdamWOptions(1e-2).amsgrad(dtype == at::kFloat);
    optim::AdamW mine(ours, options, {.maxGradNorm = 5, .copies = at::kBFloat16, .emaDecay = 0.5});
    torch::optim::AdamW reference(theirs, options);
    Tensor average = theirs[0].detach().clone();
    for (int step = 0; step < 4; ++step) {
      setGradients({&ours, &theirs}, step);
      mine.step();
      const double norm = torch::nn::utils::clip_grad_norm_(theirs, 5);
      reference.step();
      average.lerp_(theirs[0].detach(), 0.5);
      EXPECT_NEAR(mine.gradNorm().item<double>(), norm, 1e-5 * norm);
    }
    EXPECT_LE(worst(ours, theirs), kFp32);
    EXPECT_LE(worst({mine.emaOf(ours[0])}, {average}), kFp32);
    EXPECT_TRUE(at::equal(mine.copyOf(ours[0]), ours[0].detach().to(at::kBFloat16)));
  }
  EXPECT_TRUE(reports("not taken: amsgrad")) << report();
  EXPECT_TRUE(reports("of a dtype other than fp32")) << report();
  Tensors few = {at::randn({5}).to(at::kDouble).requires_grad_()};
  setGradients({&few}, 0);
  optim::AdamW strict(few);
  enable(strictOnCpu());
  EXPECT_THROW(strict.step(), Error);
}

TEST_F(Optim, SwitchedOffInTheMiddle) {
  enable(onCpu());
  Tensors ours = parameters(), theirs = clones(ours);
  optim::AdamW mine(ours, AdamWOptions(1e-2));
  torch::optim::AdamW reference(theirs, AdamWOptions(1e-2));
  for (int step = 0; step < 6; ++step) {
    setGradients({&ours, &theirs}, step);
    if (step % 3 == 1) {
      const Guard off(Mode::off);
      mine.step();
    } else {
      mine.step();
    }
    reference.step();
  }
  EXPECT_LE(worst(ours, theirs), kFp32);
  EXPECT_TRUE(reports("Kiln is not enabled there")) << report();
}

TEST_F(Optim, BadInputIsRefusedWithItsNumbers) {
  const auto refusal = [](const auto& function) -> std::string {
    try {
      function();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  Tensors few = {at::randn({4, 3}).requires_grad_()};
  EXPECT_NE(refusal([&] { optim::AdamW(few, {}, {.maxGradNorm = -1}); }).find("maxGradNorm = -1"),
            std::string::npos);
  EXPECT_NE(refusal([&] { optim::AdamW(few, {}, {.emaDecay = 1}); }).find("emaDecay = 1"),
            std::string::npos);
  optim::AdamW mine(few);
  EXPECT_NE(refusal([&] { mine.bindCopy(few[0], at::zeros({4, 3})); }).find("dtype Float"),
            std::string::npos);
  EXPECT_NE(refusal([&] { mine.bindCopy(few[0], at::zeros({3}, at::kHalf)); }).find("sizes [3]"),
            std::string::npos);
  few[0].mutable_grad() = at::eye(4).narrow(1, 0, 3).to_sparse();
  EXPECT_NE(refusal([&] { mine.step(); }).find("sparse"), std::string::npos);
}

TEST_F(Optim, AutogradNoticesThatParametersChanged) {
  Tensors few = {at::randn({4}).requires_grad_()};
  optim::AdamW mine(few);
  const Tensor loss = few[0].mul(few[0]).sum(); // saves the parameter
  few[0].mutable_grad() = at::ones({4});
  mine.step();
  EXPECT_THROW(loss.backward(), c10::Error);
}

} // namespace
