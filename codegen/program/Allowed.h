// How far a result may be from the exact one, by what noise (Noise.h) did to it.
#pragma once

#include "codegen/backend/LaunchPlan.h"
#include "dialect/Reference.h"

namespace kiln::program {

/// For all elements of a row, what is typical of that row, and of all. `noisy`: at least one.
ir::Tensor64 allowedErrors(const TensorInfo& info, const ir::Tensor64& exact,
                           llvm::ArrayRef<const ir::Tensor64*> noisy);

} // namespace kiln::program
