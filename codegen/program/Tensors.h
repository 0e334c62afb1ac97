// Tensors in host memory as a kernel sees them: storage type, strides, guard zones; and as the
// reference sees them: fp64, row-major.
#pragma once

#include "dialect/Reference.h"
#include "kiln/kiln.h"

#include <random>

namespace kiln::program {

/// How a tensor of these sizes lies in memory. Strides that are given at run time are those of a
/// contiguous tensor.
struct Layout {
  std::vector<std::int64_t> strides; // elements
  std::size_t bytes = 0;             // from the first element to the end of the last
};
Layout layoutOf(const TensorInfo& info, const std::vector<std::int64_t>& sizes);

/// A tensor with `guardBytes` of a known pattern before and after it.
class HostTensor {
 public:
  static constexpr std::size_t guardBytes = 256;

  HostTensor(const TensorInfo& info, std::vector<std::int64_t> sizes);

  const TensorInfo& info() const { return info_; }
  const std::vector<std::int64_t>& sizes() const { return sizes_; }
  std::int64_t count() const; // elements
  std::span<std::byte> data() { return {start(), bytes_}; }
  /// The elements with the guard zones on both sides.
  std::span<const std::byte> guarded() const {
    return {storage_.data() + padding_, bytes_ + 2 * guardBytes};
  }
  std::span<std::byte> guarded() { return {storage_.data() + padding_, bytes_ + 2 * guardBytes}; }
  std::span<const std::byte> data() const { return {start(), bytes_}; }
  /// The buffer whose guarded storage begins at `base`.
  Buffer at(std::byte* base) const;
  Buffer buffer() { return at(storage_.data() + padding_); }

  void poison(); // every byte 0xff: NaN in every float type
  bool guardsIntact() const;
  void write(const ir::Tensor64& values); // rounds to the storage type
  ir::Tensor64 read() const;
  std::int64_t offsetOf(std::int64_t element) const; // bytes, in data()

 private:
  std::byte* start() { return storage_.data() + padding_ + guardBytes; }
  const std::byte* start() const { return storage_.data() + padding_ + guardBytes; }
  template <class Visit> void eachElement(Visit visit) const;

  TensorInfo info_;
  std::vector<std::int64_t> sizes_, strides_;
  std::size_t bytes_ = 0, padding_ = 0;
  std::vector<std::byte> storage_;
};

double load(DType dtype, const std::byte* from);
void store(DType dtype, double value, std::byte* to);

/// The sizes of a tensor, given the values of the run-time sizes by symbol.
std::vector<std::int64_t> sizesOf(const TensorInfo& info, std::span<const std::int64_t> symbols);

/// `positive`: of what may have any sign, too.
enum class Signs { any, positive };
/// Numbers as training has them: floats near a normal distribution, three of four masks open.
ir::Tensor64 draw(const TensorInfo& info, std::span<const std::int64_t> symbols,
                  std::mt19937_64& random, Signs signs = Signs::any);

} // namespace kiln::program
