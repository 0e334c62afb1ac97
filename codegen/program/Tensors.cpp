// See Tensors.h.
#include "codegen/program/Tensors.h"

#include "codegen/backend/Fail.h"
#include "dialect/Ranges.h"

#include "llvm/ADT/APFloat.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>

namespace kiln::program {

static constexpr std::byte kGuard{0xa5};
/// Numbers of a large tensor repeat behind so many: a prime, so that rows which lie a usual
/// distance apart hold others.
static constexpr std::size_t kMostDrawn = 262'139;

static const llvm::fltSemantics& semantics(DType dtype) {
  return dtype == DType::bf16 ? llvm::APFloat::BFloat() : llvm::APFloat::IEEEhalf();
}

/// The values of all fp16 numbers, by their bits.
static std::vector<double> everyHalf() {
  std::vector<double> values;
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    llvm::APFloat value(semantics(DType::f16), llvm::APInt(16, bits));
    bool lossy;
    value.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &lossy);
    values.push_back(value.convertToDouble());
  }
  return values;
}

/// To nearest, ties to even, of a type of 16 bits; null where the result is no normal number.
static std::optional<std::uint16_t> roundedBits(DType dtype, double number) {
  const int fraction = dtype == DType::bf16 ? 7 : 10, widest = 52;
  const std::uint64_t bias = dtype == DType::bf16 ? 127 : 15, biasOfDouble = 1023;
  auto bits = std::bit_cast<std::uint64_t>(number);
  const auto sign = static_cast<std::uint16_t>(bits >> 63 << 15);
  bits &= ~0ULL >> 1;
  const int dropped = widest - fraction;
  bits += (1ULL << (dropped - 1)) - 1 + (bits >> dropped & 1);
  const std::uint64_t exponent = bits >> widest;
  if (exponent + bias <= biasOfDouble || exponent >= biasOfDouble + bias + 1)
    return {};
  bits -= (biasOfDouble - bias) << widest;
  return static_cast<std::uint16_t>(sign | bits >> dropped);
}

double load(DType dtype, const std::byte* from) {
  auto as = [&](auto value) {
    std::memcpy(&value, from, sizeof value);
    return value;
  };
  switch (dtype) {
  case DType::f64:
    return as(double{});
  case DType::f32:
    return as(float{});
  case DType::i64:
    return static_cast<double>(as(std::int64_t{}));
  case DType::i32:
    return as(std::int32_t{});
  case DType::i1:
    return as(std::uint8_t{}) != 0;
  default:
    break;
  }
  const auto bits = as(std::uint16_t{});
  if (dtype == DType::bf16)
    return std::bit_cast<float>(std::uint32_t{bits} << 16);
  static const std::vector<double> halves = everyHalf();
  return halves[bits];
}

void store(DType dtype, double number, std::byte* to) {
  auto as = [&](auto value) { std::memcpy(to, &value, sizeof value); };
  switch (dtype) {
  case DType::f64:
    return as(number);
  case DType::f32:
    return as(static_cast<float>(number));
  case DType::i64:
    return as(static_cast<std::int64_t>(number));
  case DType::i32:
    return as(static_cast<std::int32_t>(number));
  case DType::i1:
    return as(static_cast<std::uint8_t>(number != 0.0));
  default:
    break;
  }
  if (const std::optional<std::uint16_t> bits = roundedBits(dtype, number))
    return as(*bits);
  llvm::APFloat value(number);
  bool lossy;
  value.convert(semantics(dtype), llvm::APFloat::rmNearestTiesToEven, &lossy);
  as(static_cast<std::uint16_t>(value.bitcastToAPInt().getZExtValue()));
}

static std::int64_t sizeOf(const Extent& extent, const std::string& name,
                           std::span<const std::int64_t> symbols) {
  if (extent.isStatic())
    return extent.size;
  if (symbols.empty())
    fail(ErrorKind::input, "'{}' has a size that is known at run time only; give it a value", name);
  return symbols[std::min<std::size_t>(extent.symbol, symbols.size() - 1)];
}

std::vector<std::int64_t> sizesOf(const TensorInfo& info, std::span<const std::int64_t> symbols) {
  std::vector<std::int64_t> sizes;
  for (const Extent& extent : info.shape)
    sizes.push_back(sizeOf(extent, info.name, symbols));
  return sizes;
}

/// The first is 0 and the last is `most`, as where sequences are packed without gaps.
static void drawAscending(std::int64_t most, std::mt19937_64& random, std::span<double> numbers) {
  for (double& number : numbers)
    number = static_cast<double>(random() % static_cast<std::uint64_t>(most + 1));
  std::ranges::sort(numbers);
  if (!numbers.empty()) {
    numbers.front() = 0;
    numbers.back() = static_cast<double>(most);
  }
}

ir::Tensor64 draw(const TensorInfo& info, std::span<const std::int64_t> symbols,
                  std::mt19937_64& random, Signs signs) {
  ir::Tensor64 values = ir::unsetTensor64(sizesOf(info, symbols));
  if (info.ascendsTo) {
    drawAscending(sizeOf(*info.ascendsTo, info.name, symbols), random, values.data);
    return values;
  }
  const std::optional<double> lowest =
      signs == Signs::positive ? std::max(info.lowest.value_or(0.0), 0.0) : info.lowest;
  std::normal_distribution<double> normal;
  const std::size_t drawn = std::min(values.data.size(), kMostDrawn);
  for (double& value : std::span(values.data).first(drawn))
    if (info.dtype == DType::i1)
      value = random() % 4 != 0;
    else if (info.dtype == DType::i32 || info.dtype == DType::i64)
      value = static_cast<double>(random() % 64);
    else
      value = lowest ? *lowest + std::abs(normal(random)) : normal(random);
  const auto more = static_cast<std::int64_t>(values.data.size() - drawn);
  ir::inRanges(more, [&](std::int64_t i, std::int64_t end) {
    for (; i < end; ++i)
      values.data[drawn + i] = values.data[i % drawn];
  });
  return values;
}

Layout layoutOf(const TensorInfo& info, const std::vector<std::int64_t>& sizes) {
  Layout layout;
  layout.strides.resize(sizes.size());
  std::int64_t contiguous = 1, last = 0;
  for (std::size_t d = sizes.size(); d-- > 0;) {
    bool given = d < info.strides.size() && info.strides[d] >= 0;
    if (!given && !info.strides.empty() && d + 1 < sizes.size()) // as is promised
      contiguous =
          (contiguous + info.strideMultiple - 1) / info.strideMultiple * info.strideMultiple;
    layout.strides[d] = given ? info.strides[d] : contiguous;
    contiguous *= sizes[d];
    last += (sizes[d] - 1) * layout.strides[d];
  }
  layout.bytes = contiguous ? static_cast<std::size_t>(last + 1) * sizeInBytes(info.dtype) : 0;
  return layout;
}

HostTensor::HostTensor(const TensorInfo& info, std::vector<std::int64_t> sizes)
    : info_(info), sizes_(std::move(sizes)) {
  Layout layout = layoutOf(info_, sizes_);
  strides_ = std::move(layout.strides);
  bytes_ = layout.bytes;
  storage_.assign(bytes_ + 3 * guardBytes, kGuard);
  std::size_t off = reinterpret_cast<std::uintptr_t>(storage_.data()) % guardBytes;
  padding_ = off ? guardBytes - off : 0;
}

std::int64_t HostTensor::count() const {
  std::int64_t count = 1;
  for (std::int64_t size : sizes_)
    count *= size;
  return count;
}

Buffer HostTensor::at(std::byte* base) const {
  // A number, since the address is a device's: null may be where one of its buffers begins.
  const auto first = reinterpret_cast<std::uintptr_t>(base) + guardBytes;
  return {reinterpret_cast<void*>(first), sizes_, strides_};
}

std::int64_t HostTensor::offsetOf(std::int64_t element) const {
  std::int64_t offset = 0;
  for (std::size_t d = sizes_.size(); d-- > 0; element /= sizes_[d])
    offset += element % sizes_[d] * strides_[d];
  return offset * static_cast<std::int64_t>(sizeInBytes(info_.dtype));
}

/// Some at the same time, unless elements may share their place.
template <class Visit> void HostTensor::eachElement(Visit visit) const {
  const auto bytes = static_cast<std::int64_t>(sizeInBytes(info_.dtype));
  const std::int64_t all = count();
  const bool isShared = std::ranges::find(strides_, 0) != strides_.end();
  const std::int64_t ranges = isShared ? 1 : ir::rangesOf(all, ir::kWorthAThread);
  ir::inRanges(all, ranges, [&](std::int64_t, std::int64_t i, std::int64_t end) {
    std::vector<std::int64_t> index(sizes_.size(), 0);
    std::int64_t offset = 0, rest = i;
    for (std::size_t d = sizes_.size(); i < end && d-- > 0; rest /= sizes_[d]) {
      index[d] = rest % sizes_[d];
      offset += index[d] * strides_[d];
    }
    for (; i < end; ++i) {
      visit(i, offset * bytes);
      for (std::size_t d = sizes_.size(); d-- > 0;) {
        offset += strides_[d];
        if (++index[d] < sizes_[d])
          break;
        offset -= index[d] * strides_[d];
        index[d] = 0;
      }
    }
  });
}

void HostTensor::poison() {
  std::ranges::fill(data(), std::byte{0xff});
}

bool HostTensor::guardsIntact() const {
  auto intact = [&](std::span<const std::byte> zone) {
    return std::ranges::all_of(zone, [](std::byte b) { return b == kGuard; });
  };
  std::span all = std::span(storage_).subspan(padding_);
  return intact(all.first(guardBytes)) && intact(all.subspan(guardBytes + bytes_, guardBytes));
}

void HostTensor::write(const ir::Tensor64& values) {
  eachElement([&](std::int64_t i, std::int64_t offset) {
    store(info_.dtype, values.data[i], start() + offset);
  });
}

ir::Tensor64 HostTensor::read() const {
  ir::Tensor64 values = ir::unsetTensor64(sizes_);
  eachElement([&](std::int64_t i, std::int64_t offset) {
    values.data[i] = load(info_.dtype, start() + offset);
  });
  return values;
}

} // namespace kiln::program
