// See Symbols.h.
#include "codegen/backend/Symbols.h"

#include "codegen/backend/Fail.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <ranges>

namespace kiln {

namespace {

std::string shapeText(const TensorInfo& tensor) {
  std::vector<std::string> sizes;
  for (const Extent& extent : tensor.shape)
    sizes.push_back(extent.isStatic() ? fmt::format("{}", extent.size)
                                      : fmt::format("s{}", extent.symbol));
  return fmt::format("[{}]", fmt::join(sizes, ", "));
}

bool isEmpty(const Buffer& buffer) {
  return std::find(buffer.sizes.begin(), buffer.sizes.end(), 0) != buffer.sizes.end();
}

std::int64_t contiguousStride(const Buffer& buffer, std::size_t dimension) {
  std::int64_t stride = 1;
  for (std::size_t d = dimension + 1; d < buffer.sizes.size(); ++d)
    stride *= buffer.sizes[d]; // cannot overflow: the element count was checked
  return stride;
}

} // namespace

std::int64_t multiply(std::int64_t a, std::int64_t b, std::string_view what) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product))
    fail(ErrorKind::input, "{}: {} * {} does not fit in 64 bits; use smaller sizes", what, a, b);
  return product;
}

std::int64_t strideOf(const Buffer& buffer, std::size_t dimension) {
  return buffer.strides.empty() ? contiguousStride(buffer, dimension) : buffer.strides[dimension];
}

namespace {

void checkStrides(const TensorInfo& tensor, const char* role, const Buffer& buffer) {
  if (!buffer.strides.empty() && buffer.strides.size() != buffer.sizes.size())
    fail(ErrorKind::input, "{} '{}': {} strides given for {} dimensions; give one each or none",
         role, tensor.name, buffer.strides.size(), buffer.sizes.size());
  if (isEmpty(buffer))
    return;
  for (std::size_t d = 0; d < buffer.sizes.size(); ++d) {
    if (buffer.sizes[d] == 1)
      continue;
    std::int64_t given = strideOf(buffer, d);
    std::int64_t wanted = tensor.strides.empty() ? contiguousStride(buffer, d) : tensor.strides[d];
    if (wanted >= 0 && given != wanted)
      fail(ErrorKind::input,
           "{} '{}': stride of dimension {} is {} elements, the kernel was compiled for {}; copy "
           "the tensor or compile with that stride given at run time (-1)",
           role, tensor.name, d, given, wanted);
    if (given < 0)
      fail(ErrorKind::input,
           "{} '{}': stride of dimension {} is {} elements; allowed are 0 or more; copy the tensor",
           role, tensor.name, d, given);
    const bool promised = wanted < 0 && d + 1 < buffer.sizes.size() && tensor.strideMultiple > 1;
    if (promised && (given == 0 || given % tensor.strideMultiple != 0))
      fail(ErrorKind::input,
           "{} '{}': stride of dimension {} is {} elements, the kernel was compiled for multiples "
           "of {} above 0; copy the tensor or compile without that promise (multiple = {})",
           role, tensor.name, d, given, tensor.strideMultiple, tensor.strideMultiple);
    if (given == 0 && role[0] == 'o')
      fail(ErrorKind::input,
           "{} '{}': dimension {} has {} elements and stride 0, so results would overwrite each "
           "other; pass a tensor with memory of its own",
           role, tensor.name, d, buffer.sizes[d]);
  }
}

} // namespace

void checkPointer(const TensorInfo& tensor, const char* role, const Buffer& buffer) {
  auto address = reinterpret_cast<std::uintptr_t>(buffer.data);
  if (isEmpty(buffer))
    return;
  if (address == 0)
    fail(ErrorKind::input,
         "{} '{}': the pointer is null and the tensor has {} elements; only an empty tensor may "
         "have none",
         role, tensor.name,
         contiguousStride(buffer, 0) * (buffer.sizes.empty() ? 1 : buffer.sizes[0]));
  auto alignment = static_cast<std::uintptr_t>(tensor.alignment);
  if (address % alignment != 0)
    fail(ErrorKind::input,
         "{} '{}': pointer is aligned to {} bytes, the kernel was compiled for {}; copy the tensor "
         "or compile with a smaller alignment",
         role, tensor.name, address & -address, alignment);
}

void Symbols::bindOne(const TensorInfo& tensor, const char* role, const Buffer& buffer) {
  if (buffer.sizes.size() != tensor.shape.size())
    fail(ErrorKind::input,
         "{} '{}': {} dimensions given, the kernel was compiled for {} {}; reshape the tensor or "
         "compile for its shape",
         role, tensor.name, buffer.sizes.size(), tensor.shape.size(), shapeText(tensor));
  std::int64_t elements = 1;
  for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
    const Extent& extent = tensor.shape[d];
    std::int64_t size = buffer.sizes[d];
    if (size < 0)
      fail(ErrorKind::input, "{} '{}': dimension {} is {}; allowed are 0 or more", role,
           tensor.name, d, size);
    elements = isEmpty(buffer) ? 0 : multiply(elements, size, tensor.name);
    if (extent.isStatic()) {
      if (size != extent.size)
        fail(ErrorKind::input,
             "{} '{}': dimension {} is {}, the kernel was compiled for {} {}; compile for this "
             "size",
             role, tensor.name, d, size, extent.size, shapeText(tensor));
      continue;
    }
    if (!isKnown(extent.symbol)) {
      origins[extent.symbol] = {&tensor, role, d};
      set(extent.symbol, size);
    } else if (values[extent.symbol] != size) {
      const Origin& origin = origins[extent.symbol];
      fail(ErrorKind::input,
           "{} '{}': dimension {} is {}, but dimension {} of {} '{}' is {}; both are s{} and must "
           "be equal",
           role, tensor.name, d, size, origin.dimension, origin.role, origin.tensor->name,
           values[extent.symbol], extent.symbol);
    }
  }
  multiply(elements, static_cast<std::int64_t>(sizeInBytes(tensor.dtype)), tensor.name);
  checkStrides(tensor, role, buffer);
}

void Symbols::bind(const std::vector<TensorInfo>& tensors, const char* role,
                   std::span<const Buffer> buffers) {
  if (buffers.size() != tensors.size()) {
    std::vector<std::string> names;
    for (const TensorInfo& tensor : tensors)
      names.push_back(tensor.name);
    fail(ErrorKind::input, "{} {}s given, '{}' has {} ({}); pass them in this order",
         buffers.size(), role, *function, tensors.size(), fmt::join(names, ", "));
  }
  for (std::size_t i = 0; i < tensors.size(); ++i)
    bindOne(tensors[i], role, buffers[i]);
}

void checkSizes(const std::string& function, std::span<const TensorInfo> inputs,
                std::span<const TensorInfo> outputs, std::span<const std::int64_t> values) {
  std::map<int, std::string> sizes; // where each is met first
  for (std::span<const TensorInfo> tensors : {inputs, outputs})
    for (const TensorInfo& tensor : tensors)
      for (std::size_t d = 0; d < tensor.shape.size(); ++d)
        if (!tensor.shape[d].isStatic())
          sizes.try_emplace(tensor.shape[d].symbol,
                            fmt::format("dimension {} of '{}'", d, tensor.name));
  if (values.empty() || values.size() == sizes.size() || (values.size() == 1 && !sizes.empty()))
    return;
  const std::string given =
      fmt::format("{} value{} given for run-time sizes ({})", values.size(),
                  values.size() == 1 ? " is" : "s are", fmt::join(values, "x"));
  if (sizes.empty())
    fail(ErrorKind::input, "{}, '{}' has none: all its sizes are in its text; give no sizes", given,
         function);
  fail(ErrorKind::input, "{}, '{}' has {}: {}; give {}", given, function, sizes.size(),
       fmt::join(std::views::values(sizes), ", "),
       sizes.size() == 1 ? "one value" : "one value each, in this order, or one for all");
}

std::int64_t Symbols::product(std::span<const Extent> factors) const {
  std::int64_t result = 1;
  for (const Extent& extent : factors) {
    if (!extent.isStatic() && !isKnown(extent.symbol))
      fail(ErrorKind::input,
           "'{}': the run-time size s{} is no dimension of any tensor given, so it is unknown; "
           "give every run-time size to an input",
           *function, extent.symbol);
    std::int64_t factor = extent.isStatic() ? extent.size : values[extent.symbol];
    result = multiply(result, factor, *function);
  }
  return result;
}

} // namespace kiln
