// Tensors of GPUs: kernels are launched on the current stream, memory is the caching allocator's.
#include "runtime/Backends.h"
#include "runtime/GpuDraw.h"

#include <algorithm>

#include <ATen/EmptyTensor.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>
#include <ATen/cuda/EmptyTensor.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

namespace kiln::runtime {

namespace {

class GpuKernel : public Kernel {
 public:
  explicit GpuKernel(const Program& program) : Kernel(program), executable(program) {
    // ATen's callers promise nothing about what runs just before: where a choice would read ahead
    // of its predecessor, it waits.
    overlap.overlap = std::ranges::none_of(program.inputs(), &TensorInfo::older);
  }

  void launch(std::span<const std::int64_t> sizes, std::span<void* const> pointers) const override {
    const c10::DataPtr workspace = allocate(executable.workspaceBytes(sizes));
    executable.launch(sizes, pointers, workspace.get(), c10::cuda::getCurrentCUDAStream().stream(),
                      overlap);
  }
  void launch(std::span<const Buffer> read, std::span<const Buffer> written) const override {
    const c10::DataPtr workspace = allocate(executable.workspaceBytes(read, written));
    executable.launch(read, written, workspace.get(), c10::cuda::getCurrentCUDAStream().stream(),
                      overlap);
  }

 private:
  /// Of the current device; free for others as soon as the kernels behind it are enqueued.
  static c10::DataPtr allocate(std::size_t bytes) {
    return bytes > 0 ? at::cuda::getCUDADeviceAllocator()->allocate(bytes) : c10::DataPtr();
  }

  Executable executable;
  LaunchOptions overlap;
};

class GpuBackend : public Backend {
 public:
  GpuBackend() : Backend(Place::gpu) {}
  c10::DispatchKey key() const override { return c10::DispatchKey::CUDA; }

  std::string whyNot() const override {
    return c10::cuda::device_count() > 0 ? "" : "there is no GPU that LibTorch can use";
  }
  bool isCapturing() const override {
    return c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None;
  }
  void* stream() const override { return c10::cuda::getCurrentCUDAStream().stream(); }
  at::TensorBase empty(at::IntArrayRef sizes, at::ScalarType dtype,
                       at::Device device) const override {
    return at::detail::empty_cuda(sizes, dtype, device, std::nullopt);
  }
  at::TensorBase pinned(std::int64_t bytes) const override {
    const c10::cuda::CUDAStreamCaptureModeGuard relaxed(cudaStreamCaptureModeRelaxed);
    return at::detail::empty_cpu({bytes}, at::kByte, /*pin_memory=*/true);
  }
  Draw draw() const override { return drawOnGpu(); }
  std::string enter(int device) const override {
    c10::cuda::set_device(static_cast<c10::DeviceIndex>(device), /*force=*/true);
    // Loading code must not break the capture of a graph that some other thread is at.
    thread_local c10::cuda::CUDAStreamCaptureModeGuard relaxed(cudaStreamCaptureModeRelaxed);
    return deviceArch();
  }
  Stage until() const override { return Stage::cubin; }
  std::unique_ptr<Kernel> load(const Program& program) const override {
    return std::make_unique<GpuKernel>(program);
  }
  const char* target() const override { return "gpu"; }

  Measuring measuring() const override {
    const cudaDeviceProp& device = *at::cuda::getCurrentDeviceProperties();
    return {12 * static_cast<std::int64_t>(device.l2CacheSize),
            static_cast<std::int64_t>(device.totalGlobalMem / 2), 200};
  }

  /// By replays of a graph: nothing of what a call costs the host is in the times.
  std::vector<double> time(const std::function<void(std::size_t)>& call, std::size_t calls,
                           std::size_t rounds) const override {
    const c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool();
    c10::cuda::device_synchronize(); // arguments were made on another stream
    const c10::cuda::CUDAStreamGuard side(stream);
    call(0); // outside the graph first: what is loaded or chosen once is then
    at::cuda::CUDAGraph graph;
    graph.capture_begin();
    for (std::size_t i = 0; i < calls; ++i)
      call(i);
    graph.capture_end();
    graph.replay();
    graph.replay(); // warm: code, clocks
    std::vector<at::cuda::CUDAEvent> events;
    for (std::size_t i = 0; i < 2 * rounds; ++i)
      events.emplace_back(cudaEventDefault); // one with a time
    for (std::size_t round = 0; round < rounds; ++round) {
      events[2 * round].record(stream);
      graph.replay();
      events[2 * round + 1].record(stream);
    }
    stream.synchronize();
    std::vector<double> samples;
    for (std::size_t round = 0; round < rounds; ++round)
      samples.push_back(1e3 * events[2 * round].elapsed_time(events[2 * round + 1]) /
                        static_cast<double>(calls));
    return samples;
  }
};

} // namespace

Backend& gpuBackend() {
  static auto* one = new GpuBackend;
  return *one;
}

} // namespace kiln::runtime
