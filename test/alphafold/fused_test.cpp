// Frames, losses and the structure module on Kiln's kernels, which the CPU's host target runs here,
// beside fp64: values, and gradients of everything that they are computed from.
#include "kiln/torch.h"
#include "models/alphafold/losses/Losses.h"
#include "models/alphafold/model/StructureModule.h"
#include "test/alphafold/Synthetic.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

namespace kiln::alphafold {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

constexpr SyntheticSizes sizes = {
    .residues = 21, .clusters = 4, .extra = 5, .templates = 0, .padding = 2};

class AlphaFoldFused : public testing::Test {
 protected:
  void SetUp() override { kiln::enable(kiln::Options::fromEnvironment()); }
  void TearDown() override { kiln::disable(); }
};

/// Of leaves in fp32 and in fp64: what `make` makes of them, and gradients. `allowed`: of the norm.
template <typename Make> void expectAsInFp64(const Tensors& leaves, double allowed, Make make) {
  const auto computed = [&](at::ScalarType type) {
    Tensors here;
    for (const Tensor& leaf : leaves)
      here.push_back(
          leaf.detach().to(type, /*non_blocking=*/false, /*copy=*/true).requires_grad_());
    Tensors made = make(here, type);
    Tensors cotangents;
    const Seeded seeded(6);
    for (const Tensor& one : made)
      cotangents.push_back(at::randn(one.sizes(), at::kDouble).to(type));
    for (const Tensor& gradient : torch::autograd::grad(made, here, cotangents))
      made.push_back(gradient);
    return made;
  };
  const Tensors found = computed(at::kFloat), expected = computed(at::kDouble);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double scale = expected[i].norm().item<double>();
    const double error = (found[i].to(at::kDouble) - expected[i]).norm().item<double>();
    EXPECT_GT(scale, 0) << i;
    EXPECT_LT(error, allowed * scale) << i;
  }
}

TEST_F(AlphaFoldFused, FramesAreUpdated) {
  const Seeded seeded(2);
  const Tensors leaves = {at::randn({2, 21, 6}, at::kDouble), at::randn({21, 6}, at::kDouble)};
  expectAsInFp64(leaves, 1e-6, [](const Tensors& x, at::ScalarType) {
    const Rigid all = Rigid::fromUpdate(x[1]).updated(x[0][0]).updated(x[0][1]);
    const Rigid plain = Rigid::fromUpdate(x[1])
                            .compose(Rigid::fromUpdate(x[0][0]))
                            .compose(Rigid::fromUpdate(x[0][1]));
    EXPECT_TRUE(at::allclose(all.rotation, plain.rotation, 1e-5, 1e-5));
    EXPECT_TRUE(at::allclose(all.translation, plain.translation, 1e-5, 1e-5));
    return Tensors{all.rotation, all.translation};
  });
}

/// Each term by itself, both stages' and both clamps.
TEST_F(AlphaFoldFused, LossesAndTheirGradients) {
  const Seeded seeded(3);
  const std::int64_t residues = sizes.residues;
  const auto drawn = [](at::IntArrayRef shape) { return at::randn(shape, at::kDouble); };
  const Tensors leaves = {drawn({residues, 6}),
                          drawn({residues, 6}),
                          drawn({2, residues, 7, 2}),
                          drawn({residues, 50}),
                          drawn({residues, residues, 64}),
                          drawn({4, residues, 23}),
                          drawn({residues, 37}),
                          drawn({residues, residues, 64})};
  for (double clamped : {1.0, 0.0})
    expectAsInFp64(leaves, 2e-5, [&](const Tensors& x, at::ScalarType type) {
      Inputs truth = syntheticInputs(sizes, 3, at::kDouble);
      truth.useClampedFape.fill_(clamped);
      truth = truth.to(at::kCPU, type);
      Outputs out;
      const Rigid start = Rigid::fromMatrix(truth.rigidgroupsGtFrames.select(1, 0));
      const auto scale =
          at::tensor({0.3, 0.3, 0.3, 6.0, 6.0, 6.0}, x[0].options().requires_grad(false));
      for (int layer : {0, 1})
        out.structure.backbones.push_back(start.updated(x[std::size_t(layer)] * scale));
      out.structure.rawAngles = x[2];
      out.structure.angles = normalized(x[2]);
      out.structure.groups =
          groupFrames(out.structure.backbones.back(), out.structure.angles[1], truth.aatype);
      out.structure.positions = atomPositions(out.structure.groups, truth.aatype);
      out.predictions = {x[3], x[4], x[5], x[6], x[7]};
      const Losses all = losses(out, truth, LossConfig::named("finetune"));
      Tensors made = {all.total};
      for (const Term& term : all.terms)
        EXPECT_TRUE(std::isfinite(term.value.item<double>())) << term.name;
      return made;
    });
}

/// Layers of drawn weights make much of a rounding: op by op errors are as large.
TEST_F(AlphaFoldFused, StructureModule) {
  ModelConfig config = ModelConfig::named("tiny");
  at::manual_seed(1);
  StructureModule module(config);
  stir(*module, 2, 0.1);
  module->eval();
  const Inputs inputs = syntheticInputs(sizes, 3);
  const Seeded seeded(4);
  Tensors leaves = {at::randn({sizes.residues, config.single}, at::kDouble),
                    at::randn({sizes.residues, sizes.residues, config.pair}, at::kDouble)};
  expectAsInFp64(leaves, 1e-3, [&](const Tensors& x, at::ScalarType type) {
    module->to(type);
    const PredictedStructure found = module(x[0], x[1], inputs.aatype, inputs.seqMask.to(type));
    return Tensors{found.positions, found.angles, found.single};
  });
}

} // namespace
} // namespace kiln::alphafold
