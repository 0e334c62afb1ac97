// Dense arrays in row-major order, for code that stands below LibTorch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace kiln::alphafold {

/// Sizes and elements. Without sizes ([]) it has one element once it is made with a shape.
template <typename T> struct Array {
  std::vector<std::int64_t> shape;
  std::vector<T> values;

  Array() = default;
  explicit Array(std::vector<std::int64_t> sizes, T value = T())
      : shape(std::move(sizes)), values(static_cast<std::size_t>(elements(shape)), value) {}

  static std::int64_t elements(std::span<const std::int64_t> sizes) {
    return std::accumulate(sizes.begin(), sizes.end(), std::int64_t(1), std::multiplies());
  }

  /// The element or, of fewer indices than sizes, the first element of the part that they name.
  template <typename... Index> T* at(Index... index) { return values.data() + offset(index...); }
  template <typename... Index> const T* at(Index... index) const {
    return values.data() + offset(index...);
  }
  template <typename... Index> T& operator()(Index... index) { return *at(index...); }
  template <typename... Index> const T& operator()(Index... index) const { return *at(index...); }

  /// Elements of a part that so many indices name.
  std::int64_t stride(std::size_t indices) const {
    return elements(std::span(shape).subspan(indices));
  }

  bool operator==(const Array&) const = default;

 private:
  template <typename... Index> std::int64_t offset(Index... index) const {
    const std::array<std::int64_t, sizeof...(Index)> indices{static_cast<std::int64_t>(index)...};
    std::int64_t place = 0;
    for (std::size_t i = 0; i < indices.size(); ++i)
      place = place * shape[i] + indices[i];
    return place * stride(indices.size());
  }
};

} // namespace kiln::alphafold
