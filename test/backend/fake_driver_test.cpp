// What loading and launching ask of the driver, seen from a stand-in driver. The tests of a driver
// that does not start come first: once it started, a process keeps it.
#include "codegen/backend/Executable.h"
#include "test/backend/Kernels.h"
#include "test/backend/LoadFakeDriver.h"

#include <algorithm>

using namespace kiln;
using namespace kiln::test;

namespace {

class FakeGpu : public NvrtcTest {
 protected:
  void SetUp() override { *fake = {}; }
  void TearDown() override { *fake = {}; }

  std::ptrdiff_t count(const char* call) const {
    return std::count(fake->calls.begin(), fake->calls.end(), call);
  }

  FakeDriver* fake = &fakeDriver();
};

TEST_F(FakeGpu, DriverThatDoesNotStart) {
  fake->initStatus = 100;
  EXPECT_HAS(errorOf(ErrorKind::unavailable, [] { Driver::get(); }),
             "fake/libcuda.so.1') but shows no GPU; check nvidia-smi");
  fake->initStatus = 34;
  EXPECT_HAS(whyNoGpu(), "is the toolkit's stub and no driver");
  fake->initStatus = 803;
  EXPECT_HAS(whyNoGpu(), "does not start: cuInit gave CUDA_ERROR_FAKE (made up)");
  fake->initStatus = 0;
  fake->devices = 0;
  EXPECT_HAS(whyNoGpu(), "runs but shows no GPU");
  fake->missing = "cuLibraryLoadData";
  EXPECT_HAS(whyNoGpu(), "has no cuLibraryLoadData; a driver of CUDA 12.0");
}

TEST_F(FakeGpu, FailingCallsNameThemselves) {
  EXPECT_EQ(whyNoGpu(), "");
  EXPECT_EQ(Driver::get().devices().size(), 2u);
  EXPECT_EQ(Driver::get().currentDevice().ordinal, 0); // no context: device 0, as CUDA does
  EXPECT_EQ(fake->currentDevice, 0);
  fake->failing = "cuMemAlloc";
  fake->failure = 2;
  EXPECT_EQ(errorOf(ErrorKind::device, [] { DeviceBuffer(8); }),
            "cuMemAlloc failed: CUDA_ERROR_FAKE (made up)");
  fake->failing = "cuCtxSynchronize";
  fake->failure = 700;
  EXPECT_HAS(errorOf(ErrorKind::device, [] { Driver::get().synchronize(); }), "compute-sanitizer");
}

/// Two kernels over x[s0]: one of all features, one that is launched whatever the size.
LaunchPlan twoKernels() {
  using Kind = KernelArgument::Kind;
  Extent n{0, 0};
  LaunchPlan plan;
  plan.function = "two";
  plan.inputs = {{"x", DType::f32, {n}, {}, 16}};
  KernelLaunch first;
  first.name = "plain";
  first.threads = 256;
  first.sharedBytes = 100'000;
  first.cluster = 2;
  first.programmatic = true;
  first.rowsPerBlock = 256;
  first.rows.factors = {n};
  first.arguments = {{Kind::buffer, "x", 0, {}, 0}, {Kind::rows, "", 0, {{n}}, 0}};
  KernelLaunch second;
  second.name = "bare";
  second.threads = 32;
  second.grid = KernelLaunch::Grid::fixed;
  second.blocks = 3;
  second.arguments = {{Kind::buffer, "x", 0, {}, 0}};
  plan.kernels = {first, second};
  return plan;
}

std::vector<std::byte> plainCubin() {
  CudaJob job;
  job.source = plainSource;
  return compileCuda(job).cubin;
}

TEST_F(FakeGpu, LaunchHandsOverEverythingAndCallsNothingElse) {
  NvrtcTest::SetUp();
  if (IsSkipped())
    return;
  LaunchPlan plan = twoKernels();
  LoadedProgram program(plan, plainCubin());
  EXPECT_EQ(count("cuLibraryLoadData"), 1);
  EXPECT_EQ(count("cuKernelGetFunction"), 2);
  EXPECT_EQ(count("cuKernelSetAttribute"), 1); // only one of the two needs shared memory

  plan.kernels.pop_back();
  LoadedProgram one(plan, plainCubin());
  Buffer x{reinterpret_cast<void*>(0x4000), {1000}, {}};
  fake->calls.clear();
  fake->valueCount = 2;
  one.launch(std::span(&x, 1), {}, nullptr, reinterpret_cast<void*>(0x77));
  EXPECT_EQ(fake->calls, (std::vector<std::string>{"cuCtxGetDevice", "cuLaunchKernelEx"}));
  EXPECT_EQ(fake->launch.gridX, 8u); // 4 clusters of 2
  EXPECT_EQ(fake->launch.gridY * fake->launch.gridZ * fake->launch.blockY * fake->launch.blockZ,
            1u);
  EXPECT_EQ(fake->launch.blockX, 256u);
  EXPECT_EQ(fake->launch.sharedBytes, 100'000u);
  EXPECT_EQ(fake->launch.stream, reinterpret_cast<CuStream>(0x77));
  EXPECT_EQ(fake->values, (std::vector<std::uint64_t>{0x4000, 1000}));
  ASSERT_EQ(fake->attributes.size(), 2u);
  EXPECT_EQ(fake->attributes[0].id, 4u); // cluster: x, y, z as 32-bit numbers
  EXPECT_EQ(fake->attributes[0].value[0], 0x1'0000'0002ull);
  EXPECT_EQ(fake->attributes[0].value[1], 1ull);
  EXPECT_EQ(fake->attributes[1].id, 6u); // programmatic serialization
  EXPECT_EQ(fake->attributes[1].value[0], 1ull);

  fake->calls.clear(); // by sizes and pointers: the same
  fake->values.clear();
  const std::int64_t sizes[] = {1000};
  void* const pointers[] = {x.data};
  one.launch(sizes, pointers, nullptr, reinterpret_cast<void*>(0x77));
  EXPECT_EQ(fake->calls, (std::vector<std::string>{"cuCtxGetDevice", "cuLaunchKernelEx"}));
  EXPECT_EQ(fake->launch.gridX, 8u);
  EXPECT_EQ(fake->values, (std::vector<std::uint64_t>{0x4000, 1000}));
}

TEST_F(FakeGpu, EmptyLaunchesAreSkippedFixedOnesAreNot) {
  NvrtcTest::SetUp();
  if (IsSkipped())
    return;
  LoadedProgram program(twoKernels(), plainCubin());
  Buffer none{nullptr, {0}, {}};
  fake->calls.clear();
  program.launch(std::span(&none, 1), {}, nullptr, nullptr);
  EXPECT_EQ(fake->calls, (std::vector<std::string>{"cuCtxGetDevice", "cuLaunchKernelEx"}));
  EXPECT_EQ(fake->launch.gridX, 3u);
  EXPECT_EQ(fake->launch.attributeCount, 0u);
}

/// Only the first kernel follows what the caller enqueued; one whose predecessor is left out may
/// read ahead what that predecessor's predecessor writes.
TEST_F(FakeGpu, WithoutOverlapNothingIsPromised) {
  NvrtcTest::SetUp();
  if (IsSkipped())
    return;
  LaunchPlan plan = twoKernels();
  plan.kernels[0].cluster = 1;
  plan.kernels[1].programmatic = true;
  LoadedProgram program(plan, plainCubin());
  Buffer some{reinterpret_cast<void*>(0x4000), {1000}, {}}, none{nullptr, {0}, {}};
  program.launch(std::span(&some, 1), {}, nullptr, nullptr, {.overlap = false});
  EXPECT_EQ(fake->launch.attributeCount, 1u); // of the second
  program.launch(std::span(&none, 1), {}, nullptr, nullptr);
  EXPECT_EQ(fake->launch.attributeCount, 0u);
  plan.kernels.pop_back();
  LoadedProgram one(plan, plainCubin());
  one.launch(std::span(&some, 1), {}, nullptr, nullptr);
  EXPECT_EQ(fake->launch.attributeCount, 1u);
  one.launch(std::span(&some, 1), {}, nullptr, nullptr, {.overlap = false});
  EXPECT_EQ(fake->launch.attributeCount, 0u);
}

/// The kernels that read only the workspace are launched apart, and then follow anything.
TEST_F(FakeGpu, PartsOfAProgramAreLaunchedApart) {
  NvrtcTest::SetUp();
  if (IsSkipped())
    return;
  using Part = LaunchOptions::Part;
  LaunchPlan plan = twoKernels();
  plan.workspaces = {{"partials", DType::f32, 1024, -1, {}}};
  plan.kernels[1].arguments[0].name = "partials";
  plan.kernels[1].programmatic = true;
  Buffer x{reinterpret_cast<void*>(0x4000), {1000}, {}};
  auto launches = [&](const LaunchPlan& plan, Part part) {
    LoadedProgram program(plan, plainCubin());
    fake->calls.clear();
    fake->launch = {};
    program.launch(std::span(&x, 1), {}, reinterpret_cast<void*>(0x8000), nullptr, {.part = part});
    return count("cuLaunchKernelEx");
  };
  EXPECT_EQ(launches(plan, Part::all), 2);
  EXPECT_EQ(fake->launch.attributeCount, 1u); // programmatic
  EXPECT_EQ(launches(plan, Part::main), 1);
  EXPECT_EQ(fake->launch.gridX, 8u);
  EXPECT_EQ(launches(plan, Part::epilogue), 1);
  EXPECT_EQ(fake->launch.gridX, 3u);
  EXPECT_EQ(fake->launch.attributeCount, 0u);

  plan.kernels[1].arguments[0].name = "x"; // reads an input
  EXPECT_EQ(launches(plan, Part::main), 2);
  EXPECT_EQ(launches(plan, Part::epilogue), 0);
}

TEST_F(FakeGpu, EveryDeviceIsMadeReadyOnce) {
  NvrtcTest::SetUp();
  if (IsSkipped())
    return;
  LoadedProgram program(twoKernels(), plainCubin());
  Buffer x{reinterpret_cast<void*>(0x4000), {1000}, {}};
  Driver::get().setDevice(1);
  fake->calls.clear();
  program.launch(std::span(&x, 1), {}, nullptr, nullptr);
  program.launch(std::span(&x, 1), {}, nullptr, nullptr);
  EXPECT_EQ(count("cuKernelGetFunction"), 2);
  EXPECT_EQ(count("cuLibraryLoadData"), 0);
  EXPECT_EQ(count("cuLaunchKernelEx"), 4);
  EXPECT_EQ(count("cuThreadExchangeStreamCaptureMode") % 2, 0); // the mode is given back
}

const char* mappedSource = R"(
struct alignas(64) Map { unsigned long long words[16]; };
extern "C" __global__ void __launch_bounds__(256) mapped(long long n, const __grid_constant__ Map x,
                                                          float* y) {
  y[threadIdx.x] = float(x.words[0] + n);
}
)";

/// mapped(n, map of x[s0, 32], y[s0, 32]): a block for 64 rows and each of 3 parts.
LaunchPlan mappedPlan() {
  using Kind = KernelArgument::Kind;
  const Extent rows{0, 0}, width{32, -1};
  LaunchPlan plan;
  plan.function = "mapped";
  plan.inputs = {{"x", DType::f32, {rows, width}, {-1, 1}, 16}};
  plan.outputs = {{"y", DType::f32, {rows, width}, {}, 16}};
  KernelLaunch kernel;
  kernel.name = "mapped";
  kernel.threads = 256;
  kernel.grid = KernelLaunch::Grid::tiles;
  kernel.tiles = {{{{{rows}}, 64}}, {{{{{3, -1}}}, 1}}};
  kernel.tensorMaps = {{DType::f32, 128, 256, {{{{width}}, {}, -1, 32}, {{{rows}}, {}, 0, 64}}}};
  kernel.arguments = {{Kind::size, "", 0, {{rows}}, 0},
                      {Kind::tensorMap, "x", 0, {}, 0},
                      {Kind::buffer, "y", 0, {}, 0}};
  plan.kernels = {kernel};
  return plan;
}

std::vector<std::byte> mappedCubin(const char* arch = "sm_90a") {
  CudaJob job;
  job.source = mappedSource;
  job.arch = arch;
  return compileCuda(job).cubin;
}

TEST_F(FakeGpu, TensorMapsAreEncodedOnceForTheirValues) {
  NvrtcTest::SetUp();
  if (IsSkipped())
    return;
  LoadedProgram program(mappedPlan(), mappedCubin());
  const auto launch = [&](std::uintptr_t address, std::int64_t rows, std::int64_t stride) {
    Buffer x{reinterpret_cast<void*>(address), {rows, 32}, {stride, 1}};
    Buffer y{reinterpret_cast<void*>(0x9000), {rows, 32}, {}};
    fake->calls.clear();
    fake->valueCount = 3;
    program.launch(std::span(&x, 1), std::span(&y, 1), nullptr, nullptr);
    return count("cuTensorMapEncodeTiled");
  };
  EXPECT_EQ(launch(0x4000, 100, 48), 1);
  EXPECT_EQ(fake->calls, (std::vector<std::string>{"cuCtxGetDevice", "cuTensorMapEncodeTiled",
                                                   "cuLaunchKernelEx"}));
  EXPECT_EQ(fake->values, (std::vector<std::uint64_t>{100, 0x4000, 0x9000}));
  EXPECT_EQ(fake->tensorMap,
            (std::vector<std::uint64_t>{7, 2, 32, 100, 192, 32, 64, 1, 1, 0, 3, 3, 0}));
  EXPECT_EQ(fake->launch.gridX, 2u);
  EXPECT_EQ(fake->launch.gridY, 3u);
  EXPECT_EQ(fake->launch.gridZ, 1u);
  EXPECT_EQ(launch(0x4000, 100, 48), 0); // nothing is asked of the driver again
  EXPECT_EQ(fake->values, (std::vector<std::uint64_t>{100, 0x4000, 0x9000}));
  EXPECT_EQ(launch(0x8000, 100, 48), 1);
  EXPECT_EQ(launch(0x4000, 101, 48), 1);
  EXPECT_EQ(launch(0x4000, 100, 64), 1);
  EXPECT_EQ(launch(0x4000, 100, 48), 0); // remembered beside the others
  EXPECT_EQ(fake->values, (std::vector<std::uint64_t>{100, 0x4000, 0x9000}));
  EXPECT_EQ(launch(0x4000, 0, 48), 0); // no rows: no map, no launch
  EXPECT_EQ(count("cuLaunchKernelEx"), 0);
  fake->failing = "cuTensorMapEncodeTiled";
  fake->failure = 1;
  EXPECT_EQ(errorOf(ErrorKind::device, [&] { launch(0x4000, 102, 48); }),
            "cuTensorMapEncodeTiled failed with error 1 for f32 at 0x4000: sizes 32x102, strides "
            "192 bytes, box 32x64, swizzle 128, promotion 256");
}

TEST_F(FakeGpu, PlansThatDisagreeAboutTensorMaps) {
  NvrtcTest::SetUp();
  if (IsSkipped())
    return;
  LaunchPlan plan = mappedPlan();
  std::swap(plan.kernels[0].arguments[0], plan.kernels[0].arguments[1]);
  EXPECT_EQ(
      errorOf(ErrorKind::input, [&] { LoadedProgram(plan, mappedCubin()); }),
      "kernel 'mapped': parameter 0 has 8 bytes, its launch plan passes 128; correct the line "
      "'// kiln.launch' or compile again");
  plan.kernels[0].arguments.pop_back();
  EXPECT_HAS(errorOf(ErrorKind::input, [&] { LoadedProgram(plan, mappedCubin()); }),
             "takes 144 bytes of parameters, its launch plan passes 136 (1 values of 8, 1 tensor "
             "maps of 128)");
  EXPECT_EQ(
      errorOf(ErrorKind::infeasible, [] { LoadedProgram(mappedPlan(), mappedCubin("sm_80")); }),
      "kernel 'mapped' has tensor maps, which sm_80 lacks; compile for sm_90a or take another "
      "schedule");
}

/// 256 threads that begin with fewer registers than the roles end with would never begin to work.
TEST_F(FakeGpu, RolesThatTheBlockHasNoRegistersFor) {
  NvrtcTest::SetUp();
  if (IsSkipped())
    return;
  LaunchPlan plan = mappedPlan();
  plan.kernels[0].roles = {{4, 24}, {4, 240}};
  EXPECT_HAS(errorOf(ErrorKind::input, [&] { LoadedProgram(plan, mappedCubin()); }),
             "kernel 'mapped': its roles end with 33792 registers, a block begins with ");
}

TEST_F(FakeGpu, RefusedBuffersLaunchNothing) {
  NvrtcTest::SetUp();
  if (IsSkipped())
    return;
  LoadedProgram program(twoKernels(), plainCubin());
  Buffer x{reinterpret_cast<void*>(0x4004), {1000}, {}};
  fake->calls.clear();
  EXPECT_HAS(
      errorOf(ErrorKind::input, [&] { program.launch(std::span(&x, 1), {}, nullptr, nullptr); }),
      "input 'x': pointer is aligned to 4 bytes");
  EXPECT_EQ(count("cuLaunchKernelEx"), 0);
}

} // namespace
