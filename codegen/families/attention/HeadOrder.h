// The dimensions that heads are counted through, and where heads lie in a buffer: the leading ones,
// the heads of keys, and the heads of queries that share one of these.
#pragma once

#include "codegen/families/attention/Attention.h"
#include "codegen/family/Access.h"

namespace kiln::attention {

class HeadOrder {
 public:
  using Dimensions = llvm::SmallVector<size_t>; // some of them, the outermost first

  /// `byBias`: those that have a bias of their own come first, then those that share one, or none.
  HeadOrder(const Program& program, llvm::ArrayRef<const family::BufferInfo*> inputs, bool byBias);

  int64_t group() const { return groupSize; } // heads of queries that share one of keys
  const Dimensions& all() const { return order; }
  Dimensions ofKeys() const;
  /// By bias: those that count biases, and those that count the heads which share one.
  Dimensions own() const;
  Dimensions shared() const;

  llvm::SmallVector<Extent> sizes(llvm::ArrayRef<size_t> chosen) const;
  /// A head's first element in a buffer whose heads are the query's, or the key's, or broadcast.
  family::Access access(const family::BufferInfo& buffer, llvm::ArrayRef<size_t> chosen) const;
  /// The same where strides along the query's dimensions of heads are known.
  family::Access access(const family::BufferInfo& buffer,
                        llvm::ArrayRef<family::Stride> ofHeads) const;
  /// A head's number, row-major in the order of the query's dimensions.
  family::Access numbering(const family::BufferInfo& query) const;

 private:
  struct Dimension {
    Extent extent;
    bool isShared; // by one bias
  };
  template <class Is> Dimensions where(Is is) const;
  family::Access access(const family::BufferInfo& buffer,
                        llvm::SmallVector<family::Stride> byDimension, bool ofKeys,
                        llvm::ArrayRef<size_t> chosen) const;

  int64_t keyHeads, groupSize;
  llvm::SmallVector<Dimension> dimensions;
  Dimensions order;
};

/// The step along dimension `d`; 0 where the buffer has size 1.
family::Stride strideAlong(const family::BufferInfo& buffer, size_t d);

} // namespace kiln::attention
