// See Nearest.h.
#include "dialect/Nearest.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace kiln::ir {

std::string hint(llvm::StringRef word, llvm::ArrayRef<llvm::StringRef> known) {
  auto distance = [&](llvm::StringRef other) { return word.edit_distance(other); };
  const auto* nearest = std::min_element(known.begin(), known.end(),
                                         [&](auto a, auto b) { return distance(a) < distance(b); });
  // A third of the letters wrong is still the word; two that changed places count as two.
  if (nearest != known.end() && distance(*nearest) <= (nearest->size() + 2) / 3)
    return "; did you mean '" + nearest->str() + "'?";
  return "; known are " + llvm::join(known, ", ");
}

} // namespace kiln::ir
