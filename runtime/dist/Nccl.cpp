// See Backends.h: c10d's NCCL. Who watches over its time limits is Watch.h: c10d's own watchdog
// would end the process without a word about what hung.
#include "runtime/dist/Backends.h"
#include "runtime/dist/Fail.h"

#if KILN_DIST_NCCL
#include <ATen/cuda/PeerToPeerAccess.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAGuard.h>
#include <chrono>
#include <cstdlib>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif

namespace kiln::dist {

#if KILN_DIST_NCCL

BackendPtr ncclOf(const StorePtr& store, const Place& place, const GroupOptions& options) {
  setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0", /*replace=*/0);
  setenv("TORCH_NCCL_RETHROW_CUDA_ERRORS", "0", /*replace=*/0);
  const c10::cuda::CUDAGuard here(options.device);
  auto chosen = c10d::ProcessGroupNCCL::Options::create(/*is_high_priority_stream=*/true);
  // Longer than ours: c10d's watchdog dumps its state for 15 s before it lets go of a rank.
  chosen->timeout = 2 * options.limit + std::chrono::minutes(1);
  auto made = c10::make_intrusive<c10d::ProcessGroupNCCL>(
      c10::make_intrusive<c10d::PrefixStore>("nccl", store), place.rank, place.size, chosen);
  made->eagerConnectSingleDevice(options.device);
  return made;
}

bool gpusReachEachOther(int count) {
  if (c10::cuda::device_count() < count)
    return false;
  for (int from = 0; from < count; ++from)
    for (int to = 0; to < count; ++to)
      if (from != to && !at::cuda::get_p2p_access(c10::DeviceIndex(from), c10::DeviceIndex(to)))
        return false;
  return true;
}

bool isCapturing(at::Device device) {
  return device.is_cuda() &&
         c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None;
}

#else

BackendPtr ncclOf(const StorePtr&, const Place&, const GroupOptions& options) {
  fail(ErrorKind::unavailable,
       "ranks with tensors on {}: Kiln was built without NCCL's header or for a LibTorch without "
       "CUDA; install LibTorch's wheel with CUDA, or take device cpu",
       options.device.str());
}

bool gpusReachEachOther(int) {
  return false;
}

bool isCapturing(at::Device) {
  return false;
}

#endif

} // namespace kiln::dist
