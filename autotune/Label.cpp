// See Label.h.
#include "autotune/Label.h"

#include <algorithm>
#include <array>

namespace kiln::autotune {
namespace {

/// Calls `visit` with each part of a text between separators.
template <class Visit> void eachPart(std::string_view text, char separator, Visit visit) {
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(separator));
    visit(part);
    text.remove_prefix(std::min(text.size(), part.size() + 1));
  }
}

bool saysMoreThanTheOp(std::string_view part) {
  constexpr std::array<std::string_view, 5> words{"bf16", "f16", "f32", "backward", "forward"};
  return part.empty() || (part[0] >= '0' && part[0] <= '9') ||
         std::ranges::find(words, part) != words.end();
}

} // namespace

std::string opOfLabel(std::string_view label) {
  const std::string_view word = label.substr(0, label.find(' '));
  std::string op;
  eachPart(word, '_', [&](std::string_view part) {
    if (!saysMoreThanTheOp(part))
      op.append(op.empty() ? "" : "_").append(part);
  });
  return op.empty() ? std::string(word) : op;
}

bool isBackwardLabel(std::string_view label) {
  bool found = false;
  eachPart(label, ' ', [&](std::string_view word) {
    eachPart(word, '_', [&](std::string_view part) { found |= part == "backward"; });
  });
  return found;
}

} // namespace kiln::autotune
