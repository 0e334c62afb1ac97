// Of known words the one that a misspelt one was meant to be, for messages.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace kiln::ir {

/// "; did you mean 'lanes'?", or, where no word is near, "; known are a, b, c".
std::string hint(llvm::StringRef word, llvm::ArrayRef<llvm::StringRef> known);

} // namespace kiln::ir
