// Numbers.h's cases on a GPU. Skips without one.
#include "test/torch/GpuHelpers.h"
#include "test/torch/Numbers.h"

using namespace kiln;
using namespace kiln::test;

namespace {

class GpuNumbers : public TorchGpu {
 protected:
  Numbers numbers{at::kCUDA, strict()};
};

TEST_F(GpuNumbers, LayerNormsOfACotangentThatIsOneEverywhere) {
  numbers.layerNormsOfACotangentThatIsOneEverywhere();
}
TEST_F(GpuNumbers, Fp32UnderAutocastStaysFp32) {
  numbers.fp32UnderAutocastStaysFp32();
}
TEST_F(GpuNumbers, SoftmaxesOfHalfPrecision) {
  numbers.softmaxesOfHalfPrecision();
}
TEST_F(GpuNumbers, RmsNormOfInfinitiesIsNaNWhereTheseAre) {
  numbers.rmsNormOfInfinitiesIsNaNWhereTheseAre();
}

} // namespace
