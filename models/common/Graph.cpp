// See Graph.h. Captured on a stream of its own, as CUDA asks for, and replayed on the caller's.
#include "models/common/Graph.h"

#include "models/common/Fail.h"

#if KILN_TORCH_CUDA
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <map>
#endif

namespace kiln::models {

void needGraphs(at::Device device) {
  if (!KILN_TORCH_CUDA || !device.is_cuda())
    fail(ErrorKind::unavailable,
         "--graphs: CUDA graphs need a GPU and the run is on {}; leave "
         "--graphs out, or choose a GPU by --device",
         device.str());
}

#if KILN_TORCH_CUDA

struct StepGraph::Impl {
  explicit Impl(at::Device device) : device(device) {}
  at::cuda::CUDAGraph graph;
  at::Device device;
};

namespace {

/// The same for all graphs of a device: memory is lent to its own stream alone.
c10::cuda::CUDAStream streamOf(at::Device device) {
  static std::map<c10::DeviceIndex, c10::cuda::CUDAStream> streams;
  const auto found = streams.find(device.index());
  if (found != streams.end())
    return found->second;
  return streams
      .emplace(device.index(),
               c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index()))
      .first->second;
}

} // namespace

StepGraph::StepGraph(at::Device device, const std::function<void()>& work,
                     const StepGraph* beside) {
  needGraphs(device);
  impl = std::make_unique<Impl>(device);
  c10::cuda::device_synchronize();               // what the step reads was made on another stream
  c10::cuda::CUDACachingAllocator::emptyCache(); // the graph's memory is apart
  const c10::cuda::CUDAStreamGuard side(streamOf(device));
  try {
    // Of this thread alone: those of a loader may take pinned memory meanwhile.
    impl->graph.capture_begin(beside ? beside->impl->graph.pool() : at::cuda::MempoolId_t{0, 0},
                              cudaStreamCaptureModeThreadLocal);
    work();
    impl->graph.capture_end();
  } catch (const c10::Error& error) {
    fail(ErrorKind::device, "--graphs: the step cannot be captured: {}; leave --graphs out",
         error.what_without_backtrace());
  }
}

void StepGraph::replay() {
  impl->graph.replay();
}

void StepGraph::lendMemory(const std::function<void()>& work) {
  namespace allocator = c10::cuda::CUDACachingAllocator;
  const c10::DeviceIndex device = impl->device.index();
  const auto pool = impl->graph.pool();
  c10::cuda::device_synchronize(); // what replays have written was read
  struct Lent {
    c10::DeviceIndex device;
    at::MempoolId_t pool;
    ~Lent() {
      allocator::endAllocateToPool(device, pool);
      allocator::releasePool(device, pool);
    }
  };
  allocator::beginAllocateToPool(device, pool, [](cudaStream_t) { return true; });
  const Lent lent{device, pool};
  const c10::cuda::CUDAStreamGuard side(streamOf(impl->device));
  work();
  c10::cuda::device_synchronize();
}

#else

struct StepGraph::Impl {};

StepGraph::StepGraph(at::Device device, const std::function<void()>&, const StepGraph*) {
  needGraphs(device);
}
void StepGraph::replay() {}
void StepGraph::lendMemory(const std::function<void()>& work) {
  work();
}

#endif

StepGraph::~StepGraph() = default;

} // namespace kiln::models
