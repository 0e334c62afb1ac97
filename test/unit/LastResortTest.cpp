// A function of which every schedule spills is compiled all the same, by the one that spills least.
#include "test/backend/DeviceText.h"
#include "test/backend/Helpers.h"

#include <gtest/gtest.h>

#include <algorithm>

using namespace kiln;
using namespace kiln::test;

namespace {

/// Heads of 256 channels with a bias and a mask: the gradient of the bias has no schedule of which
/// the assembler keeps all values in 255 registers.
constexpr const char* kWideHeads = R"(
func.func @wide(%q: tensor<6x?x256xf16>, %k: tensor<3x?x256xf16>, %v: tensor<3x?x256xf16>,
                %b: tensor<6x?x?xbf16>, %m: tensor<6x?x?xi1>) -> tensor<6x?x256xf16> {
  %o, %lse = kiln.attention %q, %k, %v bias %b mask %m {scale = 3.125e-02 : f32, window_left = 54} :
      (tensor<6x?x256xf16>, tensor<3x?x256xf16>, tensor<3x?x256xf16>, tensor<6x?x?xbf16>,
       tensor<6x?x?xi1>) -> (tensor<6x?x256xf16>, tensor<6x?xf32>)
  return %o : tensor<6x?x256xf16>
})";

TEST(LastResort, TheScheduleThatSpillsLeastIsTaken) {
  if (const std::string why = whyNoNvrtc(); !why.empty())
    GTEST_SKIP() << why;
  CompileOptions options;
  options.arch = "sm_90a";
  options.backward = true;
  const Module module = Module::parse(kWideHeads);
  const Program program = Program::compile(module, options);
  const auto spilled = [](const KernelInfo& kernel) {
    return std::int64_t{kernel.usage.spillStoreBytes} + kernel.usage.spillLoadBytes;
  };
  std::int64_t bytes = 0;
  for (const KernelInfo& kernel : program.kernels()) {
    EXPECT_GT(kernel.residentBlocks, 0) << kernel.name;
    bytes += spilled(kernel);
  }
  const bool isSaid = std::ranges::any_of(program.remarks(), [](const std::string& remark) {
    return contains(remark, "every schedule spills registers to memory");
  });
  EXPECT_EQ(isSaid, bytes > 0); // another assembler may find the registers
  if (bytes == 0)
    GTEST_SKIP() << "this assembler keeps the values of all kernels in registers";
  // Whoever asks for that very schedule is told instead.
  const auto worst = std::ranges::max_element(program.kernels(), {}, spilled);
  options.schedule = "{" + worst->name + " = " + worst->schedule + "}";
  EXPECT_HAS(errorOf(ErrorKind::infeasible, [&] { Program::compile(module, options); }),
             "bytes of registers to memory");
}

} // namespace
