// See Launch.h.
#include "runtime/Launch.h"

#include "runtime/Route.h"

#include <ATen/core/DimVector.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <algorithm>

namespace kiln::runtime {

at::Tensor Launch::empty(at::IntArrayRef sizes, at::ScalarType dtype) const {
  const auto device = backend().place == Place::gpu
                          ? at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(call.key.device))
                          : at::Device(at::kCPU);
  return at::Tensor(backend().empty(sizes, dtype, device));
}

at::Tensor Launch::emptyStatistic(const at::Tensor& x, at::IntArrayRef rowShape) const {
  at::DimVector sizes(x.sizes()); // on the stack for most
  std::fill(sizes.end() - static_cast<std::ptrdiff_t>(rowShape.size()), sizes.end(), 1);
  return empty(sizes, at::kFloat);
}

at::Tensor Launch::emptyLike(const at::Tensor& dense) const {
  return emptyLike(dense, dense.scalar_type());
}

at::Tensor Launch::emptyLike(const at::Tensor& dense, at::ScalarType dtype) const {
  if (dense.is_contiguous())
    return empty(dense.sizes(), dtype);
  return at::empty_strided(dense.sizes(), dense.strides(), dense.options().dtype(dtype));
}

void Launch::keep(const Tensors& operands, std::initializer_list<const void*> numbers) const {
  for (const at::Tensor* tensor : operands)
    kept.push_back(tensor ? *tensor : at::Tensor());
  for (const void* number : numbers)
    kept.push_back(
        at::from_blob(const_cast<void*>(number), {}, kept[0].options().dtype(at::kLong)).clone());
}

void Launch::operator()(const Tensors& operands, const Tensors& results,
                        std::initializer_list<const void*> numbers) const {
  std::array<void*, maxSlots> slots{};
  std::size_t next = 0;
  auto add = [&](const Tensors& list) {
    for (const at::Tensor* tensor : list)
      slots[next++] = tensor && tensor->defined() ? tensor->data_ptr() : nullptr;
  };
  add(operands);
  for (const void* number : numbers)
    slots[next++] = const_cast<void*>(number); // read only
  add(results);
  if (keeps)
    keep(operands, numbers);
  std::array<void*, maxSlots> ordered;
  for (std::size_t i = 0; i < plan.slots.size(); ++i)
    ordered[i] = slots[plan.slots[i]];
  kernel.launch({&call.rows, 1}, std::span(ordered.data(), plan.slots.size()));
}

void Launch::strided(const Tensors& operands, const Tensors& results) const {
  std::array<const at::Tensor*, maxSlots> slots{};
  std::copy(results.begin(), results.end(),
            std::copy(operands.begin(), operands.end(), slots.begin()));
  if (keeps)
    keep(operands, {});
  thread_local std::vector<Buffer> buffers; // whose memory serves the next launch
  buffers.resize(plan.slots.size());
  for (std::size_t i = 0; i < plan.slots.size(); ++i) {
    const at::Tensor& tensor = *slots[plan.slots[i]];
    buffers[i].data = tensor.data_ptr();
    buffers[i].sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
    buffers[i].strides.assign(tensor.strides().begin(), tensor.strides().end());
  }
  const std::span all(buffers);
  kernel.launch(all.first(kernel.inputs.size()), all.subspan(kernel.inputs.size()));
}

} // namespace kiln::runtime
