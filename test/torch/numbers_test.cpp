// Numbers.h's cases on the CPU place, and what has no sizes.
#include "test/torch/Numbers.h"

#include <ATen/ops/_nested_tensor_from_tensor_list.h>

using namespace kiln;
using namespace kiln::test;
using at::Tensor;

namespace {

Numbers numbers() {
  return {at::kCPU, strictOnCpu()};
}

TEST(TorchNumbers, LayerNormsOfACotangentThatIsOneEverywhere) {
  numbers().layerNormsOfACotangentThatIsOneEverywhere();
}
TEST(TorchNumbers, Fp32UnderAutocastStaysFp32) {
  numbers().fp32UnderAutocastStaysFp32();
}
TEST(TorchNumbers, SoftmaxesOfHalfPrecision) {
  numbers().softmaxesOfHalfPrecision();
}
TEST(TorchNumbers, RmsNormOfInfinitiesIsNaNWhereTheseAre) {
  numbers().rmsNormOfInfinitiesIsNaNWhereTheseAre();
}

/// Nested tensors have no sizes; they go on to ATen, which may say that it cannot.
TEST(TorchNumbers, NestedTensorsAreATens) {
  enable(onCpu());
  const Tensor x = at::_nested_tensor_from_tensor_list(
      {at::randn({3, 8}).to(at::kBFloat16), at::randn({5, 8}).to(at::kBFloat16)});
  const Tensor w = at::randn({8});
  const auto all = [&] {
    const Autocast on(at::kCPU);
    return std::vector{at::softmax(x, -1).to_padded_tensor(0),
                       at::layer_norm(x, {8}, w, w).to_padded_tensor(0),
                       at::gelu(x).to_padded_tensor(0)};
  };
  const auto ours = all();
  EXPECT_TRUE(reports("wrapped BFloat16")) << report();
  EXPECT_TRUE(reports("tensors that something else traces or wraps")) << report();
  const Guard off(Mode::off);
  const auto theirs = all();
  for (std::size_t i = 0; i < ours.size(); ++i)
    EXPECT_TRUE(at::equal(ours[i], theirs[i])) << i;
}

} // namespace
