// Tensors of a function in memory: their layouts, types and names.
#pragma once

#include "codegen/backend/LaunchPlan.h"
#include "dialect/Kiln.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <set>

namespace kiln::family {

/// A tensor in memory, known to the launch plan by its name.
struct BufferInfo {
  TensorInfo tensor;      // strides filled in where they are constants, else -1
  bool contiguous = true; // then a stride of -1 is the product of the inner sizes
};

/// Row-major strides for the shape of `tensor`, -1 where they depend on run-time sizes.
void makeContiguous(TensorInfo& tensor);

/// A tensor in memory, not named yet; `extent` tells the size along a dimension.
BufferInfo describeBuffer(mlir::Value value, ir::LayoutAttr layout,
                          llvm::function_ref<Extent(int64_t)> extent);

DType dtypeOf(mlir::Type element);
/// Bytes of a tensor; run-time sizes count as a typical number of rows.
double bytesOf(mlir::Value value);

/// What a kernel's entry point is called. Its prefix keeps it apart from C++, from CUDA's built-in
/// functions and from the device library.
std::string entryName(llvm::StringRef kernel);
/// The name that the attributes of an argument or result give it.
llvm::StringRef nameAttr(mlir::DictionaryAttr attributes, llvm::StringRef fallback);

/// Names of buffers: each is given once, with a number behind it if it was wanted before, or is
/// that of a kernel's partial sums.
class BufferNames {
 public:
  explicit BufferNames(mlir::func::FuncOp function);
  std::string unique(llvm::StringRef wanted);

 private:
  std::set<std::string> given;
};

} // namespace kiln::family
