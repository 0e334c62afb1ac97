// See Table.h.
#include "tools/kernel-compile/Table.h"

#include "kiln/kiln.h"
#include "tools/kernel-compile/Terminal.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <sstream>

namespace kiln::tool {

namespace {

constexpr std::size_t kGap = 2;
constexpr std::size_t kLeastText = 18;   // narrower columns of text are hard to read
constexpr std::size_t kLongestWord = 36; // longer ones may be broken

bool isInsideCharacter(char byte) { // of UTF-8
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

std::size_t widthOf(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char byte) { return !isInsideCharacter(byte); }));
}

/// Where the first `width` characters end.
std::size_t bytesOf(std::string_view text, std::size_t width) {
  std::size_t at = 0;
  for (std::size_t shown = 0; at < text.size(); ++at)
    if (!isInsideCharacter(text[at]) && shown++ == width)
      break;
  return at;
}

std::size_t longestWord(const std::string& text) {
  std::size_t longest = 0;
  std::istringstream words(text);
  for (std::string word; words >> word;)
    longest = std::max(longest, widthOf(word));
  return longest;
}

/// Where a line of at most `room` bytes ends: at the last blank that does not part `rows = 2`.
/// None: there is no such blank behind a word.
std::size_t lastBreak(std::string_view text, std::size_t room) {
  const std::size_t first = text.find_first_not_of(' ');
  for (std::size_t at = text.rfind(' ', room); at != text.npos && at > first;
       at = text.rfind(' ', at - 1))
    if (text[at - 1] != '=' && text.substr(at + 1, 1) != "=")
      return at;
  return text.npos;
}

std::string padded(const std::string& text, std::size_t width, Table::Align align) {
  const std::string blanks(width - std::min(width, widthOf(text)), ' ');
  return align == Table::Align::left ? text + blanks : blanks + text;
}

} // namespace

std::vector<std::string> wrapped(std::string text, std::size_t width) {
  std::vector<std::string> lines;
  while (widthOf(text) > width) {
    const std::size_t room = std::max<std::size_t>(bytesOf(text, width), 1);
    const std::size_t end = std::min(lastBreak(text, room), room);
    lines.push_back(text.substr(0, end));
    lines.back().erase(lines.back().find_last_not_of(' ') + 1);
    text.erase(0, std::min(text.size(), text.find_first_not_of(' ', end)));
  }
  lines.push_back(std::move(text));
  return lines;
}

void Table::column(std::string title, Align align) {
  titles_.push_back(std::move(title));
  aligns_.push_back(align);
}

void Table::row(std::vector<std::string> cells) {
  cells.resize(titles_.size());
  for (std::string& cell : cells)
    cell = printable(cell);
  rows_.push_back(std::move(cells));
}

std::size_t Table::naturalWidth(std::size_t column) const {
  std::size_t width = widthOf(titles_[column]);
  for (const auto& row : rows_)
    width = std::max(width, widthOf(row[column]));
  return width;
}

/// Numbers are never broken, words hardly ever.
std::size_t Table::leastWidth(std::size_t column) const {
  const std::size_t natural = naturalWidth(column);
  if (aligns_[column] == Align::right)
    return natural;
  std::size_t word = widthOf(titles_[column]);
  for (const auto& row : rows_)
    word = std::max(word, longestWord(row[column]));
  return std::min(natural, std::clamp(word, kLeastText, kLongestWord));
}

std::size_t Table::leastWidth(const Columns& columns) const {
  std::size_t width = 0;
  for (std::size_t column : columns)
    width += leastWidth(column) + (width == 0 ? 0 : kGap);
  return width;
}

/// Of the columns of text that the table begins with, the one with the most different cells.
std::size_t Table::tellingColumn() const {
  std::size_t telling = 0, most = 0;
  for (std::size_t c = 0; c < titles_.size() && aligns_[c] == Align::left; ++c) {
    std::set<std::string> cells;
    for (const auto& row : rows_)
      cells.insert(row[c]);
    if (cells.size() > most)
      telling = c, most = cells.size();
  }
  return telling;
}

/// The columns that stand beside each other; each part but the first begins with the column that
/// tells the rows apart.
std::vector<Table::Columns> Table::parts(std::size_t width) const {
  std::vector<Columns> parts(1);
  for (std::size_t column = 0; column < titles_.size(); ++column) {
    Columns more = parts.back();
    more.push_back(column);
    const std::size_t repeated = parts.size() > 1 ? 1 : 0;
    if (width == 0 || leastWidth(more) <= width || parts.back().size() <= repeated)
      parts.back() = std::move(more);
    else
      parts.push_back({tellingColumn(), column});
  }
  return parts;
}

/// The widest column of text gives way first.
std::vector<std::size_t> Table::widths(const Columns& columns, std::size_t width) const {
  std::vector<std::size_t> widths;
  for (std::size_t column : columns)
    widths.push_back(naturalWidth(column));
  const auto total = [&] {
    return std::accumulate(widths.begin(), widths.end(), kGap * (columns.size() - 1));
  };
  std::vector<std::size_t> least;
  for (std::size_t column : columns)
    least.push_back(leastWidth(column));
  while (width > 0 && total() > width) {
    std::size_t widest = columns.size();
    for (std::size_t i = 0; i < columns.size(); ++i)
      if (widths[i] > least[i] && (widest == columns.size() || widths[i] > widths[widest]))
        widest = i;
    if (widest == columns.size())
      break; // the terminal is narrower than one word
    --widths[widest];
  }
  return widths;
}

/// One row, as many lines as its longest cell needs.
std::string Table::line(const std::vector<std::string>& cells, const Columns& columns,
                        const std::vector<std::size_t>& widths) const {
  std::vector<std::vector<std::string>> folded;
  std::size_t lines = 1;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    folded.push_back(wrapped(cells[columns[i]], widths[i]));
    lines = std::max(lines, folded.back().size());
  }
  std::string out;
  for (std::size_t l = 0; l < lines; ++l) {
    std::string text;
    for (std::size_t i = 0; i < columns.size(); ++i)
      text += (i == 0 ? "" : std::string(kGap, ' ')) +
              padded(l < folded[i].size() ? folded[i][l] : "", widths[i], aligns_[columns[i]]);
    text.erase(text.find_last_not_of(' ') + 1);
    out += (l == 0 ? "" : "\n") + text;
  }
  return out;
}

std::string Table::text() const {
  return text(columns());
}

std::string Table::text(std::size_t width) const {
  std::string out;
  for (const Columns& part : parts(width)) {
    const std::vector<std::size_t> widths = this->widths(part, width);
    out += (out.empty() ? "" : "\n") + styled(Style::bold, line(titles_, part, widths)) + "\n";
    for (const auto& row : rows_)
      out += line(row, part, widths) + "\n";
  }
  return out;
}

} // namespace kiln::tool
