// Texts of strangers, before and after MLIR's parser: nesting that would use up the stack, and
// names that are to stand in generated text.
#pragma once

#include "mlir/IR/BuiltinOps.h"

#include <string_view>

namespace kiln::program {

/// Throws Error(input) for brackets, or aliases within aliases, that are nested too deep.
void checkNesting(std::string_view text, std::string_view name);

/// Fails at a function, kernel, argument or result whose name is long, or has characters that a
/// terminal obeys, that end a comment or are no UTF-8. What is left is safe to show; where it has
/// to be a word of C++, or a file's name, it is made into one there.
mlir::LogicalResult checkNames(mlir::ModuleOp module);

} // namespace kiln::program
