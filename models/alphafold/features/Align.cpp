// See Align.h.
#include "models/alphafold/features/Align.h"

#include "models/common/Fail.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

namespace kiln::alphafold {

namespace {

constexpr int matchScore = 5, mismatchScore = -4, openScore = -6, extendScore = -1;
constexpr int never = std::numeric_limits<int>::min() / 2;

// The three states of an alignment's last column.
enum State : std::uint8_t { paired, skipsWhole, skipsPart };
constexpr int states = 3;

int pairScore(char a, char b) {
  return a == 'X' || b == 'X' ? 0 : a == b ? matchScore : mismatchScore;
}

/// Scores of one row (a letter of `part`) and, of every cell and state, the state before.
class Table {
 public:
  Table(std::string_view whole, std::string_view part)
      : whole(whole), part(part), width(whole.size() + 1),
        before((part.size() + 1) * width, {paired, paired, paired}), row(width) {
    for (std::size_t j = 0; j < width; ++j)
      row[j] = {j == 0 ? 0 : never, j == 0 ? never : 0, never}; // letters before `part` are free
    for (std::size_t j = 1; j < width; ++j)
      before[j] = {paired, j == 1 ? paired : skipsWhole, paired};
    for (std::size_t i = 1; i <= part.size(); ++i)
      fillRow(i);
  }

  std::vector<std::int64_t> places() const {
    std::vector<std::int64_t> result(part.size(), -1);
    std::size_t i = part.size(), j = whole.size();
    auto state = static_cast<State>(std::ranges::max_element(row[j]) - row[j].begin());
    while (i > 0) {
      const State previous = before[i * width + j][state];
      if (state == paired)
        result[i - 1] = static_cast<std::int64_t>(j - 1);
      i -= state == skipsWhole ? 0 : 1;
      j -= state == skipsPart ? 0 : 1;
      state = previous;
    }
    return result;
  }

 private:
  using Cell = std::array<int, states>;

  /// The best way into a state: from each of the three with what that costs.
  static std::pair<int, State> best(const Cell& from, Cell costs) {
    std::size_t choice = 0;
    for (std::size_t state = 1; state < states; ++state)
      if (from[state] + costs[state] > from[choice] + costs[choice])
        choice = state;
    return {std::max(from[choice] + costs[choice], never), static_cast<State>(choice)};
  }

  void fillRow(std::size_t i) {
    Cell diagonal = row[0];
    const int opened = openScore + extendScore;
    const bool isLast = i == part.size(); // letters behind `part` are free
    std::tie(row[0][skipsPart], before[i * width][skipsPart]) =
        best(row[0], {opened, opened, extendScore});
    row[0][paired] = row[0][skipsWhole] = never;
    for (std::size_t j = 1; j < width; ++j) {
      const Cell above = row[j];
      auto& from = before[i * width + j];
      const int pair = pairScore(part[i - 1], whole[j - 1]);
      std::tie(row[j][paired], from[paired]) = best(diagonal, {pair, pair, pair});
      std::tie(row[j][skipsPart], from[skipsPart]) = best(above, {opened, opened, extendScore});
      std::tie(row[j][skipsWhole], from[skipsWhole]) =
          best(row[j - 1], isLast ? Cell{0, 0, 0} : Cell{opened, extendScore, opened});
      diagonal = above;
    }
  }

  std::string_view whole, part;
  std::size_t width;
  std::vector<std::array<State, states>> before;
  std::vector<Cell> row;
};

} // namespace

std::vector<std::int64_t> placesIn(std::string_view whole, std::string_view part) {
  constexpr double mostCells = 1e8;
  if (const std::size_t start = whole.find(part); start != std::string_view::npos) {
    std::vector<std::int64_t> result(part.size());
    std::iota(result.begin(), result.end(), static_cast<std::int64_t>(start));
    return result;
  }
  if (double(whole.size()) * double(part.size()) > mostCells)
    models::fail(ErrorKind::input,
                 "sequences of {} and {} residues are too long to be aligned; the product "
                 "of their lengths may be {:.0e}",
                 whole.size(), part.size(), mostCells);
  return Table(whole, part).places();
}

} // namespace kiln::alphafold
