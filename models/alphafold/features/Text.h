// Text files of biology as they come: plain or gzipped, with any line ends. What is refused is
// refused with file and line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace kiln::alphafold {

/// A file's name for messages, and what is in it.
struct Text {
  std::string name;
  std::string contents;
};

/// A file; if it is gzipped, by its first two bytes, what was packed. Throws Error(io), and
/// Error(input) if it is cut off, damaged or larger than 2 GiB.
Text readText(const std::filesystem::path& path);

/// Of gzipped bytes. Throws Error(input) likewise.
std::string unzip(std::string_view bytes, const std::string& name);

/// The lines of a text one after the other, without their ends.
class Lines {
 public:
  explicit Lines(const Text& text) : name(text.name), rest(text.contents) {}

  /// False at the end.
  bool next(std::string_view& line);
  std::int64_t number() const { return count; } // of the last line, from 1
  /// Throws Error(input): "file:line: text". What stands in the text should be printable.
  [[noreturn]] void refuse(const std::string& text) const;

 private:
  std::string name;
  std::string_view rest;
  std::int64_t count = 0;
};

/// The next word of a line, which is cut off from its front; empty at the end.
std::string_view nextWord(std::string_view& line);
/// Words at the back.
std::string_view lastWord(std::string_view& line);

/// A word for a message: printable, and no longer than it may be.
std::string inQuotes(std::string_view word);

} // namespace kiln::alphafold
