// A product of matrices as cuBLASLt sees it, told from tensors: what an algorithm is chosen for.
#pragma once

#include "runtime/Table.h"

#include <ATen/core/Tensor.h>
#include <optional>
#include <string>

namespace kiln::runtime {

/// What is added to a product: nothing, a matrix of its size which the sum replaces, or a row.
enum class Added : std::int64_t { nothing, sum, row };

/// a b, [m, k] [k, n], of bf16 or fp16, accumulated in fp32: row by row densely in memory.
struct Product {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  std::int64_t lda = 0, ldb = 0;         // elements from row to row, or from column to column
  std::int64_t strideA = 0, strideB = 0; // from one of the batch to the next; 0: it is the same
  bool byColumnsA = false, byColumnsB = false; // whose columns are dense, not the rows
  bool isHalf = false;                         // fp16
  Added added = Added::nothing;

  std::uint64_t hash() const;
  friend bool operator==(const Product&, const Product&) = default;
};

/// Of matrices, or of batches of them, [b, m, k] [b, k, n]. None: it is small, or not of 16 bits,
/// or lies in memory as cuBLASLt takes none.
std::optional<Product> productOf(const at::Tensor& a, const at::Tensor& b, Added added);

/// Memory for a b alone.
at::Tensor emptyResult(const at::Tensor& a, const at::Tensor& b);

/// "2x16384x1024x4096 bf16": the batch, m, k and n.
std::string textOf(const Product& product);

} // namespace kiln::runtime
