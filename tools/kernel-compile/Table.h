// Aligned tables. On a terminal that is narrower than a table its text wraps within its columns;
// where that is not enough, the columns that find no room follow below, beside the one that tells
// the rows apart. Pipes and files get one line a row.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace kiln::tool {

class Table {
 public:
  enum class Align { left, right };
  void column(std::string title, Align align = Align::right);
  void row(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }
  /// With a bold header; ends with a line feed. Folded to the terminal's width.
  std::string text() const;
  /// Folded to that many columns; 0: not at all.
  std::string text(std::size_t width) const;

 private:
  using Columns = std::vector<std::size_t>; // some of the table's
  std::size_t naturalWidth(std::size_t column) const;
  std::size_t leastWidth(std::size_t column) const;
  std::size_t leastWidth(const Columns& columns) const;
  std::size_t tellingColumn() const;
  std::vector<Columns> parts(std::size_t width) const;
  std::vector<std::size_t> widths(const Columns& columns, std::size_t width) const;
  std::string line(const std::vector<std::string>& cells, const Columns& columns,
                   const std::vector<std::size_t>& widths) const;

  std::vector<std::string> titles_;
  std::vector<Align> aligns_;
  std::vector<std::vector<std::string>> rows_;
};

/// Lines of at most `width` columns: broken at blanks, inside words that are longer.
std::vector<std::string> wrapped(std::string text, std::size_t width);

} // namespace kiln::tool
