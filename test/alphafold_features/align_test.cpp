// placesIn(): against all alignments of short sequences, and what it is for.
#include "Helpers.h"

#include "models/alphafold/features/Align.h"

#include <algorithm>
#include <numeric>

namespace kiln::alphafold::test {

namespace {

using Places = std::vector<std::int64_t>;

int pairOf(char a, char b) {
  return a == 'X' || b == 'X' ? 0 : a == b ? 5 : -4;
}

/// The score of an alignment by its definition: pairs, and each gap inside -6 - 1 a letter. Between
/// two pairs, letters that both sides leave out are two gaps.
int scoreOf(std::string_view whole, std::string_view part, const Places& places) {
  int score = 0;
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs; // places in whole and part
  for (std::size_t i = 0; i < part.size(); ++i)
    if (places[i] >= 0) {
      score += pairOf(whole[places[i]], part[i]);
      pairs.emplace_back(places[i], i);
    }
  const auto gap = [](std::int64_t letters) { return letters > 0 ? -6 - int(letters) : 0; };
  for (std::size_t i = 1; i < pairs.size(); ++i)
    score += gap(pairs[i].first - pairs[i - 1].first - 1) +
             gap(pairs[i].second - pairs[i - 1].second - 1);
  // Letters of `whole` at the ends are free, letters of `part` are not.
  const std::int64_t length = std::ssize(part);
  if (pairs.empty())
    return gap(length);
  return score + gap(pairs.front().second) + gap(length - 1 - pairs.back().second);
}

void eachAlignment(std::size_t whole, std::size_t part, Places& places, std::int64_t from,
                   const auto& use) {
  if (places.size() == part)
    return use(places);
  places.push_back(-1);
  eachAlignment(whole, part, places, from, use);
  for (auto place = from; place < std::int64_t(whole); ++place) {
    places.back() = place;
    eachAlignment(whole, part, places, place + 1, use);
  }
  places.pop_back();
}

TEST(Align, IsAsGoodAsTheBestOfAllAlignments) {
  Random random(1);
  const auto word = [&](std::size_t length) {
    std::string letters;
    while (letters.size() < length)
      letters += "ACDX"[random.below(4)];
    return letters;
  };
  for (int trial = 0; trial < 300; ++trial) {
    const std::string whole = word(1 + random.below(6)), part = word(1 + random.below(5));
    int best = -1000;
    Places places;
    eachAlignment(whole.size(), part.size(), places, 0,
                  [&](const Places& one) { best = std::max(best, scoreOf(whole, part, one)); });
    const Places found = placesIn(whole, part);
    Places paired;
    std::ranges::copy_if(found, std::back_inserter(paired), [](auto p) { return p >= 0; });
    EXPECT_TRUE(std::ranges::is_sorted(paired, std::less_equal())) << whole << ' ' << part;
    if (whole.find(part) == std::string::npos) { // else it is taken as it stands
      EXPECT_EQ(scoreOf(whole, part, found), best) << whole << ' ' << part;
    }
  }
}

TEST(Align, FindsObservedResiduesAmongAll) {
  EXPECT_EQ(placesIn("MKTAYIAKQRQISFVK", "TAYIAK"), (Places{2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(placesIn("MKTAYIAKQRQISFVK", "MKTAYIARQISFVK"),
            (Places{0, 1, 2, 3, 4, 5, 6, 9, 10, 11, 12, 13, 14, 15}));
  EXPECT_TRUE(placesIn("MKT", "").empty());
}

TEST(Align, RefusesWhatWouldTakeTooMuchMemory) {
  const std::string whole(20000, 'A'), part = std::string(10000, 'A') + "C";
  EXPECT_EQ(
      refusal([&] { placesIn(whole, part); }),
      "sequences of 20000 and 10001 residues are too long to be aligned; the product of their "
      "lengths may be 1e+08");
}

} // namespace

} // namespace kiln::alphafold::test
