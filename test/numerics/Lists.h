// Lists of tensors on the host, for the tests of programs over them.
#pragma once

#include "kiln/lists.h"

#include <algorithm>
#include <cstring>
#include <span>

namespace kiln::test {

using Lengths = std::vector<std::int64_t>;

/// The tensors of one list in one piece of memory with untouched elements between them. Every
/// third tensor begins one element behind a multiple of 16 bytes.
template <class T> class List {
 public:
  explicit List(const Lengths& lengths, T fill) : guard(fill) {
    std::size_t end = 16;
    for (std::int64_t length : lengths) {
      begins.push_back(end + (begins.size() % 3 == 2));
      sizes.push_back(length);
      end = (begins.back() + length + 16 + 7) / 8 * 8;
    }
    memory.assign(end + 16, guard);
    while (reinterpret_cast<std::uintptr_t>(memory.data() + start) % 16 != 0)
      ++start;
  }

  std::span<T> operator[](std::size_t entry) {
    return {memory.data() + start + begins[entry], static_cast<std::size_t>(sizes[entry])};
  }
  TensorList buffers() {
    TensorList list;
    for (std::size_t i = 0; i < sizes.size(); ++i)
      list.push_back({sizes[i] ? (*this)[i].data() : nullptr, {sizes[i]}, {}});
    return list;
  }
  /// All of the memory.
  std::span<const std::byte> bytes() const { return std::as_bytes(std::span(memory)); }
  bool guardsIntact() {
    std::vector<T> now = memory;
    for (std::size_t i = 0; i < sizes.size(); ++i)
      std::fill_n(now.begin() + start + begins[i], sizes[i], guard);
    return std::memcmp(now.data(), std::vector<T>(now.size(), guard).data(),
                       now.size() * sizeof(T)) == 0;
  }

 private:
  T guard;
  std::vector<T> memory;
  std::vector<std::size_t> begins;
  std::vector<std::int64_t> sizes;
  std::size_t start = 0;
};

/// Lengths around vectors, chunks and blocks of several chunks.
inline const Lengths kOdd = {0,    1,    2, 3,    4,    5,    7,    8, 1023,
                             1024, 1025, 0, 2047, 2048, 2050, 9001, 6, 0};

} // namespace kiln::test
