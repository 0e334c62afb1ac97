// See Device.h.
#include "models/common/Device.h"

#include "models/common/Fail.h"

#include <ATen/Context.h>
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

} // namespace kiln::models
