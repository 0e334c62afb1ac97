// See Launch.h.
#include "runtime/Launch.h"

#include "runtime/Route.h"

#include <ATen/core/DimVector.h>
#include <ATen/ops/empty_strided.h>
#include <algorithm>

namespace kiln::runtime {

at::Tensor Launch::empty(at::IntArrayRef sizes, at::ScalarType dtype) const {
  const Backend& backend = plan.site.backend;
  const auto device = backend.place == Place::gpu
                          ? at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(call.key.device))
                          : at::Device(at::kCPU);
  return at::Tensor(backend.empty(sizes, dtype, device));
}

at::Tensor Launch::emptyStatistic(const at::Tensor& x, at::IntArrayRef rowShape) const {
  at::DimVector sizes(x.sizes()); // on the stack for most
  std::fill(sizes.end() - static_cast<std::ptrdiff_t>(rowShape.size()), sizes.end(), 1);
  return empty(sizes, at::kFloat);
}

at::Tensor Launch::emptyLike(const at::Tensor& dense) const {
  if (dense.is_contiguous())
    return empty(dense.sizes(), dense.scalar_type());
  return at::empty_strided(dense.sizes(), dense.strides(), dense.options());
}

void Launch::operator()(const Tensors& operands, const Tensors& results) const {
  std::array<void*, maxSlots> slots{};
  std::size_t next = 0;
  for (const Tensors* list : {&operands, &results})
    for (const at::Tensor* tensor : *list)
      slots[next++] = tensor && tensor->defined() ? tensor->data_ptr() : nullptr;
  if (keeps)
    for (const at::Tensor* tensor : operands)
      kept.push_back(tensor ? *tensor : at::Tensor());
  std::array<void*, maxSlots> ordered;
  for (std::size_t i = 0; i < plan.slots.size(); ++i)
    ordered[i] = slots[plan.slots[i]];
  kernel.launch({&call.rows, 1}, std::span(ordered.data(), plan.slots.size()));
}

} // namespace kiln::runtime
