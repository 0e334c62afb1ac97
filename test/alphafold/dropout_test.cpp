// Which elements of an update one mask of dropout covers.
#include "models/alphafold/model/AlphaFold.h"
#include "models/alphafold/model/Stream.h"
#include "test/alphafold/Synthetic.h"

#include <gtest/gtest.h>

#include <functional>

namespace kiln::alphafold {
namespace {

using at::Tensor;

/// Masks of dropout are the same along one dimension.
TEST(AlphaFold, DropoutIsSharedAlongADimension) {
  at::manual_seed(3);
  const Tensor x = at::ones({5, 6, 7});
  for (const std::int64_t shared : {0, 1}) {
    std::vector<std::int64_t> sizes = x.sizes().vec();
    sizes[std::size_t(shared)] = 1;
    const auto scales = drawScales(x.options(), 0.25, /*training=*/true, {sizes, {3}});
    ASSERT_EQ(scales[1].numel(), 3);
    const Tensor y =
        added(at::zeros_like(x), {.values = x, .bias = at::zeros({7}), .scale = scales[0]});
    EXPECT_TRUE(at::equal(y, y.narrow(shared, 0, 1).expand_as(y)));
    EXPECT_TRUE(((y == 0) | (y - 1 / 0.75).abs().lt(1e-6)).all().item<bool>());
    EXPECT_GT((y == 0).sum().item<int>(), 0);
    EXPECT_LT((y == 0).sum().item<int>(), 105);
  }
  EXPECT_FALSE(drawScales(x.options(), 0.25, /*training=*/false, {{1, 6, 7}})[0].defined());
  EXPECT_TRUE(at::equal(added(x, {x, at::zeros({7})}), 2 * x));
}

/// Each update of a new block is made constant, one after the other, so that what comes out shows
/// the mask of its dropout.
TEST(AlphaFold, UpdatesAreDroppedAsThePaperSays) {
  const ModelConfig config = ModelConfig::named("tiny");
  at::manual_seed(4);
  const auto expectShared = [](torch::nn::Module& module, const char* bias, std::int64_t shared,
                               const std::function<Tensor()>& update) {
    const at::NoGradGuard constant;
    Tensor parameter = module.named_parameters()[bias];
    parameter.fill_(1);
    const Tensor y = update();
    parameter.zero_();
    EXPECT_TRUE(at::equal(y, y.narrow(shared, 0, 1).expand_as(y))) << bias;
    const Tensor other = y.select(1 - shared, 0); // along neither of the other dimensions
    EXPECT_FALSE(at::equal(y, y.narrow(1 - shared, 0, 1).expand_as(y))) << bias;
    EXPECT_FALSE(at::equal(other, other.narrow(-1, 0, 1).expand_as(other))) << bias;
    const double kept = (y != 0).to(at::kDouble).mean().item<double>();
    EXPECT_NEAR(kept, std::string_view(bias).starts_with("msa") ? 0.85 : 0.75, 0.12) << bias;
  };
  const Tensor pairs = at::zeros({30, 30, config.pair}), there = at::ones({30, 30});
  PairStack stack(config);
  TemplatePairBlock block(config);
  const Tensor ofTemplate = at::zeros({30, 30, config.templatePair});
  for (const char* bias : {"tri_mul_out.linear_z.bias", "tri_mul_in.linear_z.bias",
                           "tri_att_start.mha.linear_o.bias", "tri_att_end.mha.linear_o.bias"}) {
    const std::int64_t shared = std::string_view(bias).starts_with("tri_att_end") ? 1 : 0;
    expectShared(*stack, bias, shared, [&] { return stack(pairs, there); });
    expectShared(*block, bias, shared, [&] { return block(ofTemplate, there); });
  }
  EvoformerBlock evoformer(config);
  const Representations in = {at::zeros({20, 30, config.msa}), pairs};
  expectShared(*evoformer, "msa_att_row.mha.linear_o.bias", 0,
               [&] { return evoformer(in, Masks{}).m; });
}

} // namespace
} // namespace kiln::alphafold
