// kiln::printable: what texts of strangers may put on a terminal or into a comment.
#include "kiln/kiln.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace kiln {

namespace {

struct Character {
  char32_t code = 0;
  std::size_t bytes = 0; // 0: these bytes are no UTF-8
};

Character firstOf(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80)
    return {lead, 1};
  const std::size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes)
    return {};
  char32_t code = lead & (0x7fU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xc0) != 0x80)
      return {};
    code = code << 6 | (next & 0x3f);
  }
  constexpr std::array<char32_t, 5> least = {0, 0, 0x80, 0x800, 0x10000};
  const bool isSurrogate = code >= 0xd800 && code <= 0xdfff;
  return code < least[bytes] || isSurrogate || code > 0x10ffff ? Character{}
                                                               : Character{code, bytes};
}

/// What a terminal obeys, or what makes text look like other text: control characters, ends of
/// lines and paragraphs, changes of the direction of writing.
bool isObeyed(char32_t c) {
  return c < 0x20 || (c >= 0x7f && c <= 0x9f) || c == 0x61c || c == 0x200e || c == 0x200f ||
         (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

} // namespace

std::string printable(std::string_view text, bool lines) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const Character next = firstOf(text);
    const std::string_view bytes = text.substr(0, std::max<std::size_t>(next.bytes, 1));
    if (next.bytes > 0 &&
        (!isObeyed(next.code) || (lines && (next.code == '\n' || next.code == '\t'))))
      result += bytes;
    else
      for (char c : bytes)
        result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    text.remove_prefix(bytes.size());
  }
  return result;
}

} // namespace kiln
