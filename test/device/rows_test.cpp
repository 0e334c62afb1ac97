// Compiled programs on a real GPU at sizes that no host comparison reaches.
#include "codegen/backend/Driver.h"
#include "kiln/kiln.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <random>

using namespace kiln;

namespace {

constexpr std::string_view twice = R"(
func.func @twice(%x: tensor<?x2xbf16>) -> tensor<?x2xbf16> {
  %y = arith.addf %x, %x : tensor<?x2xbf16>
  return %y : tensor<?x2xbf16>
})";

class RowsOnDevice : public testing::Test {
 protected:
  void SetUp() override {
    if (std::string why = whyNoGpu(); !why.empty())
      GTEST_SKIP() << why;
  }
  static Program compiled(std::string_view text) {
    CompileOptions options;
    options.arch = deviceArch();
    return Program::compile(Module::parse(text), options);
  }
};

/// 2^31 rows, the most there may be: every byte is doubled, also those behind 4 GiB.
TEST_F(RowsOnDevice, AsManyRowsAsAllowed) {
  constexpr std::int64_t rows = std::int64_t{1} << 31;
  constexpr std::size_t bytes = rows * 2 * 2;
  if (Driver::get().currentDevice().memoryBytes < std::int64_t(3 * bytes))
    GTEST_SKIP() << "needs a GPU with 24 GiB of memory";
  Program program = compiled(twice);
  DeviceBuffer x(bytes), y(bytes);
  x.fill(0x3c); // 0x3c3c is 0.01147; twice that is 0x3cbc
  y.fill(0xff);
  Buffer from[] = {{x.data(), {rows, 2}, {}}}, to[] = {{y.data(), {rows, 2}, {}}};
  Stream stream;
  Executable(program).launch(from, to, nullptr, stream.get());
  stream.synchronize();
  std::vector<std::uint16_t> result(bytes / 2);
  y.download(std::as_writable_bytes(std::span(result)));
  std::size_t wrong = 0;
  for (std::uint16_t value : result)
    wrong += value != 0x3cbc;
  EXPECT_EQ(wrong, 0);
}

/// A ring whose stages are filled again and again, by many warps that read slowly: a copy that came
/// before the last of them had read would be seen in the bits, now and then.
TEST_F(RowsOnDevice, RingsAreNotFilledBeforeTheyAreRead) {
  if (Driver::get().currentDevice().major < 9)
    GTEST_SKIP() << "rings need sm_90 or newer";
  constexpr std::int64_t rows = 8192, width = 2560;
  CompileOptions options;
  options.arch = deviceArch();
  options.backward = true;
  options.schedule = "#kiln.schedule<lanes = 320, vector = 8, rows = 2, threads = 640, blocks = 1, "
                     "grid = resident, keep = ring, launch = older_first, columns = shared, "
                     "stages = 4>";
  const Program program =
      Program::compile(Module::fromOp({"layer_norm", {rows, width}, DType::f16}), options);
  std::mt19937 random(1);
  std::deque<DeviceBuffer> memory;
  auto place = [&](const TensorInfo& tensor) {
    std::int64_t elements = 1;
    std::vector<std::int64_t> sizes;
    for (const Extent& extent : tensor.shape)
      elements *= sizes.emplace_back(extent.size);
    const std::size_t bytes = static_cast<std::size_t>(elements) * sizeInBytes(tensor.dtype);
    std::vector<std::uint16_t> values(bytes / 2); // of f16: 0.5 to 2; of f32: near them
    for (std::uint16_t& value : values)
      value = static_cast<std::uint16_t>((random() & 0x7ff) | 0x3800);
    memory.emplace_back(bytes).upload(std::as_bytes(std::span(values)));
    return Buffer{memory.back().data(), sizes, {}};
  };
  std::vector<Buffer> inputs, outputs;
  for (const TensorInfo& tensor : program.inputs())
    inputs.push_back(place(tensor));
  for (const TensorInfo& tensor : program.outputs())
    outputs.push_back(place(tensor));
  const DeviceBuffer& dx = memory[inputs.size()];
  const Executable executable(program);
  DeviceBuffer workspace(std::max<std::size_t>(executable.workspaceBytes(inputs), 1));
  Stream stream;
  std::vector<std::byte> first(rows * width * 2), now(first.size());
  int different = 0;
  for (int run = 0; run < 100; ++run) {
    executable.launch(inputs, outputs, workspace.data(), stream.get());
    stream.synchronize();
    dx.download(std::span(run == 0 ? first : now));
    different += run > 0 && now != first;
  }
  EXPECT_EQ(different, 0);
}

/// With a workspace and two kernels: the sums of columns.
TEST_F(RowsOnDevice, SizesAndPointersLaunchWhatBuffersDo) {
  Program program = compiled(R"(
func.func @sums(%x: tensor<?x64xf32>) -> tensor<64xf32> {
  %y = kiln.reduce sum %x dims [0] : tensor<?x64xf32> -> tensor<64xf32>
  return %y : tensor<64xf32>
})");
  constexpr std::int64_t rows = 5000;
  std::vector<float> values(rows * 64), first(64), second(64);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = float(i % 97) * 0.25F;
  DeviceBuffer x(values.size() * 4), y(256), z(256);
  x.upload(std::as_bytes(std::span(values)));
  y.fill(0xff);
  z.fill(0xff);
  Buffer from[] = {{x.data(), {rows, 64}, {}}}, to[] = {{y.data(), {64}, {}}};
  const std::int64_t sizes[] = {rows};
  void* const pointers[] = {x.data(), z.data()};
  const Executable executable(program);
  ASSERT_EQ(executable.workspaceBytes(sizes), executable.workspaceBytes(from));
  DeviceBuffer workspace(std::max<std::size_t>(executable.workspaceBytes(sizes), 1));
  Stream stream;
  executable.launch(from, to, workspace.data(), stream.get());
  executable.launch(sizes, pointers, workspace.data(), stream.get());
  stream.synchronize();
  y.download(std::as_writable_bytes(std::span(first)));
  z.download(std::as_writable_bytes(std::span(second)));
  EXPECT_EQ(first, second);

  z.fill(0xff); // the same in two parts, the second on a stream of its own
  Stream beside;
  using Part = LaunchOptions::Part;
  executable.launch(sizes, pointers, workspace.data(), stream.get(), {.part = Part::main});
  stream.synchronize();
  executable.launch(sizes, pointers, workspace.data(), beside.get(), {.part = Part::epilogue});
  beside.synchronize();
  z.download(std::as_writable_bytes(std::span(second)));
  EXPECT_EQ(first, second);
  EXPECT_FLOAT_EQ(first[0], [&] {
    double sum = 0;
    for (std::int64_t r = 0; r < rows; ++r)
      sum += values[static_cast<std::size_t>(r * 64)];
    return float(sum);
  }());
}

TEST_F(RowsOnDevice, OneRowMoreIsRefused) {
  Program program = compiled(twice);
  DeviceBuffer x(256);
  constexpr std::int64_t rows = (std::int64_t{1} << 31) + 1;
  Buffer tensor[] = {{x.data(), {rows, 2}, {}}};
  EXPECT_THROW(Executable(program).launch(tensor, tensor, nullptr, nullptr), Error);
}

} // namespace
