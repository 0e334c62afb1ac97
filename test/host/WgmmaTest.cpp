// Products of warpgroups on the host target: operands of each swizzle and order, from shared memory
// and from registers, against plain sums; and what the assembler makes of the same text.
#include "codegen/backend/Cubin.h"
#include "test/backend/DeviceText.h"
#include "test/host/WgmmaKernels.h"

#include <gmock/gmock.h>

namespace kiln::test {
namespace {

TEST(Wgmma, EachOperandAndShape) {
  const std::vector<ProductCase> cases = productCases();
  const std::string text = textOf(cases);
  for (const ProductCase& one : cases) {
    ProductData data(one.n, std::string(one.type) == "bf16", one.accumulates);
    data.run(text, one.name());
    EXPECT_EQ(data.d, data.expected) << one.name();
  }
}

TEST(Wgmma, OfLoadedTiles) {
  ProductData data(64, true, false);
  runLoaded(data, loadedText);
  EXPECT_EQ(data.d, data.expected);
}

TEST(Wgmma, AssemblesForSm90a) {
  if (const std::string why = whyNoNvrtc(); !why.empty())
    GTEST_SKIP() << why;
  std::vector<ProductCase> cases = productCases();
  std::erase_if(cases, [](const ProductCase& one) { return one.spanB != 64; }); // each N is left
  CudaJob job = deviceJob(textOf(cases));
  CudaResult result = compileCuda(job);
  EXPECT_EQ(readCubin(result.cubin).kernels.size(), cases.size());
  // What the assembler serializes, or puts waits into, it tells by such numbers.
  EXPECT_EQ(result.log.find("C75"), std::string::npos) << result.log;
  job.source = loadedText;
  result = compileCuda(job);
  EXPECT_EQ(result.log.find("C75"), std::string::npos) << result.log;
  EXPECT_EQ(spillsOf(result.log, "multiply_tiles").stores, 0);
  EXPECT_FALSE(hasSerializedProducts(result.log, "multiply_tiles"));
  job.source = withStep(loadedText, "wgmma_wait<0>();  // multiplied", "");
  EXPECT_TRUE(hasSerializedProducts(compileCuda(job).log, "multiply_tiles"));
  job.arch = "sm_100a";
  EXPECT_THAT(errorOf(ErrorKind::input, [&] { compileCuda(job); }),
              testing::HasSubstr("wgmma.cuh: products by warpgroups are of sm_90a alone"));
}

} // namespace
} // namespace kiln::test
