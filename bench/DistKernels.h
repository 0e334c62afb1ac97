// Kernels of buckets of gradients beside plain copies of as many bytes, on one device.
#pragma once

#include <c10/core/Device.h>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kiln::bench {

/// Buckets of so many MiB of fp32 gradients, of these lengths one after another again and again, as
/// many buckets as do not fit into a cache, in turn; `print` gets a line for each kernel.
void benchDistKernels(const std::vector<std::int64_t>& lengths, double mib, at::Device device,
                      const std::function<void(nlohmann::ordered_json)>& print);

} // namespace kiln::bench
