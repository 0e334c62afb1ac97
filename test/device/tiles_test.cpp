// Tensor maps, clusters, roles of warps and grids of tiles on a real GPU, by the kernel that the
// host target checks too (test/host/TileTest.cpp). Skips without a GPU that has them.
#include "codegen/backend/Executable.h"
#include "codegen/backend/Target.h"
#include "test/backend/HandOver.h"
#include "test/backend/Kernels.h"
#include "test/backend/TileCopies.h"
#include "test/backend/TileKernel.h"

#include <chrono>

using namespace kiln;
using namespace kiln::test;

namespace {

class DeviceTiles : public testing::Test {
 protected:
  void SetUp() override {
    if (std::string why = whyNothingRuns(); !why.empty())
      GTEST_SKIP() << why;
    const DeviceInfo& device = Driver::get().currentDevice();
    const Target& target = targetOfCapability(device.major, device.minor);
    if (target.arch != "sm_90a")
      GTEST_SKIP() << "assembled for sm_90a, the GPU is " << target.arch;
    program = std::make_unique<LoadedProgram>(tilePlan(), assemble(tileKernelText));
  }

  static std::vector<std::byte> assemble(const std::string& text) {
    return compileCuda(deviceJob(text)).cubin;
  }

  std::unique_ptr<LoadedProgram> program;
};

/// A problem's tensors on the device; y is poisoned.
struct OnDevice {
  explicit OnDevice(const TileProblem& problem)
      : x(problem.x.size() * 2), w(problem.w.size() * 2), y(problem.y.size() * 2),
        inputs(problem.inputs(x.data(), w.data())), outputs(problem.outputs(y.data())) {
    x.upload(std::as_bytes(std::span(problem.x)));
    w.upload(std::as_bytes(std::span(problem.w)));
    y.fill(0xff);
  }
  std::vector<std::uint16_t> result() const {
    std::vector<std::uint16_t> values(y.size() / 2);
    y.download(std::as_writable_bytes(std::span(values)));
    return values;
  }
  DeviceBuffer x, w, y;
  std::vector<Buffer> inputs, outputs;
};

TEST_F(DeviceTiles, EachElementOnce) {
  for (auto [batches, rows] : {std::pair(7, 150), {1, 1}, {2, 128}, {5, 64}, {33, 4000}}) {
    const TileProblem problem(batches, rows);
    const OnDevice tensors(problem);
    program->launch(tensors.inputs, tensors.outputs, nullptr, nullptr);
    Driver::get().synchronize();
    EXPECT_TRUE(tensors.result() == problem.expected()) << batches << " x " << rows;
  }
}

TEST_F(DeviceTiles, HandOverBetweenBlocks) {
  const std::vector<float> x = handOverInput();
  std::vector<float> y(x.size());
  DeviceBuffer from(x.size() * 4), to(y.size() * 4);
  from.upload(std::as_bytes(std::span(x)));
  to.fill(0xff);
  const Buffer input{from.data(), handOverSizes(), {}}, output{to.data(), handOverSizes(), {}};
  const LoadedProgram between(handOverPlan(), assemble(handOverText));
  between.launch(std::span(&input, 1), std::span(&output, 1), nullptr, nullptr);
  Driver::get().synchronize();
  to.download(std::as_writable_bytes(std::span(y)));
  EXPECT_EQ(y, handedOver(x));
}

/// A tile that is refused by the GPU ends the use of it for the process: each has a name.
class DeviceTileCopies : public DeviceTiles, public testing::WithParamInterface<TileCopy> {};

TEST_P(DeviceTileCopies, ThereAndBack) {
  const TileCopy& copy = GetParam();
  SCOPED_TRACE(copy.text());
  const std::vector<unsigned char> input = copy.input();
  DeviceBuffer x(input.size()), y(input.size()),
      images(static_cast<std::size_t>(copy.boxBytes() * copy.blocks));
  x.upload(std::as_bytes(std::span(input)));
  y.fill(0xff);
  const Buffer from{x.data(), copy.sizes(), {}};
  const Buffer to[] = {{y.data(), copy.sizes(), {}},
                       {images.data(), {static_cast<std::int64_t>(images.size() / 4)}, {}}};
  const LoadedProgram program(copy.plan(), assemble(copy.text()));
  program.launch(std::span(&from, 1), to, nullptr, nullptr);
  Driver::get().synchronize();
  std::vector<unsigned char> image, expected, result(y.size()), found(images.size());
  y.download(std::as_writable_bytes(std::span(result)));
  images.download(std::as_writable_bytes(std::span(found)));
  copy.expect(input, image, expected);
  EXPECT_EQ(result, expected);
  for (int block = 0; block < copy.blocks; ++block)
    EXPECT_TRUE(std::equal(image.begin(), image.end(),
                           found.begin() + static_cast<std::ptrdiff_t>(block * image.size())))
        << block;
}

INSTANTIATE_TEST_SUITE_P(Tiles, DeviceTileCopies, testing::ValuesIn(tileCopies),
                         [](const auto& info) { return info.param.name(); });

TEST_F(DeviceTiles, CaptureAndReplay) {
  const TileProblem problem(8, 1000);
  OnDevice tensors(problem);
  Stream stream;
  const Graph graph = Graph::capture(stream, [&](CuStream captured) {
    for (int i = 0; i < 20; ++i)
      program->launch(tensors.inputs, tensors.outputs, nullptr, captured);
  });
  EXPECT_EQ(graph.nodes(), 20u);
  tensors.y.fill(0xff);
  for (int i = 0; i < 20; ++i)
    graph.launch(stream);
  stream.synchronize();
  EXPECT_TRUE(tensors.result() == problem.expected());
}

/// What the host pays for the maps of a launch: the first time, and when pointers and sizes repeat.
TEST_F(DeviceTiles, MapsAreEncodedOnce) {
  using Clock = std::chrono::steady_clock;
  constexpr int times = 1000;
  TensorMapView view{.sizes = {64, 150, 4, 7},
                     .strides = {640, 128, 96000},
                     .box = {64, 64, 1, 1},
                     .rank = 4,
                     .dtype = DType::bf16,
                     .swizzle = 128};
  double nanoseconds[2] = {};
  for (bool repeated : {false, true}) {
    const auto start = Clock::now();
    for (int i = 0; i < times; ++i) {
      view.address = repeated ? 0x1000000 : 0x1000000 + std::uintptr_t(i + 1) * 4096;
      encodedTensorMap(view);
    }
    nanoseconds[repeated] =
        std::chrono::duration<double, std::nano>(Clock::now() - start).count() / times;
  }
  EXPECT_LT(nanoseconds[1], nanoseconds[0]);
  std::printf("a tensor map costs the host %.0f ns, one that repeats %.0f ns\n", nanoseconds[0],
              nanoseconds[1]);
}

} // namespace
