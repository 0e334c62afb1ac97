// Tensors of the numerics table: in memory with strides, as numbers in fp64, and random ones.
#pragma once

#include "dialect/Reference.h"
#include "test/numerics/Table.h"

#include <bit>
#include <random>
#include <span>

namespace kiln::test {

/// The largest relative error of rounding to the type, and the spacing of its smallest numbers.
struct Precision {
  double relative, smallest, largest;
};
Precision precisionOf(DType dtype);
double round(DType dtype, double value);
inline float fromBf16(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

class Storage {
 public:
  Storage(const TensorInfo& info, const std::vector<std::int64_t>& symbols,
          const std::vector<std::int64_t>& givenStrides);
  Storage(Storage&&) = default; // a copy would lie at another alignment

  Buffer buffer();
  void poison();
  bool isPoisonAround(); // before the first and after the last element
  void write(const ir::Tensor64& values);
  ir::Tensor64 read() const;
  bool hasBitsOf(Storage& other);
  const std::vector<std::int64_t>& sizes() const { return sizes_; }
  /// All of the memory, with what is around the tensor.
  std::span<std::byte> memory() { return bytes_; }

 private:
  std::int64_t place(std::int64_t element) const;

  DType dtype_;
  std::vector<std::int64_t> sizes_, strides_;
  std::size_t offset_ = 0, extent_ = 0; // bytes
  bool strided_ = false;
  std::vector<std::byte> bytes_;
};

/// Values of one input of the case, already rounded to its type.
ir::Tensor64 randomValues(const TensorInfo& info, const std::vector<std::int64_t>& sizes,
                          const Case& numericCase, bool first, std::mt19937_64& random);

} // namespace kiln::test
