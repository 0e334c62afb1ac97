// Algorithms of cuBLASLt that were the fastest for products of certain sizes, in a file that ships
// with a model: JSON, written whole or not at all. They are of one GPU and one version of cuBLASLt,
// and of no use on others.
#pragma once

#include "kiln/torch.h"
#include "runtime/products/Product.h"

#include <array>
#include <vector>

namespace kiln::runtime {

/// As cublasLtMatmulAlgo_t has it.
using Algorithm = std::array<std::uint64_t, 8>;

struct Choice {
  Product product;
  std::optional<Algorithm> algorithm; // none: ATen's own was the fastest
  double micros = 0, byDefault = 0;   // of it, and of ATen's own
};

struct Choices {
  std::string device;         // "NVIDIA H200"
  std::uint64_t cublasLt = 0; // 130100
  std::vector<Choice> products{};

  /// Throws Error(io) where there is no such file, Error(input) where it is another.
  static Choices read(const std::filesystem::path& file);
  /// The file that options name, or what tuning begins with. Throws Error.
  static Choices of(const Options& options);
  /// Throws Error(io).
  void write(const std::filesystem::path& file) const;
};

} // namespace kiln::runtime
