// Kernels on a real GPU: loading, launching in every form Kiln uses, streams, capture and replay,
// refusals, timing. Every test skips and says what is missing where there is no GPU.
#include "codegen/backend/Executable.h"
#include "codegen/backend/Target.h"
#include "codegen/backend/Timer.h"
#include "test/backend/Kernels.h"

#include <algorithm>
#include <thread>

using namespace kiln;
using namespace kiln::test;

namespace {

/// y = a * x over n values; every block handles 256, loops if the grid is smaller.
const char* scaleSource = R"(
extern "C" __global__ void __launch_bounds__(256) scale(const float* x, float* y, long long n) {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;");
#endif
  for (long long i = blockIdx.x * 256ll + threadIdx.x; i < n; i += gridDim.x * 256ll)
    y[i] = 2.0f * x[i];
}
// Every block writes its rank in its cluster, the size of the cluster and the grid's.
extern "C" __global__ void ranks(int* out) {
  unsigned rank = 0, size = 1;
#if __CUDA_ARCH__ >= 900
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
#endif
  if (threadIdx.x == 0) out[blockIdx.x] = rank * 10000 + size * 100 + gridDim.x;
}
// Reverses 16384 floats through dynamic shared memory: 64 KiB, more than the default limit.
extern "C" __global__ void __launch_bounds__(256) reverse(const float* x, float* y) {
  extern __shared__ float s[];
  for (int i = threadIdx.x; i < 16384; i += 256) s[i] = x[i];
  __syncthreads();
  for (int i = threadIdx.x; i < 16384; i += 256) y[i] = s[16383 - i];
}
)";

template <typename T> DeviceBuffer onDevice(const std::vector<T>& values) {
  DeviceBuffer buffer(values.size() * sizeof(T));
  buffer.upload(std::as_bytes(std::span(values)));
  return buffer;
}

template <typename T> std::vector<T> onHost(const DeviceBuffer& buffer) {
  std::vector<T> values(buffer.size() / sizeof(T));
  buffer.download(std::as_writable_bytes(std::span(values)));
  return values;
}

class Device : public testing::Test {
 protected:
  void SetUp() override {
    if (std::string why = whyNothingRuns(); !why.empty())
      GTEST_SKIP() << why;
    const DeviceInfo& device = Driver::get().currentDevice();
    CudaJob job;
    job.source = scaleSource;
    job.arch = targetOfCapability(device.major, device.minor).arch;
    cubin = compileCuda(job).cubin;
  }

  /// A plan for `scale` over x[s0].
  static LaunchPlan scalePlan(bool programmatic = false) {
    using Kind = KernelArgument::Kind;
    Extent n{0, 0};
    LaunchPlan plan;
    plan.function = "scale";
    plan.inputs = {{"x", DType::f32, {n}, {}, 16}};
    plan.outputs = {{"y", DType::f32, {n}, {}, 16}};
    KernelLaunch kernel;
    kernel.name = "scale";
    kernel.threads = 256;
    kernel.programmatic = programmatic;
    kernel.rowsPerBlock = 256;
    kernel.rows.factors = {n};
    kernel.arguments = {{Kind::buffer, "x", 0, {}, 0},
                        {Kind::buffer, "y", 0, {}, 0},
                        {Kind::rows, "", 0, {{n}}, 0}};
    plan.kernels = {kernel};
    return plan;
  }

  static Buffer flat(const DeviceBuffer& buffer) {
    return {buffer.data(), {static_cast<std::int64_t>(buffer.size() / 4)}, {}};
  }
  static void run(const LoadedProgram& program, const DeviceBuffer& from, const DeviceBuffer& to,
                  void* stream) {
    Buffer input = flat(from), output = flat(to);
    program.launch(std::span(&input, 1), std::span(&output, 1), nullptr, stream);
  }

  std::vector<std::byte> cubin;
};

TEST_F(Device, Facts) {
  const Driver& driver = Driver::get();
  const DeviceInfo& device = driver.currentDevice();
  EXPECT_GE(driver.version(), 12000);
  EXPECT_GT(device.multiprocessors, 0);
  EXPECT_GT(device.memoryBytes, 1 << 30);
  EXPECT_FALSE(device.name.empty());
  const Target& target = targetOfCapability(device.major, device.minor);
  EXPECT_EQ(device.sharedPerBlock, target.sharedPerBlock);
  EXPECT_EQ(device.sharedPerSM, target.sharedPerSM);
  std::printf("%s: sm_%d%d, %d SMs, %.0f GB/s, L2 %lld MiB\n", device.name.c_str(), device.major,
              device.minor, device.multiprocessors, device.memoryGBs,
              static_cast<long long>(device.l2Bytes >> 20));
  EXPECT_HAS(errorOf(ErrorKind::input, [&] { driver.device(99); }), "there is no GPU 99");
}

TEST_F(Device, LaunchPlainAndProgrammatic) {
  std::vector<float> values(100'003);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i % 1000);
  DeviceBuffer x = onDevice(values), y(x.size()), z(x.size());
  Stream stream;
  for (bool programmatic : {false, true}) {
    LoadedProgram program(scalePlan(programmatic), cubin);
    y.fill(0xff);
    z.fill(0xff);
    run(program, x, y, stream.get());
    run(program, y, z, stream.get()); // reads what the launch before it wrote
    stream.synchronize();
    std::vector<float> result = onHost<float>(z);
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(result[i], 4 * values[i]) << i << " programmatic " << programmatic;
  }
}

TEST_F(Device, EmptyLaunchIsSkipped) {
  LoadedProgram program(scalePlan(), cubin);
  DeviceBuffer none(0);
  run(program, none, none, nullptr);
  Stream stream;
  Graph graph =
      Graph::capture(stream, [&](CuStream captured) { run(program, none, none, captured); });
  EXPECT_EQ(graph.nodes(), 0u);
}

TEST_F(Device, ClusterOfTwo) {
  if (Driver::get().currentDevice().major < 9)
    GTEST_SKIP() << "clusters need sm_90 or newer";
  LaunchPlan plan;
  plan.function = "ranks";
  plan.outputs = {{"out", DType::i32, {{6, -1}}, {}, 4}};
  KernelLaunch kernel;
  kernel.name = "ranks";
  kernel.threads = 32;
  kernel.cluster = 2;
  kernel.grid = KernelLaunch::Grid::fixed;
  kernel.blocks = 6;
  kernel.arguments = {{KernelArgument::Kind::buffer, "out", 0, {}, 0}};
  DeviceBuffer out(6 * 4);
  for (bool programmatic : {false, true}) {
    kernel.programmatic = programmatic;
    plan.kernels = {kernel};
    LoadedProgram program(plan, cubin);
    out.fill(0);
    Buffer output = flat(out);
    program.launch({}, std::span(&output, 1), nullptr, nullptr);
    Driver::get().synchronize();
    EXPECT_EQ(onHost<int>(out), (std::vector<int>{206, 10206, 206, 10206, 206, 10206}));
  }
}

TEST_F(Device, MuchSharedMemory) {
  LaunchPlan plan;
  plan.function = "reverse";
  plan.inputs = {{"x", DType::f32, {{16384, -1}}, {}, 16}};
  plan.outputs = {{"y", DType::f32, {{16384, -1}}, {}, 16}};
  KernelLaunch kernel;
  kernel.name = "reverse";
  kernel.threads = 256;
  kernel.sharedBytes = 65536;
  kernel.grid = KernelLaunch::Grid::fixed;
  kernel.blocks = 1;
  kernel.arguments = {{KernelArgument::Kind::buffer, "x", 0, {}, 0},
                      {KernelArgument::Kind::buffer, "y", 0, {}, 0}};
  plan.kernels = {kernel};
  std::vector<float> values(16384);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i);
  DeviceBuffer x = onDevice(values), y(x.size());
  run(LoadedProgram(plan, cubin), x, y, nullptr);
  std::vector<float> result = onHost<float>(y);
  std::reverse(values.begin(), values.end());
  EXPECT_EQ(result, values);
  plan.kernels[0].sharedBytes = 1 << 20;
  EXPECT_HAS(errorOf(ErrorKind::infeasible, [&] { LoadedProgram(plan, cubin); }),
             "kernel 'reverse' needs 1048576 bytes of shared memory per block");
}

TEST_F(Device, TwoStreamsAndTwoThreads) {
  LoadedProgram program(scalePlan(true), cubin);
  std::vector<float> values(1 << 20, 3.0f);
  std::vector<float> results[2];
  {
    std::vector<std::jthread> threads;
    for (std::vector<float>& result : results)
      threads.emplace_back([&] { // a thread without a context gets device 0's
        DeviceBuffer x = onDevice(values), y(x.size());
        Stream stream;
        for (int i = 0; i < 50; ++i)
          run(program, x, y, stream.get());
        stream.synchronize();
        result = onHost<float>(y);
      });
  }
  for (const std::vector<float>& result : results)
    EXPECT_EQ(result, std::vector<float>(1 << 20, 6.0f));
}

TEST_F(Device, OneStreamWaitsForAnother) {
  LoadedProgram program(scalePlan(), cubin);
  DeviceBuffer x = onDevice(std::vector<float>(1 << 24, 1.0f)), y(x.size()), z(x.size());
  Stream first, second;
  Event done;
  run(program, x, y, first.get());
  done.record(first);
  second.wait(done);
  run(program, y, z, second.get());
  second.synchronize();
  EXPECT_EQ(onHost<float>(z), std::vector<float>(1 << 24, 4.0f));
}

TEST_F(Device, CaptureAndReplay) {
  for (bool programmatic : {false, true}) {
    std::vector<float> values(4096, 1.0f);
    DeviceBuffer x = onDevice(values), y(x.size());
    Stream stream;
    // Loaded and first launched inside the capture: nothing of it may disturb the capture.
    std::unique_ptr<LoadedProgram> program;
    Graph graph = Graph::capture(stream, [&](CuStream captured) {
      program = std::make_unique<LoadedProgram>(scalePlan(programmatic), cubin);
      run(*program, x, y, captured);
      run(*program, y, x, captured);
      run(*program, x, y, captured);
    });
    EXPECT_EQ(graph.nodes(), 3u);
    EXPECT_EQ(onHost<float>(x), values); // capturing runs nothing
    graph.launch(stream);
    graph.launch(stream);
    stream.synchronize();
    EXPECT_EQ(onHost<float>(y), std::vector<float>(4096, 32.0f)); // x: 4, then 16
  }
}

TEST_F(Device, FailureInsideCaptureLeavesTheStreamUsable) {
  LoadedProgram program(scalePlan(), cubin);
  DeviceBuffer x = onDevice(std::vector<float>(1024, 1.0f)), y(x.size()), other(8);
  Stream stream;
  EXPECT_HAS(errorOf(ErrorKind::input,
                     [&] {
                       Graph::capture(stream,
                                      [&](CuStream captured) { run(program, x, other, captured); });
                     }),
             "output 'y': dimension 0 is 2, but dimension 0 of input 'x' is 1024");
  run(program, x, y, stream.get());
  stream.synchronize();
  EXPECT_EQ(onHost<float>(y)[1023], 2.0f);
}

TEST_F(Device, MisalignedPointerIsRefused) {
  LoadedProgram program(scalePlan(), cubin);
  DeviceBuffer x(4096), y(4096);
  Buffer input = flat(x), output = flat(y);
  input.data = static_cast<std::byte*>(x.data()) + 4;
  EXPECT_HAS(errorOf(ErrorKind::input,
                     [&] {
                       program.launch(std::span(&input, 1), std::span(&output, 1), nullptr,
                                      nullptr);
                     }),
             "input 'x': pointer is aligned to 4 bytes, the kernel was compiled for 16");
}

TEST_F(Device, PlanThatDisagreesWithTheCode) {
  LaunchPlan plan = scalePlan();
  plan.kernels[0].arguments.pop_back();
  EXPECT_HAS(errorOf(ErrorKind::input, [&] { LoadedProgram(plan, cubin); }),
             "kernel 'scale' takes 24 bytes of parameters, its launch plan passes 16");
  plan = scalePlan();
  plan.kernels[0].threads = 512;
  EXPECT_HAS(errorOf(ErrorKind::input, [&] { LoadedProgram(plan, cubin); }),
             "compiled for at most 256 threads per block");
  plan.kernels[0].name = "scal";
  EXPECT_HAS(errorOf(ErrorKind::input, [&] { LoadedProgram(plan, cubin); }),
             "the cubin has no kernel 'scal'");
}

TEST_F(Device, CodeForAnotherGpu) {
  const DeviceInfo& device = Driver::get().currentDevice();
  CudaJob job;
  job.source = scaleSource;
  job.arch = device.major == 8 ? "sm_90a" : "sm_80";
  std::vector<std::byte> other = compileCuda(job).cubin;
  EXPECT_HAS(errorOf(ErrorKind::unavailable, [&] { LoadedProgram(scalePlan(), other); }),
             "compile with --arch=sm_");
}

TEST_F(Device, FailingCallNamesItself) {
  EXPECT_HAS(errorOf(ErrorKind::device, [] { DeviceBuffer(std::size_t(1) << 50); }),
             "cuMemAlloc failed: CUDA_ERROR_OUT_OF_MEMORY (out of memory)");
  LoadedCubin code(cubin);
  EXPECT_HAS(errorOf(ErrorKind::device, [&] { code.kernel("nothing"); }),
             "cuLibraryGetKernel(nothing) failed: CUDA_ERROR_NOT_FOUND");
}

TEST_F(Device, TimesGrowWithTheWork) {
  LoadedProgram program(scalePlan(true), cubin);
  DeviceBuffer small(1 << 20), smallOut(1 << 20), large(1 << 28), largeOut(1 << 28);
  small.fill(0);
  large.fill(0);
  std::vector<int> indices;
  Enqueue candidates[] = {[&](CuStream stream, int index) {
                            indices.push_back(index);
                            run(program, small, smallOut, stream);
                          },
                          [&](CuStream stream, int) { run(program, large, largeOut, stream); }};
  std::vector<Timing> timings = timeGraph(candidates, {.launches = 4, .warmups = 1, .replays = 5});
  ASSERT_EQ(timings.size(), 2u);
  EXPECT_EQ(indices, (std::vector<int>{0, 0, 1, 2, 3})); // once outside the graph
  EXPECT_EQ(timings[0].samples.size(), 5u);
  EXPECT_GT(timings[0].medianMicros, 0.1);
  EXPECT_GT(timings[1].medianMicros, 10 * timings[0].medianMicros);
  EXPECT_LE(timings[1].minMicros, timings[1].medianMicros);
  std::printf("2 * 1 MiB: %.2f us, 2 * 256 MiB: %.2f us (%.0f GB/s)\n", timings[0].medianMicros,
              timings[1].medianMicros, 2.0 * (1 << 28) / timings[1].medianMicros / 1e3);
}

} // namespace
