// Texts of strangers (names, labels, reasons) made safe to print: nothing in them can move a
// cursor, forge a line or turn the direction of writing.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace kiln {

/// Bytes of the UTF-8 character with which a text begins; 0: there is none. `point`: its number.
inline std::size_t utf8Length(std::string_view text, std::uint32_t& point) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  const std::size_t size = first < 0x80   ? 1
                           : first < 0xc2 ? 0
                           : first < 0xe0 ? 2
                           : first < 0xf0 ? 3
                           : first < 0xf5 ? 4
                                          : 0;
  if (size == 0 || size > text.size())
    return 0;
  point = size == 1 ? first : first & (0x7fU >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0U) != 0x80)
      return 0;
    point = point << 6U | (byte(i) & 0x3fU);
  }
  constexpr std::uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool isSurrogate = point >= 0xd800 && point <= 0xdfff;
  return point < least[size] || isSurrogate || point > 0x10ffff ? 0 : size;
}

/// Whether a character does something else than being seen.
inline bool isControl(std::uint32_t point) {
  return point < 0x20 || (point >= 0x7f && point < 0xa0) ||      // C0, delete, C1
         point == 0x61c || point == 0x200e || point == 0x200f || // directions
         (point >= 0x2028 && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069);
}

/// The text with control characters and what is no UTF-8 written as "\n", "\t" or "\x1b", byte by
/// byte. Those in `kept` stay: "\n" for messages of several lines.
inline std::string printable(std::string_view text, std::string_view kept = "") {
  std::string shown;
  while (!text.empty()) {
    std::uint32_t point = 0;
    std::size_t size = utf8Length(text, point);
    const bool stays =
        size > 0 && (!isControl(point) || (size == 1 && kept.find(text[0]) != kept.npos));
    size = size == 0 ? 1 : size;
    if (stays) {
      shown += text.substr(0, size);
    } else if (text[0] == '\n' || text[0] == '\t') {
      shown += text[0] == '\n' ? "\\n" : "\\t";
    } else {
      for (const char c : text.substr(0, size)) {
        char escape[8];
        std::snprintf(escape, sizeof escape, "\\x%02x", static_cast<unsigned char>(c));
        shown += escape;
      }
    }
    text.remove_prefix(size);
  }
  return shown;
}

} // namespace kiln
