// Tensors in fp64 and the interpreter that gives every function its reference result.
// Casts between float types do nothing here: the reference is the exact function of the inputs.
#pragma once

#include "mlir/IR/Operation.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace kiln::ir {

/// Leaves numbers as they are in memory until somebody sets them.
template <class T> struct Unset : std::allocator<T> {
  Unset() = default;
  template <class U> Unset(const Unset<U>&) {}
  template <class U> void construct(U* at) { ::new (static_cast<void*>(at)) U; }
  template <class U, class... Args> void construct(U* at, Args&&... args) {
    ::new (static_cast<void*>(at)) U(std::forward<Args>(args)...);
  }
};

/// A dense row-major tensor; integers and booleans are held as their value.
struct Tensor64 {
  Tensor64() = default;
  Tensor64(const Tensor64&) = default;
  Tensor64& operator=(const Tensor64&) = default;
  Tensor64(Tensor64&&) noexcept = default; // a vector of some grows without copies
  Tensor64& operator=(Tensor64&&) noexcept = default;

  llvm::SmallVector<int64_t> shape;
  std::vector<double, Unset<double>> data;

  int64_t size() const { return static_cast<int64_t>(data.size()); }
  int64_t width() const { return shape.empty() ? 1 : shape.back(); }
  int64_t rows() const { return width() ? size() / width() : 0; }
  const double* row(int64_t r) const { return data.data() + r * width(); }
  double* row(int64_t r) { return data.data() + r * width(); }
};

Tensor64 makeTensor64(llvm::ArrayRef<int64_t> shape, double fill = 0.0);
/// For who sets all numbers.
Tensor64 unsetTensor64(llvm::ArrayRef<int64_t> shape);

/// Which element of a result each element of a tensor goes to, where dimensions are reduced.
struct Reduced {
  Reduced(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> dims);
  int64_t placeOf(int64_t element) const;
  /// Calls add(place, element) for all elements, of each place in order; some places at the same
  /// time, where their elements lie together.
  void each(llvm::function_ref<void(int64_t place, int64_t element)> add) const;

  llvm::SmallVector<int64_t> shape{}; // of the result
  int64_t terms = 1;                  // of each of its elements

 private:
  llvm::SmallVector<int64_t> extents, strides;
};

/// Runs a block (a function's or a kernel's body) on `inputs` and returns the operands of its
/// terminator. `afterEach` may change every result before it is used. Fails with an error at an
/// operation that has no reference.
llvm::FailureOr<std::vector<Tensor64>>
evaluate(mlir::Block& block, llvm::ArrayRef<const Tensor64*> inputs,
         llvm::function_ref<void(mlir::Value, Tensor64&)> afterEach = {});
llvm::FailureOr<std::vector<Tensor64>>
evaluate(mlir::Block& block, llvm::ArrayRef<Tensor64> inputs,
         llvm::function_ref<void(mlir::Value, Tensor64&)> afterEach = {});

} // namespace kiln::ir
