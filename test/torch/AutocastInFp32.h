// Autocast on CPUs as it is for CUDA: a scope of it, and norms and softmaxes in fp32, which
// autocast_test.cpp registers.
#pragma once

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace kiln::test {

inline at::Tensor layerNormInFp32(const at::Tensor& x, c10::SymIntArrayRef shape,
                                  const std::optional<at::Tensor>& weight,
                                  const std::optional<at::Tensor>& bias, double eps, bool) {
  const c10::impl::ExcludeDispatchKeyGuard below(c10::DispatchKey::AutocastCPU);
  const auto widened = [](const std::optional<at::Tensor>& tensor) {
    return tensor && tensor->defined() ? std::optional(tensor->to(at::kFloat)) : tensor;
  };
  return at::layer_norm_symint(x.to(at::kFloat), shape, widened(weight), widened(bias), eps);
}
inline at::Tensor softmaxInFp32(const at::Tensor& x, std::int64_t dim,
                                std::optional<at::ScalarType> dtype) {
  const c10::impl::ExcludeDispatchKeyGuard below(c10::DispatchKey::AutocastCPU);
  return at::softmax(x, dim, dtype.value_or(at::kFloat));
}
inline at::Tensor logSoftmaxInFp32(const at::Tensor& x, std::int64_t dim,
                                   std::optional<at::ScalarType> dtype) {
  const c10::impl::ExcludeDispatchKeyGuard below(c10::DispatchKey::AutocastCPU);
  return at::log_softmax(x, dim, dtype.value_or(at::kFloat));
}

struct Autocast {
  explicit Autocast(at::DeviceType device) : device(device) {
    at::autocast::set_autocast_enabled(device, true);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;
  ~Autocast() { at::autocast::set_autocast_enabled(device, false); }
  at::DeviceType device;
};

} // namespace kiln::test
