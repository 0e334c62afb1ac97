// How the operands of one call lie to each other: the shape that comes of all, its leading
// dimensions in groups that every operand either has or repeats, and a bit mask of them for each.
#pragma once

#include "kiln/fuse.h"
#include "runtime/Key.h"

#include <ATen/core/DimVector.h>
#include <span>

namespace kiln::fusion {

/// Bit i: the group i of leading dimensions; the last bit: the columns.
using Mask = std::uint32_t;
inline constexpr unsigned maxGroups = 6;
inline constexpr unsigned maxOperands = 32; // one bit each

struct Space {
  /// Throws Error(input) for shapes that do not fit each other.
  Space(std::span<const at::Tensor* const> operands, const std::string& name);

  at::DimVector shape;                              // of all, of at least one dimension
  unsigned groups = 1;                              // of leading dimensions
  std::array<std::int64_t, maxGroups> groupSizes{}; //
  std::int64_t width = 1;                           // of the last dimension
  std::array<Mask, maxOperands> masks{};            // of each operand
  at::SmallVector<unsigned, at::kDimVectorStaticSize>
      groupOf; // each leading dimension of the shape

  std::int64_t apart = 0; // elements between the blocks of tensors whose blocks lie apart
  std::uint32_t operandsApart = 0, resultsApart = 0; // which do, as bits

  Mask columns() const { return Mask(1) << groups; }
  Mask full() const { return (Mask(2) << groups) - 1; }
  /// Rows of the inner of two groups, which lie densely where the outer ones lie apart: the heads
  /// of a token. With one group each row is a block.
  std::int64_t rowsOfBlock() const { return groups == 2 ? groupSizes[1] : 1; }
  /// Finds the tensors that are read or written where they lie though their blocks lie apart, at
  /// one distance for all: those that are chunks of the columns of another tensor.
  void findBlocksApart(std::span<const at::Tensor* const> operands,
                       std::span<const at::Tensor> results);
  /// Rows of elementwise math may be any: long ones of one width for most sizes, so that few
  /// kernels serve many shapes. Does nothing where an operand is broadcast along a part of the
  /// dimensions.
  void takeUsualRows(std::size_t operands);
  /// The sizes of a tensor that has these groups, with 1 for those that it has not.
  at::DimVector sizesOf(Mask mask) const;
  std::int64_t rows() const;
  bool isEmpty() const { return width == 0 || rows() == 0; }
};

/// Elements from one block of so many rows, which lie densely, to the next, all dimensions before
/// it taken together; 0: these tell more than one distance, blocks overlap, or vectors of 16 bytes
/// cannot be read.
std::int64_t distanceOfBlocks(const at::Tensor& tensor, std::int64_t rows);

/// What a kernel is compiled for, beside the function.
struct Signature {
  static constexpr std::size_t first = 3, perWord = 4; // of the operands
  std::array<std::uint64_t, first + maxOperands / perWord> words{};
  friend bool operator==(const Signature&, const Signature&) = default;
  std::uint64_t hash() const;
};

/// An operand as a kernel knows it.
struct OperandKind {
  DType dtype = DType::f32;
  Mask mask = 0;
  bool wantsGradient = false;
  bool isApart = false; // its blocks
};

struct Kind {
  unsigned groups = 1;
  Place place = Place::gpu;
  std::uint8_t device = 0; // of the place
  std::int64_t width = 1;
  std::uint8_t rowClass = 0;      // number of bits of the row count
  std::int64_t apart = 0;         // elements between blocks that lie apart
  std::int64_t innerRows = 0;     // of the innermost of several groups; 0: told at a launch
  std::uint32_t resultsApart = 0; // results whose blocks do, as bits
  at::SmallVector<OperandKind, 8> operands;

  Signature signature() const;
  /// Whether a gradient is summed along the innermost group and the columns, but not along all: its
  /// sums of rows are summed as columns are, by a kernel that knows how many there are.
  bool sumsInnerGroup() const;
  Mask columns() const { return Mask(1) << groups; }
  Mask full() const { return (Mask(2) << groups) - 1; }
};

} // namespace kiln::fusion
