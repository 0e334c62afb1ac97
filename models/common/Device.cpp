// See Device.h.
#include "models/common/Device.h"

#include "models/common/Fail.h"

#include <ATen/Context.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <sys/resource.h>
#include <torch/cuda.h>

namespace kiln::models {

at::Device deviceOf(const std::string& name) try {
  if (name.empty())
    return at::hasCUDA() ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU);
  at::Device device(name);
  if (device.is_cuda() && !device.has_index())
    device.set_index(0);
  const int count = static_cast<int>(torch::cuda::device_count());
  if (device.is_cuda() && device.index() >= count)
    fail(ErrorKind::unavailable, "--device={}: this LibTorch sees {} GPUs", name, count);
  if (!device.is_cpu() && !device.is_cuda())
    fail(ErrorKind::input, "--device={}: allowed are cpu, cuda and cuda:N", name);
  return device;
} catch (const c10::Error&) {
  fail(ErrorKind::input, "--device={}: allowed are cpu, cuda and cuda:N", name);
}

void synchronize(at::Device device) {
  if (device.is_cuda())
    torch::cuda::synchronize(device.index());
}

double peakMemory(at::Device device) {
  if (device.is_cpu()) {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return double(usage.ru_maxrss) * 1024;
  }
  constexpr auto all = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  const auto stats = c10::getDeviceAllocator(device.type())->getDeviceStats(device.index());
  return double(stats.allocated_bytes[all].peak);
}

void releaseFreedMemory(at::Device device) {
  if (!device.is_cpu())
    c10::getDeviceAllocator(device.type())->emptyCache();
}

void resetPeakMemory(at::Device device) {
  if (device.is_cuda())
    c10::getDeviceAllocator(device.type())->resetPeakStats(device.index());
}

} // namespace kiln::models
