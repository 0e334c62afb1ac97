// See Hits.h.
#include "models/alphafold/features/Hits.h"

#include "models/alphafold/features/CifTable.h"
#include "models/common/Fail.h"

#include <algorithm>
#include <charconv>

namespace kiln::alphafold {

namespace {

/// The sequence of one side of a block, which comes in pieces: number of the first residue,
/// letters, number of the last, length of the whole.
struct Side {
  std::string letters;
  std::vector<std::int64_t> places;
  std::int64_t next = 0; // residue number of the next letter, from 1; 0: none came yet
};

class HitReader {
 public:
  explicit HitReader(const Text& text) : lines(text) {}

  std::vector<Hit> read() {
    for (std::string_view line; lines.next(line);) {
      if (line.starts_with("No ") && isNumber(line.substr(3)))
        begin();
      else if (isInBlock)
        readLine(line);
    }
    finish();
    return std::move(hits);
  }

 private:
  static bool isNumber(std::string_view text) {
    const std::string_view word = nextWord(text);
    return !word.empty() &&
           std::ranges::all_of(word, [](char c) { return c >= '0' && c <= '9'; }) &&
           nextWord(text).empty();
  }

  void begin() {
    finish();
    isInBlock = true;
    hits.emplace_back();
    query = hit = {};
    hasProbs = false;
  }

  void finish() {
    if (!isInBlock)
      return;
    Hit& last = hits.back();
    const auto number = hits.size();
    if (last.name.empty())
      lines.refuse(fmt::format("hit {} ends here without a name ('>1ABC_A ...')", number));
    if (!hasProbs)
      lines.refuse(
          fmt::format("hit {}, {}, ends here without Sum_probs", number, inQuotes(last.name)));
    if (query.letters.empty() || query.letters.size() != hit.letters.size())
      lines.refuse(fmt::format("hit {}, {}, ends here with {} columns of the query and {} of the "
                               "template; they must be as many: is the file cut off?",
                               number, inQuotes(last.name), query.letters.size(),
                               hit.letters.size()));
    last.query = std::move(query.letters);
    last.hit = std::move(hit.letters);
    last.queryPlace = std::move(query.places);
    last.hitPlace = std::move(hit.places);
    isInBlock = false;
  }

  void readLine(std::string_view line) {
    Hit& last = hits.back();
    if (line.starts_with('>')) {
      line.remove_prefix(1);
      last.name = nextWord(line);
    } else if (line.starts_with("Probab=")) {
      readProbs(line);
    } else if (line.starts_with("Q ") || line.starts_with("T ")) {
      std::string_view rest = line.substr(2);
      const std::string_view name = nextWord(rest);
      if (name != "Consensus" && !name.starts_with("ss_"))
        append(rest, line[0] == 'Q' ? query : hit);
    }
  }

  void readProbs(std::string_view line) {
    constexpr std::string_view key = "Sum_probs=";
    while (true) {
      const std::string_view word = nextWord(line);
      if (word.empty())
        lines.refuse("there is no Sum_probs=");
      if (!word.starts_with(key))
        continue;
      const auto value = parseNumber(word.substr(key.size()));
      if (!value)
        lines.refuse(inQuotes(word) + ": a number is needed");
      hits.back().sumProbs = *value;
      hasProbs = true;
      return;
    }
  }

  std::int64_t count(std::string_view word) const {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size() || value < 1)
      lines.refuse(inQuotes(word) + " is no number of a residue (1, 2, ...)");
    return value;
  }

  void append(std::string_view rest, Side& side) const {
    const std::string_view whole = lastWord(rest), last = lastWord(rest), letters = lastWord(rest),
                           first = lastWord(rest);
    if (first.empty() || whole.size() < 3 || whole.front() != '(' || whole.back() != ')')
      lines.refuse("first residue, letters, last residue and (length) are expected");
    const std::int64_t length = count(whole.substr(1, whole.size() - 2)), begin = count(first);
    if (side.next != 0 && begin != side.next)
      lines.refuse(fmt::format("the piece begins with residue {}, the one before ended with {}",
                               begin, side.next - 1));
    side.next = begin;
    for (char c : letters) {
      const bool isLetter = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
      if (!isLetter && c != '-' && c != '.')
        lines.refuse(inQuotes({&c, 1}) + " is neither a letter nor a gap");
      side.letters += !isLetter ? '-' : c >= 'a' ? char(c - 'a' + 'A') : c;
      side.places.push_back(isLetter ? side.next++ - 1 : -1);
    }
    if (side.next - 1 != count(last) || side.next - 1 > length)
      lines.refuse(fmt::format("the piece has letters to residue {}, it says {} of {}",
                               side.next - 1, count(last), length));
  }

  Lines lines;
  std::vector<Hit> hits;
  Side query, hit;
  bool isInBlock = false, hasProbs = false;
};

} // namespace

std::string Hit::structure() const {
  std::string id = name.substr(0, name.find('_'));
  std::ranges::transform(id, id.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  return id;
}

std::string Hit::chain() const {
  const std::size_t split = name.find('_');
  return split == std::string::npos ? std::string() : name.substr(split + 1);
}

std::int64_t Hit::alignedColumns() const {
  std::int64_t columns = 0;
  for (std::size_t i = 0; i < queryPlace.size(); ++i)
    columns += queryPlace[i] >= 0 && hitPlace[i] >= 0 ? 1 : 0;
  return columns;
}

std::vector<Hit> parseHhr(const Text& text) {
  return HitReader(text).read();
}

} // namespace kiln::alphafold
