// See Batch.h.
#include "models/alphafold/features/Batch.h"

#include "models/alphafold/features/Example.h"
#include "models/common/Fail.h"

#include <ATen/Functions.h>
#include <ATen/core/Tensor.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace kiln::alphafold {

namespace {

constexpr at::ScalarType dtypeOf(const Array<float>&) {
  return at::kFloat;
}
constexpr at::ScalarType dtypeOf(const Array<std::int64_t>&) {
  return at::kLong;
}

/// Copies the feature of one example among those of `count` others.
template <typename T>
void place(const Array<T>& from, bool isPerPass, std::size_t index, std::size_t count, T* to) {
  const std::size_t parts = isPerPass ? static_cast<std::size_t>(from.shape[0]) : 1;
  const std::size_t size = parts == 0 ? 0 : from.values.size() / parts;
  for (std::size_t part = 0; part < parts; ++part)
    std::copy_n(from.values.data() + part * size, size, to + (part * count + index) * size);
}

} // namespace

Batch Batch::pass(std::int64_t index) const {
  if (index < 0 || index >= passes)
    models::fail(ErrorKind::input, "pass {} of a batch that has {}", index, passes);
  Batch result = *this;
  result.passes = 1;
  forEachField(
      [&](std::string_view, bool isPerPass, at::Tensor& tensor) {
        if (isPerPass)
          tensor = tensor.select(0, index);
      },
      result);
  return result;
}

Fields<TensorOf> Batch::one(std::int64_t index, std::int64_t example) const {
  if (example < 0 || example >= size())
    models::fail(ErrorKind::input, "example {} of a batch that has {}", example, size());
  Fields<TensorOf> result = pass(index);
  forEachField(
      [&](std::string_view, bool, at::Tensor& tensor) { tensor = tensor.select(0, example); },
      result);
  return result;
}

Batch Batch::to(at::Device device) const {
  Batch result = *this;
  forEachField(
      [&](std::string_view, bool, at::Tensor& tensor) {
        tensor = tensor.to(tensor.options().device(device), /*non_blocking=*/tensor.is_pinned());
      },
      result);
  return result;
}

Batch collate(const std::vector<Example>& examples, bool pinned) {
  if (examples.empty())
    models::fail(ErrorKind::input, "a batch of no example; at least one is needed");
  Batch batch;
  const std::size_t count = examples.size();
  for (std::size_t i = 0; i < count; ++i) {
    batch.chains.push_back(examples[i].chain);
    forEachField(
        [&](std::string_view name, bool isPerPass, at::Tensor& tensor, auto& first, auto& own) {
          if (own.shape != first.shape)
            models::fail(ErrorKind::input,
                         "{}: of {} it is [{}], of {} [{}]; a batch needs the same sizes", name,
                         examples[0].chain, fmt::join(first.shape, ", "), examples[i].chain,
                         fmt::join(own.shape, ", "));
          if (i == 0) {
            std::vector<std::int64_t> shape = own.shape;
            shape.insert(shape.begin() + (isPerPass ? 1 : 0), static_cast<std::int64_t>(count));
            tensor = at::empty(shape, at::TensorOptions(dtypeOf(own)).pinned_memory(pinned));
          }
          using Element = std::decay_t<decltype(own.values[0])>;
          place(own, isPerPass, i, count, static_cast<Element*>(tensor.mutable_data_ptr()));
        },
        batch, examples[0], examples[i]);
  }
  batch.passes = examples[0].msaFeat.shape[0];
  return batch;
}

} // namespace kiln::alphafold
