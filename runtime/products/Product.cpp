// See Product.h.
#include "runtime/products/Product.h"

#include "runtime/Call.h"

#include <ATen/core/DimVector.h>
#include <ATen/ops/empty.h>
#include <array>
#include <fmt/format.h>

namespace kiln::runtime {

namespace {

constexpr std::int64_t kLeast = 64; // of every size: below, launches are most of the time

struct Matrix {
  std::int64_t step = 0, stride = 0; // between dense runs, and in the batch
  bool byColumns = false;
};

/// How the last two dimensions lie in memory.
std::optional<Matrix> matrixOf(const at::Tensor& tensor) {
  const std::int64_t rows = tensor.size(-2), columns = tensor.size(-1);
  const std::int64_t down = tensor.stride(-2), along = tensor.stride(-1);
  Matrix matrix;
  if (along == 1 && down >= columns)
    matrix.step = down;
  else if (down == 1 && along >= rows)
    matrix = {along, 0, true};
  else
    return std::nullopt;
  const bool isWhole = matrix.step * tensor.element_size() % 16 == 0;
  if (tensor.dim() == 3)
    matrix.stride = tensor.stride(0);
  return isWhole && isAligned(tensor) && matrix.stride * tensor.element_size() % 16 == 0
             ? std::optional(matrix)
             : std::nullopt;
}

} // namespace

std::uint64_t Product::hash() const {
  const auto flags = static_cast<std::int64_t>(byColumnsA) | std::int64_t(byColumnsB) << 1 |
                     std::int64_t(isHalf) << 2 | static_cast<std::int64_t>(added) << 3;
  return hashOf(std::array<std::int64_t, 9>{m, n, k, batch, lda, ldb, strideA, strideB, flags});
}

std::optional<Product> productOf(const at::Tensor& a, const at::Tensor& b, Added added) {
  const at::ScalarType type = a.scalar_type();
  if ((type != at::kBFloat16 && type != at::kHalf) || b.scalar_type() != type ||
      a.device() != b.device() || a.layout() != at::kStrided || b.layout() != at::kStrided)
    return std::nullopt;
  if (a.dim() != b.dim() || a.dim() < 2 || a.dim() > 3 || a.size(-1) != b.size(-2) ||
      (a.dim() == 3 && a.size(0) != b.size(0)))
    return std::nullopt;
  Product product{.m = a.size(-2), .n = b.size(-1), .k = a.size(-1)};
  if (std::min({product.m, product.n, product.k}) < kLeast ||
      product.n * a.element_size() % 16 != 0)
    return std::nullopt;
  const auto left = matrixOf(a), right = matrixOf(b);
  if (!left || !right)
    return std::nullopt;
  product.batch = a.dim() == 3 ? a.size(0) : 1;
  product.lda = left->step;
  product.ldb = right->step;
  product.strideA = left->stride;
  product.strideB = right->stride;
  product.byColumnsA = left->byColumns;
  product.byColumnsB = right->byColumns;
  product.isHalf = type == at::kHalf;
  product.added = added;
  return product.batch > 0 ? std::optional(product) : std::nullopt;
}

at::Tensor emptyResult(const at::Tensor& a, const at::Tensor& b) {
  at::DimVector sizes(a.sizes());
  sizes.back() = b.size(-1);
  return at::empty(sizes, a.options());
}

std::string textOf(const Product& product) {
  return fmt::format("{}{}x{}x{} {}", product.batch > 1 ? fmt::format("{}x", product.batch) : "",
                     product.m, product.k, product.n, product.isHalf ? "f16" : "bf16");
}

} // namespace kiln::runtime
