// See Alignments.h.
#include "models/alphafold/features/Alignments.h"

#include "models/alphafold/features/Chemistry.h"
#include "models/common/Fail.h"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <unordered_set>

namespace kiln::alphafold {

namespace {

bool isUpper(char c) {
  return c >= 'A' && c <= 'Z';
}
bool isLower(char c) {
  return c >= 'a' && c <= 'z';
}
char toUpper(char c) {
  return isLower(c) ? char(c - 'a' + 'A') : c;
}

/// Counts the residues that a row has between columns.
class DeletionCount {
 public:
  void add() {
    if (count < std::numeric_limits<std::uint16_t>::max())
      ++count;
  }
  std::uint16_t take() { return std::exchange(count, 0); }

 private:
  std::uint16_t count = 0;
};

/// Letters, gaps and insertions of a line of a3m are appended to a row.
void appendA3m(std::string_view line, Alignment::Row& row, DeletionCount& deleted,
               const Lines& lines) {
  for (char c : line) {
    if (isUpper(c) || c == '-') {
      row.columns += c;
      row.deletions.push_back(deleted.take());
    } else if (isLower(c)) {
      deleted.add();
    } else if (c != '.' && c != ' ' && c != '\t') {
      lines.refuse(fmt::format("{} stands in a sequence; letters, '-' and '.' are allowed",
                               inQuotes({&c, 1})));
    }
  }
}

/// Columns that a query has make rows; what others have elsewhere are deletions.
Alignment byQuery(const std::vector<Sequence>& rows, const std::string& source) {
  Alignment result{source, {}};
  for (const Sequence& from : rows) {
    Alignment::Row& row = result.rows.emplace_back();
    row.name = from.name;
    DeletionCount deleted;
    for (std::size_t i = 0; i < from.letters.size(); ++i)
      if (rows[0].letters[i] != '-') {
        row.columns += from.letters[i];
        row.deletions.push_back(deleted.take());
      } else if (from.letters[i] != '-') {
        deleted.add();
      }
  }
  return result;
}

void appendStockholm(std::string_view letters, std::string& to, const Lines& lines) {
  for (char c : letters) {
    const char upper = toUpper(c);
    if (!isUpper(upper) && c != '-' && c != '.')
      lines.refuse(fmt::format("{} stands in a sequence; letters, '-' and '.' are allowed",
                               inQuotes({&c, 1})));
    to += c == '.' ? '-' : upper;
  }
}

} // namespace

std::uint8_t msaTypeOf(char letter) {
  return isUpper(letter) ? chemistry().typeOfLetter[letter - 'A'] : std::uint8_t(gapType);
}

std::vector<Sequence> parseFasta(const Text& text) {
  std::vector<Sequence> all;
  Lines lines(text);
  const auto checkLast = [&] {
    if (!all.empty() && all.back().letters.empty())
      lines.refuse(inQuotes(all.back().name) + " has no letters");
  };
  for (std::string_view line; lines.next(line);) {
    if (line.starts_with('>')) {
      checkLast();
      line.remove_prefix(1);
      all.push_back({std::string(nextWord(line)), {}});
      continue;
    }
    for (std::string_view word = nextWord(line); !word.empty(); word = nextWord(line)) {
      if (all.empty())
        lines.refuse(inQuotes(word) + " stands before the first '>'");
      for (char c : word) {
        if (!isUpper(toUpper(c)))
          lines.refuse(inQuotes({&c, 1}) + " is no letter of a residue");
        all.back().letters += toUpper(c);
      }
    }
  }
  checkLast();
  if (all.empty())
    lines.refuse("no sequence; a FASTA file has lines '>name' and letters below them");
  return all;
}

Alignment parseA3m(const Text& text) {
  Alignment result{text.name, {}};
  Lines lines(text);
  DeletionCount deleted;
  const auto checkLast = [&] {
    const auto& rows = result.rows;
    if (rows.empty())
      return;
    if (rows.back().columns.empty())
      lines.refuse(inQuotes(rows.back().name) + " has no residues");
    if (rows.back().columns.size() != rows[0].columns.size())
      lines.refuse(fmt::format("{} has {} columns and the first sequence {}: is the file cut off?",
                               inQuotes(rows.back().name), rows.back().columns.size(),
                               rows[0].columns.size()));
    deleted.take();
  };
  for (std::string_view line; lines.next(line);) {
    while (line.starts_with('\0'))
      line.remove_prefix(1);
    if (line.starts_with('#'))
      continue;
    if (line.starts_with('>')) {
      checkLast();
      line.remove_prefix(1);
      result.rows.push_back({std::string(nextWord(line)), {}, {}});
    } else if (result.rows.empty()) {
      if (!nextWord(line).empty())
        lines.refuse("no record has begun; an a3m file has lines '>name' and residues below them");
    } else {
      appendA3m(line, result.rows.back(), deleted, lines);
    }
  }
  checkLast();
  if (!result.rows.empty() && result.rows[0].columns.find('-') != std::string::npos)
    models::fail(ErrorKind::input,
                 "{}: the first sequence, {}, has a gap; it is the query, whose residues "
                 "are the columns",
                 text.name, inQuotes(result.rows[0].name));
  return result;
}

Alignment parseStockholm(const Text& text) {
  std::vector<Sequence> rows;
  std::unordered_map<std::string, std::size_t> places;
  Lines lines(text);
  bool isOpen = false, isDone = false;
  for (std::string_view line; !isDone && lines.next(line);) {
    if (!isOpen && line.starts_with("# STOCKHOLM 1.")) {
      isOpen = true;
      continue;
    }
    std::string_view rest = line;
    const std::string name(nextWord(rest));
    if (name.empty() || name.starts_with('#'))
      continue;
    if (!isOpen)
      lines.refuse(inQuotes(name) +
                   " comes before '# STOCKHOLM 1.0', which must be the first line");
    if (name == "//") {
      isDone = true;
      continue;
    }
    const auto [found, isNew] = places.emplace(name, rows.size());
    if (isNew)
      rows.push_back({name, {}});
    const std::string_view letters = nextWord(rest);
    if (letters.empty() || !nextWord(rest).empty())
      lines.refuse("a name and a sequence are expected, without blanks in either");
    appendStockholm(letters, rows[found->second].letters, lines);
  }
  if (!isDone && (isOpen || !rows.empty()))
    lines.refuse("the last line, '//', is missing: is the file cut off?");
  for (const Sequence& row : rows)
    if (row.letters.size() != rows[0].letters.size())
      models::fail(ErrorKind::input, "{}: {} has {} columns and {} has {}", text.name,
                   inQuotes(row.name), row.letters.size(), inQuotes(rows[0].name),
                   rows[0].letters.size());
  return byQuery(rows, text.name);
}

std::string otherQuery(const std::string& query, const Alignment& alignment) {
  if (alignment.rows.empty())
    return "it is empty";
  const std::string& columns = alignment.rows[0].columns;
  if (columns.size() != query.size())
    return fmt::format("its first sequence has {} residues, the chain {}", columns.size(),
                       query.size());
  for (std::size_t i = 0; i < query.size(); ++i) {
    const auto one = msaTypeOf(columns[i]), other = msaTypeOf(query[i]);
    if (one != other && one != unknownType && other != unknownType)
      return fmt::format("its first sequence has {} at residue {}, the chain {}", columns[i], i + 1,
                         query[i]);
  }
  return {};
}

Msa mergeAlignments(const std::string& query, std::span<const Alignment> alignments,
                    std::int64_t mostCells) {
  const auto length = static_cast<std::int64_t>(query.size());
  const Alignment::Row own{"query", query, std::vector<std::uint16_t>(query.size())};
  std::vector<const Alignment::Row*> kept = {&own};
  std::unordered_set<std::string_view> seen = {own.columns};
  const auto most = static_cast<std::size_t>(
      std::max(std::int64_t(1), mostCells / std::max<std::int64_t>(length, 1)));
  std::size_t longest = 0;
  for (const Alignment& alignment : alignments) {
    if (const std::string why = otherQuery(query, alignment); !why.empty())
      models::fail(ErrorKind::input, "{}: {}", alignment.source, why);
    longest = std::max(longest, alignment.rows.size());
  }
  for (std::size_t row = 1; row < longest; ++row)
    for (const Alignment& alignment : alignments)
      if (row < alignment.rows.size() && kept.size() < most &&
          seen.insert(alignment.rows[row].columns).second)
        kept.push_back(&alignment.rows[row]);
  const auto rows = static_cast<std::int64_t>(kept.size());
  Msa msa{Array<std::uint8_t>({rows, length}), Array<std::uint16_t>({rows, length})};
  for (std::int64_t row = 0; row < rows; ++row) {
    std::ranges::transform(kept[row]->columns, msa.types.at(row), msaTypeOf);
    std::ranges::copy(kept[row]->deletions, msa.deletions.at(row));
  }
  return msa;
}

} // namespace kiln::alphafold
