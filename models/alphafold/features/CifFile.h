// The values of a CIF file as gemmi reads them. C++17, like gemmi 0.5, whose headers Clang refuses
// in C++20; nothing else includes them.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace kiln::alphafold {

/// The values of one tag: rows of them, each `stride` behind the one before.
struct CifColumn {
  const std::string* first = nullptr; // nullptr: the file does not have the tag
  std::size_t rows = 0, stride = 0;
  int line = 0; // in which its loop or its only value begins
};

class CifFile {
 public:
  /// Throws std::exception with name, line and column for what is no CIF.
  CifFile(const std::string& contents, const std::string& name);
  ~CifFile();
  CifFile(const CifFile&) = delete;
  CifFile& operator=(const CifFile&) = delete;

  /// Is there a block of data? The first with atoms is meant, or else the first.
  bool hasBlock() const;
  /// As long as the file lives; none without a block.
  CifColumn column(const std::string& tag) const;

  static bool isNull(const std::string& value); // '?' or '.'
  static std::string unquoted(const std::string& value);

 private:
  struct Parsed;
  std::unique_ptr<Parsed> parsed;
};

} // namespace kiln::alphafold
