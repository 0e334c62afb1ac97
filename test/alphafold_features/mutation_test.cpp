// Each parser on ten thousand damaged copies of a good file: bytes flipped, put in, taken out,
// pieces moved, ends cut off. Whatever comes is taken or refused by kiln::Error with a sentence of
// bounded length; nothing crashes (the build with sanitizers sees what a crash would not show).
#include "Helpers.h"
#include "MiniCif.h"

#include "models/alphafold/features/Alignments.h"
#include "models/alphafold/features/Hits.h"
#include "models/alphafold/features/Packed.h"
#include "models/alphafold/features/Structures.h"

#include <functional>

namespace kiln::alphafold::test {

namespace {

constexpr int mutations = 10000;

std::string mutated(std::string text, Random& random) {
  const auto place = [&] { return text.empty() ? 0 : random.below(text.size()); };
  for (std::uint64_t changes = 1 + random.below(4); changes > 0; --changes) {
    const std::uint64_t at = place();
    switch (random.below(7)) {
    case 0: // a bit
      if (!text.empty())
        text[at] = char(text[at] ^ (1 << random.below(8)));
      break;
    case 1: // a byte of those that mean something
      text.insert(at, 1, "\n\r\0 \t'\";_#>-.?()09AXz~\x80\xff"[random.below(24)]);
      break;
    case 2:
      text.erase(at, 1 + random.below(20));
      break;
    case 3: // a piece once more, elsewhere
      text.insert(place(), std::string(text.substr(at, 1 + random.below(60))));
      break;
    case 4:
      text.resize(at);
      break;
    case 5: // a number that is none of that size
      text.insert(at, random.below(2) == 0 ? "99999999999999999999" : "-1");
      break;
    default: // a line out
      if (const std::size_t line = text.find('\n', at); line != std::string::npos)
        text.erase(line, text.find('\n', line + 1) - line);
    }
  }
  return text;
}

void survive(const std::string& good, const std::function<void(const std::string&)>& parse) {
  parse(good);
  Random random(1);
  int refused = 0;
  for (int i = 0; i < mutations; ++i) {
    const std::string bad = mutated(good, random);
    try {
      parse(bad);
    } catch (const Error& error) {
      ++refused;
      const std::string_view why = error.what();
      ASSERT_TRUE(!why.empty() && why.size() < 1000 && printable(why) == why) << i << ": " << why;
    }
  }
  EXPECT_GT(refused, mutations / 20);
  EXPECT_LT(refused, mutations);
}

TEST(Mutations, OfFasta) {
  survive(">one first\nACDEFGHIKLMNPQRSTVWY\n>two\nACDEF\nGHI\n",
          [](const std::string& text) { parseFasta({"f", text}); });
}

TEST(Mutations, OfA3m) {
  survive(">query\nACDEFGHIKL\n>hit 1\nAC-EfgFG-IKL\n>hit 2\n---EFGHI--\n",
          [](const std::string& text) {
            const std::vector<Alignment> one = {parseA3m({"f", text})};
            if (!one[0].rows.empty())
              mergeAlignments(one[0].rows[0].columns, one, 1000);
          });
}

TEST(Mutations, OfStockholm) {
  survive("# STOCKHOLM 1.0\n#=GF ID x\nquery   AC--DEFG\nhit/1-4 .CkK-EFG\n\nquery   HIK\n"
          "hit/1-4 -W.\n//\n",
          [](const std::string& text) {
            const std::vector<Alignment> one = {parseStockholm({"f", text})};
            if (!one[0].rows.empty() && !one[0].rows[0].columns.empty())
              mergeAlignments(one[0].rows[0].columns, one, 1000);
          });
}

TEST(Mutations, OfHhr) {
  survive("Query  q\n\nNo 1\n>9XYZ_A thing\nProbab=99.1  Sum_probs=10.5\n\n"
          "Q query             1 ACDEFG    6 (12)\nT 9XYZ_A            3 ACD-FG    7 (20)\n\n"
          "Q query             7 HI--KLMN   12 (12)\nT 9XYZ_A            8 HIPQKLMN   15 (20)\n"
          "\nNo 2\n>8ABC_B\nProbab=1 Sum_probs=1\nQ query 2 CDE 4 (12)\nT 8ABC_B 1 CDE 3 (9)\n",
          [](const std::string& text) {
            for (const Hit& hit : parseHhr({"f", text})) {
              hit.structure();
              hit.alignedColumns();
            }
          });
}

TEST(Mutations, OfMmcif) {
  MiniCif cif("1abc", "ARN");
  cif.canonical = "ARN";
  survive(cif.text(), [](const std::string& text) {
    for (const ChainStructure& chain : parseMmcif({"f", text}).chains)
      chain.resolved();
  });
}

TEST(Mutations, OfPackedChains) {
  survive(packed::plainBytes(randomChain(4, 3, 1, 1)),
          [](const std::string& text) { packed::chainOf(text); });
}

} // namespace

} // namespace kiln::alphafold::test
