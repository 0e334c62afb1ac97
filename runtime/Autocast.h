// What autocast does to operands of products, for code that calls no operation of ATen's for them.
#pragma once

#include <ATen/autocast_mode.h>

namespace kiln::runtime {

/// As products read it: cast where autocast is on for its device and takes its dtype.
inline at::Tensor asProductsRead(const at::Tensor& x) {
  const c10::DeviceType device = x.device().type();
  if (!at::autocast::is_autocast_enabled(device))
    return x;
  return at::autocast::cached_cast(at::autocast::get_autocast_dtype(device), x, device);
}

} // namespace kiln::runtime
