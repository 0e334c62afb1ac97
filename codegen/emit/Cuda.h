// The CUDA text of a whole module of exit operations: what it was made with, then its kernels.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/raw_ostream.h"

namespace kiln {

/// `heading` becomes the first comment. The module has a launch plan (cu::kLaunchAttr); it stands
/// in the text, so that what is launched agrees with what was printed. An error at what kiln-place
/// has not seen.
llvm::LogicalResult printCuda(mlir::ModuleOp module, llvm::StringRef heading,
                              llvm::raw_ostream& out);

} // namespace kiln
