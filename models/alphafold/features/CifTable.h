// Tables of an mmCIF file, and refusals that name where they stand.
#pragma once

#include "models/alphafold/features/CifFile.h"
#include "models/alphafold/features/Text.h"

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kiln::alphafold {

class CifTable;

/// A number in decimal notation, all of the text; with an uncertainty such as 1.86(2) or without.
std::optional<double> parseNumber(std::string_view text);

/// A row of a table. Columns count in the order in which they were asked for.
class CifRow {
 public:
  CifRow(const CifTable& table, std::size_t row) : table(&table), row(row) {}

  /// Is there a value, neither '?' (unknown) nor '.' (none)?
  bool has(std::size_t column) const;
  std::string text(std::size_t column) const; // empty if there is none
  double number(std::size_t column) const;    // throws Error(input) for what is no finite number
  std::int64_t integer(std::size_t column) const;
  [[noreturn]] void refuse(const std::string& text) const;

 private:
  const CifTable* table;
  std::size_t row;
};

class CifTable {
 public:
  struct Iterator {
    const CifTable& table;
    std::size_t row;
    CifRow operator*() const { return {table, row}; }
    Iterator& operator++() {
      ++row;
      return *this;
    }
    bool operator!=(const Iterator& other) const { return row != other.row; }
  };
  Iterator begin() const { return {*this, 0}; }
  Iterator end() const { return {*this, rows}; }

 private:
  friend class CifRow;
  friend class CifDocument;

  std::string file, name;
  std::vector<std::string> columns;
  std::vector<const std::string*> first; // of each column; nullptr: the table does not have it
  std::size_t rows = 0, stride = 0;
  int line = 0; // in which the table begins
};

class CifDocument {
 public:
  /// Throws Error(input) with the line for what is no CIF.
  explicit CifDocument(const Text& text);

  /// The columns of a category such as "_atom_site.". Those whose names begin with '?' may be
  /// missing. Throws Error(input) if another is, or if there are fewer rows than `least`; a
  /// category that is not there has none. Valid as long as the document.
  CifTable table(const std::string& category, std::initializer_list<const char*> columns,
                 std::size_t least) const;
  std::vector<std::string> values(const std::string& tag) const;
  std::string value(const std::string& tag) const; // the first, or empty

  [[noreturn]] void refuse(const std::string& text) const;

 private:
  std::string name;
  std::unique_ptr<CifFile> file;
};

} // namespace kiln::alphafold
