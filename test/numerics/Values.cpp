// See Values.h.
#include "test/numerics/Values.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace kiln::test {

static constexpr double kInfinity = std::numeric_limits<double>::infinity();

Precision precisionOf(DType dtype) {
  switch (dtype) {
  case DType::bf16:
    return {0x1p-8, 0x1p-133, 0x1.fep127};
  case DType::f16:
    return {0x1p-11, 0x1p-24, 65504};
  case DType::f32:
    return {0x1p-24, 0x1p-149, 0x1.fffffep127};
  default:
    return {0, 0, kInfinity};
  }
}

/// To a format of `digits` binary digits, exponents from `lowest`: nearest, ties to even.
double round(DType dtype, double value) {
  if (dtype == DType::f32)
    return static_cast<float>(value);
  if (dtype != DType::bf16 && dtype != DType::f16)
    return value;
  if (!std::isfinite(value) || value == 0.0)
    return value;
  Precision p = precisionOf(dtype);
  int digits = dtype == DType::bf16 ? 8 : 11, exponent;
  std::frexp(value, &exponent);
  double step = std::max(std::ldexp(1.0, exponent - digits), p.smallest);
  double rounded = std::nearbyint(value / step) * step;
  return std::abs(rounded) > p.largest ? std::copysign(kInfinity, value) : rounded;
}

Storage::Storage(const TensorInfo& info, const std::vector<std::int64_t>& symbols,
                 const std::vector<std::int64_t>& givenStrides)
    : dtype_(info.dtype), strided_(!givenStrides.empty()) {
  for (const Extent& extent : info.shape)
    sizes_.push_back(extent.isStatic()    ? extent.size
                     : symbols.size() > 1 ? symbols[extent.symbol]
                                          : symbols[0]);
  std::int64_t contiguous = 1, last = 0;
  bool empty = false;
  strides_.resize(sizes_.size());
  for (std::size_t d = sizes_.size(); d-- > 0; contiguous *= sizes_[d]) {
    std::int64_t fixed = givenStrides.empty() ? info.strides[d] : givenStrides[d];
    strides_[d] = fixed >= 0 ? fixed : contiguous;
    strided_ |= strides_[d] != contiguous;
    last += (sizes_[d] - 1) * strides_[d];
    empty |= sizes_[d] == 0;
  }
  offset_ = 256 + static_cast<std::size_t>(info.alignment); // aligned as promised and no more
  extent_ = empty ? 0 : static_cast<std::size_t>(last + 1) * sizeInBytes(dtype_);
  bytes_.resize(offset_ + extent_ + 512);
}

static std::byte* aligned(std::vector<std::byte>& bytes) {
  auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
  return bytes.data() + (256 - address % 256) % 256;
}

Buffer Storage::buffer() {
  Buffer result;
  result.data = aligned(bytes_) + offset_ - 256;
  result.sizes = sizes_;
  if (strided_)
    result.strides = strides_;
  return result;
}

bool Storage::isPoisonAround() {
  auto* first = static_cast<std::byte*>(buffer().data);
  auto poisoned = [](std::byte b) { return b == std::byte{0xff}; };
  return std::all_of(bytes_.data(), first, poisoned) &&
         std::all_of(first + extent_, bytes_.data() + bytes_.size(), poisoned);
}

bool Storage::hasBitsOf(Storage& other) {
  return std::memcmp(buffer().data, other.buffer().data, extent_) == 0;
}

void Storage::poison() {
  std::memset(bytes_.data(), 0xff, bytes_.size());
}

std::int64_t Storage::place(std::int64_t element) const {
  std::int64_t at = 0;
  for (std::size_t d = sizes_.size(); d-- > 0; element /= sizes_[d])
    at += element % sizes_[d] * strides_[d];
  return at;
}

static double halfToDouble(std::uint16_t bits) {
  int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  double value = exponent == 31  ? (mantissa ? std::nan("") : kInfinity)
                 : exponent == 0 ? std::ldexp(mantissa, -24)
                                 : std::ldexp(mantissa + 1024, exponent - 25);
  return bits >> 15 ? -value : value;
}
static std::uint16_t halfFromDouble(double value) { // already rounded
  std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  double size = std::abs(value);
  if (std::isnan(value))
    return 0x7e00;
  if (std::isinf(value))
    return sign | 0x7c00;
  if (size < 0x1p-14)
    return sign | static_cast<std::uint16_t>(size * 0x1p24);
  int exponent;
  double fraction = std::frexp(size, &exponent); // [0.5, 1)
  return sign | static_cast<std::uint16_t>((exponent + 13) << 10 | (int(fraction * 2048) & 1023));
}

void Storage::write(const ir::Tensor64& values) {
  std::byte* start = static_cast<std::byte*>(buffer().data);
  for (std::int64_t i = 0; i < values.size(); ++i) {
    double value = values.data[i];
    auto put = [&](auto stored) {
      std::memcpy(start + place(i) * sizeof stored, &stored, sizeof stored);
    };
    switch (dtype_) {
    case DType::f64:
      put(value);
      break;
    case DType::f32:
      put(static_cast<float>(value));
      break;
    case DType::bf16:
      put(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(float(value)) >> 16));
      break;
    case DType::f16:
      put(halfFromDouble(value));
      break;
    case DType::i64:
      put(static_cast<std::int64_t>(value));
      break;
    case DType::i32:
      put(static_cast<std::int32_t>(value));
      break;
    case DType::i1:
      put(static_cast<std::uint8_t>(value != 0));
      break;
    }
  }
}

ir::Tensor64 Storage::read() const {
  ir::Tensor64 values = ir::makeTensor64(sizes_);
  const auto* start = static_cast<const std::byte*>(const_cast<Storage*>(this)->buffer().data);
  for (std::int64_t i = 0; i < values.size(); ++i) {
    auto get = [&](auto kind) {
      decltype(kind) stored;
      std::memcpy(&stored, start + place(i) * sizeof stored, sizeof stored);
      return stored;
    };
    double& value = values.data[i];
    switch (dtype_) {
    case DType::f64:
      value = get(double());
      break;
    case DType::f32:
      value = get(float());
      break;
    case DType::bf16:
      value = std::bit_cast<float>(std::uint32_t(get(std::uint16_t())) << 16);
      break;
    case DType::f16:
      value = halfToDouble(get(std::uint16_t()));
      break;
    case DType::i64:
      value = static_cast<double>(get(std::int64_t()));
      break;
    case DType::i32:
      value = get(std::int32_t());
      break;
    case DType::i1:
      value = get(std::uint8_t());
      break;
    }
  }
  return values;
}

static double drawn(Fill fill, DType dtype, double normal, std::mt19937_64& random) {
  bool some = random() % 16 == 0;
  switch (fill) {
  case Fill::offset:
    return 1e4 + 0.1 * normal;
  case Fill::denormal:
    return dtype == DType::f32 ? 2e-39 * normal : 40 * precisionOf(dtype).smallest * normal;
  case Fill::deep:
    return some ? 0 : -std::min(std::abs(40 * normal), 110.0);
  case Fill::steep:
    return 60 * normal;
  case Fill::large:
    return std::min(0.4 * precisionOf(dtype).largest, 1e30) * std::tanh(normal);
  case Fill::infinities:
    return some ? std::copysign(kInfinity, normal) : normal;
  case Fill::nans:
    return some ? std::nan("") : normal;
  default:
    return normal;
  }
}

/// Of a bias. A row of numbers has gradients that fp64 still tells, and fp32 does not.
static double hiding(const Case& numericCase, DType dtype, std::int64_t row, double normal,
                     std::mt19937_64& random) {
  const double number = dtype == DType::f16 ? -kInfinity : -1e30;
  if (row % 4 == 1)
    return -kInfinity;
  if (row % 4 == 2 && !numericCase.chained)
    return number;
  const auto some = random() % 16;
  return some == 0 ? -kInfinity : some == 1 ? number : normal;
}

static bool isOfAllRows(Fill fill) {
  return fill == Fill::offset || fill == Fill::constant || fill == Fill::denormal ||
         fill == Fill::deep || fill == Fill::steep || fill == Fill::large;
}

static double drawnInteger(std::int64_t classes, std::mt19937_64& random) {
  if (classes == 0)
    return static_cast<double>(random() % 2001) - 1000;
  switch (random() % 8) {
  case 0:
    return -100;
  case 1:
    return random() % 2 ? -1 : static_cast<double>(classes);
  default:
    return static_cast<double>(random() % classes);
  }
}

ir::Tensor64 randomValues(const TensorInfo& info, const std::vector<std::int64_t>& sizes,
                          const Case& numericCase, bool first, std::mt19937_64& random) {
  const Fill fill = numericCase.fill;
  std::normal_distribution<double> normal;
  ir::Tensor64 values = ir::makeTensor64(sizes);
  bool isFloat = precisionOf(info.dtype).relative > 0;
  if (const auto given = numericCase.numbers.find(info.name); given != numericCase.numbers.end()) {
    values.data.assign(given->second.begin(), given->second.end());
    return values;
  }
  for (std::int64_t i = 0; i < values.size(); ++i) {
    std::int64_t row = values.width() ? i / values.width() : 0;
    bool spoiled = first && (row % 3 == 1); // clean rows beside spoiled ones
    double value = normal(random);
    if (info.dtype == DType::i1)
      value = fill == Fill::closed && row % 2 ? 0 : random() % 4 != 0;
    else if (!isFloat)
      value = drawnInteger(numericCase.classes, random);
    else if (fill == Fill::hiding && info.name == "b")
      value = hiding(numericCase, info.dtype, row, value, random);
    else if (info.lowest)
      value = *info.lowest + std::abs(value);
    else if (first && fill == Fill::constant)
      value = 10000.1 + static_cast<double>(row);
    else if (first && isOfAllRows(fill))
      value = drawn(fill, info.dtype, value, random);
    else if (spoiled)
      value = fill == Fill::minusInf ? -kInfinity : drawn(fill, info.dtype, value, random);
    values.data[i] = round(info.dtype, value);
  }
  return values;
}

} // namespace kiln::test
