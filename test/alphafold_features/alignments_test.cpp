// FASTA, a3m and Stockholm: what they mean, how they are merged, and what is refused.
#include "Helpers.h"

#include "models/alphafold/features/Alignments.h"

#include <zlib.h>

namespace kiln::alphafold::test {

namespace {

using Deletions = std::vector<std::uint16_t>;

TEST(Fasta, ReadsRecords) {
  const auto all = parseFasta({"f.fasta", ">one first\nacd\nEF G\r\n\n>two\nX\n"});
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].name, "one");
  EXPECT_EQ(all[0].letters, "ACDEFG");
  EXPECT_EQ(all[1].letters, "X");
}

TEST(A3m, CountsInsertionsBeforeColumns) {
  const Alignment one = parseA3m({"a.a3m", "#6\t1\n>query\nACDEFG\n>hit 1\tx\nacA-Dk\nlmE.-G\n"});
  ASSERT_EQ(one.rows.size(), 2U);
  EXPECT_EQ(one.rows[1].name, "hit");
  EXPECT_EQ(one.rows[1].columns, "A-DE-G");
  EXPECT_EQ(one.rows[1].deletions, (Deletions{2, 0, 0, 3, 0, 0}));
  EXPECT_EQ(one.rows[0].deletions, Deletions(6));
}

TEST(A3m, TakesWhatMmseqsWritesBetweenRecords) {
  const std::string text = std::string(">q\nAC\n") + '\0' + ">h\nA-\n" + '\0';
  EXPECT_EQ(parseA3m({"a.a3m", text}).rows.size(), 2U);
}

TEST(A3m, SaturatesWhereTooMuchIsInserted) {
  const Alignment one = parseA3m({"a.a3m", ">q\nAC\n>h\nA" + std::string(70000, 'k') + "C\n"});
  EXPECT_EQ(one.rows[1].deletions, (Deletions{0, 65535}));
}

TEST(Stockholm, KeepsTheQuerysColumns) {
  const Alignment one = parseStockholm({"s.sto", "# STOCKHOLM 1.0\n#=GF ID x\n\n"
                                                 "query   AC--DE\n"
                                                 "hit/1-4 .CkK-E\n"
                                                 "#=GC RF xxxxxx\n\n"
                                                 "query   F-\n"
                                                 "hit/1-4 -w\n//\n"});
  ASSERT_EQ(one.rows.size(), 2U);
  EXPECT_EQ(one.rows[0].columns, "ACDEF");
  EXPECT_EQ(one.rows[1].columns, "-C-E-");
  EXPECT_EQ(one.rows[1].deletions, (Deletions{0, 0, 2, 0, 0}));
}

TEST(Alignments, AreMergedWithoutRepetitionAndClipped) {
  const Alignment a = parseA3m({"a", ">q\nACD\n>1\nACE\n>2\nA-D\n>3\nACE\n>own\nACD\n"});
  const Alignment b = parseA3m({"b", ">q\nACD\n>4\naA-D\n>5\nUBZ\n"});
  const std::vector<Alignment> both = {a, b};
  const Msa msa = mergeAlignments("ACD", both, 1000);
  ASSERT_EQ(msa.rows(), 4);
  // ARNDCQEGHILKMFPSTWYV: A 0, C 4, D 3, E 6; U counts as C, B as D, Z as E; 21 is a gap.
  EXPECT_EQ(msa.types.values, (std::vector<std::uint8_t>{0, 4, 3, 0, 4, 6, 0, 21, 3, 4, 3, 6}));
  EXPECT_EQ(mergeAlignments("ACD", both, 8).rows(), 2) << "8 cells hold two rows of three";
  EXPECT_EQ(mergeAlignments("ACD", both, 1).rows(), 1) << "the chain's own row stays";
  EXPECT_EQ(mergeAlignments("ACD", {}, 1000).rows(), 1);
}

TEST(Alignments, OfSeveralFilesAreClippedAlike) {
  std::string one = ">q\nACDE\n", other = one;
  for (const char* last : {"K", "L", "M", "N"}) {
    one += std::string(">1\nACD") + last + "\n";
    other += std::string(">2\nACK") + last + "\n";
  }
  const std::vector<Alignment> both = {parseA3m({"a", one}), parseA3m({"b", other})};
  const Msa msa = mergeAlignments("ACDE", both, 5 * 4);
  ASSERT_EQ(msa.rows(), 5);
  const std::uint8_t d = msaTypeOf('D'), k = msaTypeOf('K');
  for (std::int64_t row = 0; row < 5; ++row)
    EXPECT_EQ(msa.types(row, 2), row % 2 == 0 && row > 0 ? k : d) << row;
}

TEST(Alignments, KeepDeletionsOfTheRowThatStays) {
  const std::vector<Alignment> one = {parseA3m({"a", ">q\nACD\n>1\nAkkCE\n>2\nACkE\n"})};
  const Msa msa = mergeAlignments("ACD", one, 1000);
  ASSERT_EQ(msa.rows(), 2);
  EXPECT_EQ(msa.deletions.values, (Deletions{0, 0, 0, 0, 2, 0}));
}

TEST(Alignments, ReadEveryLetter) {
  const std::string letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  const std::string meant = "ADCDEFGHIXKLMNXPQRSTCVWXYE"; // what HHblits makes of them
  for (std::size_t i = 0; i < letters.size(); ++i)
    EXPECT_EQ(chemistry().letters[msaTypeOf(letters[i])], meant[i]) << letters[i];
  EXPECT_EQ(msaTypeOf('-'), gapType);
}

struct Damaged {
  const char* what;
  std::string text, message;
};

TEST(A3m, RefusesWhatIsDamaged) {
  const Damaged cases[] = {
      {"cut off", ">q\nACD\n>h\nAC\n",
       "f:4: 'h' has 2 columns and the first sequence 3: is the file cut off?"},
      {"too long", ">q\nACD\n>h\nACDE\n>i\nACD\n",
       "f:5: 'h' has 4 columns and the first sequence 3: is the file cut off?"},
      {"no record", "ACD\n",
       "f:1: no record has begun; an a3m file has lines '>name' and residues below them"},
      {"digit", ">q\nAC1D\n", "f:2: '1' stands in a sequence; letters, '-' and '.' are allowed"},
      {"binary", std::string(">q\nA\x01\xff\n"),
       "f:2: '\\x01' stands in a sequence; letters, '-' and '.' are allowed"},
      {"gap in the query", ">q\nA-C\n",
       "f: the first sequence, 'q', has a gap; it is the query, whose residues are the columns"},
      {"nothing below a name", ">q\n>h\nA\n", "f:2: 'q' has no residues"},
      {"lower case only", ">q\nacd\n", "f:2: 'q' has no residues"}};
  for (const Damaged& one : cases)
    EXPECT_EQ(refusal([&] { parseA3m({"f", one.text}); }), one.message) << one.what;
  EXPECT_TRUE(parseA3m({"f", ""}).rows.empty());
  EXPECT_TRUE(parseA3m({"f", "\n\n"}).rows.empty());
}

TEST(Stockholm, RefusesWhatIsDamaged) {
  const std::string head = "# STOCKHOLM 1.0\n";
  const Damaged cases[] = {
      {"cut off", head + "q ACD\nh A",
       "f:3: the last line, '//', is missing: is the file cut off?"},
      {"no header", "q ACD\n//\n",
       "f:1: 'q' comes before '# STOCKHOLM 1.0', which must be the first line"},
      {"lengths", head + "q ACD\nh AC\n//\n", "f: 'h' has 2 columns and 'q' has 3"},
      {"no sequence", head + "q\n//\n",
       "f:2: a name and a sequence are expected, without blanks in either"},
      {"three words", head + "q AC D\n//\n",
       "f:2: a name and a sequence are expected, without blanks in either"},
      {"symbol", head + "q A%D\n//\n",
       "f:2: '%' stands in a sequence; letters, '-' and '.' are allowed"}};
  for (const Damaged& one : cases)
    EXPECT_EQ(refusal([&] { parseStockholm({"f", one.text}); }), one.message) << one.what;
  EXPECT_TRUE(parseStockholm({"f", ""}).rows.empty());
  EXPECT_TRUE(parseStockholm({"f", head + "//\n"}).rows.empty());
}

TEST(Fasta, RefusesWhatIsDamaged) {
  const Damaged cases[] = {
      {"empty", "", "f:0: no sequence; a FASTA file has lines '>name' and letters below them"},
      {"no name", "ACD\n", "f:1: 'ACD' stands before the first '>'"},
      {"no letters", ">a\n>b\nA\n", "f:2: 'a' has no letters"},
      {"digit", ">a\nA7\n", "f:2: '7' is no letter of a residue"}};
  for (const Damaged& one : cases)
    EXPECT_EQ(refusal([&] { parseFasta({"f", one.text}); }), one.message) << one.what;
}

TEST(Alignments, OfAnotherQueryAreRefused) {
  const std::vector<Alignment> one = {parseA3m({"a.a3m", ">q\nACD\n"})};
  EXPECT_EQ(refusal([&] { mergeAlignments("ACDE", one, 100); }),
            "a.a3m: its first sequence has 3 residues, the chain 4");
  EXPECT_EQ(refusal([&] { mergeAlignments("ACE", one, 100); }),
            "a.a3m: its first sequence has D at residue 3, the chain E");
  EXPECT_EQ(mergeAlignments("AXD", one, 100).rows(), 1) << "X agrees with anything";
}

std::string zipped(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, 16 + MAX_WBITS, 9, Z_DEFAULT_STRATEGY);
  std::string result(text.size() + 100, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(result.data());
  stream.avail_out = static_cast<uInt>(result.size());
  deflate(&stream, Z_FINISH);
  result.resize(stream.total_out);
  deflateEnd(&stream);
  return result;
}

TEST(Gzip, IsReadByItsFirstBytes) {
  const Folder folder;
  const std::string text = ">q\nACDEFGHIKLMNPQRSTVWY\n", packed = zipped(text);
  writeFile(folder.path / "a.a3m", packed); // whatever its name
  EXPECT_EQ(readText(folder.path / "a.a3m").contents, text);
  writeFile(folder.path / "two.gz", packed + packed);
  EXPECT_EQ(readText(folder.path / "two.gz").contents, text + text)
      << "members one after the other";
}

TEST(Gzip, RefusesWhatIsCutOffOrDamaged) {
  const std::string packed = zipped(std::string(3000, 'A') + "CDEFG");
  for (std::size_t size = 2; size < packed.size(); ++size)
    EXPECT_NE(refusal([&] { unzip(packed.substr(0, size), "f.gz"); }).find("is cut off"),
              std::string::npos)
        << size;
  std::string damaged = packed;
  damaged[damaged.size() - 6] ^= 1; // of the checksum
  EXPECT_EQ(refusal([&] { unzip(damaged, "f.gz"); }),
            "f.gz: the gzipped data is damaged after 3005 bytes of text; fetch the file again");
  EXPECT_NE(refusal([&] { readText("/nowhere/f.a3m"); }).find("/nowhere/f.a3m"), std::string::npos);
}

} // namespace

} // namespace kiln::alphafold::test
