// hhr files and the templates that they name.
#include "Helpers.h"
#include "MiniCif.h"

#include "models/alphafold/features/Templates.h"

namespace kiln::alphafold::test {

namespace {

using Places = std::vector<std::int64_t>;

/// One hit of a query's residues 1 to 12 on a template's 3 to 14, in two pieces.
std::string hhr(const std::string& name = "9XYZ_A", const std::string& probs = "Sum_probs=10.5") {
  return "Query         query\nMatch_columns 12\n\n No Hit Prob\n  1 " + name +
         " something\n\nNo 1\n>" + name + " something\nProbab=99.1  E-value=1e-9  " + probs +
         "  Template_Neff=4\n\n"
         "Q ss_pred            hhhh\n"
         "Q query             1 ACDEFG    6 (12)\n"
         "Q Consensus         1 acdefg    6 (12)\n"
         "                      ||||||\n"
         "T Consensus         3 acd-fg    7 (20)\n"
         "T 9XYZ_A            3 ACD-FG    7 (20)\n"
         "T ss_dssp             HHHHHH\n\n"
         "Q query             7 HI--KLMN   12 (12)\n"
         "T 9XYZ_A            8 HIPQKLMN   15 (20)\n\n\n";
}

TEST(Hhr, ReadsAHit) {
  const auto hits = parseHhr({"f.hhr", hhr()});
  ASSERT_EQ(hits.size(), 1U);
  const Hit& hit = hits[0];
  EXPECT_EQ(hit.name, "9XYZ_A");
  EXPECT_EQ(hit.structure(), "9xyz");
  EXPECT_EQ(hit.chain(), "A");
  EXPECT_EQ(hit.sumProbs, 10.5);
  EXPECT_EQ(hit.query, "ACDEFGHI--KLMN");
  EXPECT_EQ(hit.hit, "ACD-FGHIPQKLMN");
  EXPECT_EQ(hit.queryPlace, (Places{0, 1, 2, 3, 4, 5, 6, 7, -1, -1, 8, 9, 10, 11}));
  EXPECT_EQ(hit.hitPlace, (Places{2, 3, 4, -1, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}));
  EXPECT_EQ(hit.alignedColumns(), 11);
  EXPECT_TRUE(parseHhr({"f.hhr", ""}).empty());
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  return at == std::string::npos ? "'" + from + "' is not there"
                                 : text.replace(at, from.size(), to);
}

TEST(Hhr, RefusesWhatIsDamaged) {
  const auto refused = [](const std::string& text) {
    return refusal([&] { parseHhr({"f", text}); });
  };
  EXPECT_EQ(refused(hhr().substr(0, hhr().find("T 9XYZ_A            8"))),
            "f:19: hit 1, '9XYZ_A', ends here with 14 columns of the query and 6 of the template; "
            "they must be as many: is the file cut off?");
  EXPECT_EQ(refused(hhr("9XYZ_A", "")), "f:9: there is no Sum_probs=");
  EXPECT_EQ(refused(hhr("9XYZ_A", "Sum_probs=ten")), "f:9: 'Sum_probs=ten': a number is needed");
  EXPECT_EQ(refused(replaced(hhr(), "ACDEFG    6", "ACDEFG    7")),
            "f:12: the piece has letters to residue 6, it says 7 of 12");
  EXPECT_EQ(refused(replaced(hhr(), "query             7", "query             9")),
            "f:19: the piece begins with residue 9, the one before ended with 6");
  EXPECT_EQ(refused(replaced(hhr(), "query             1", "query             0")),
            "f:12: '0' is no number of a residue (1, 2, ...)");
  EXPECT_EQ(refused(replaced(hhr(), "ACDEFG    6 (12)", "ACDEFG    6")),
            "f:12: first residue, letters, last residue and (length) are expected");
  EXPECT_EQ(refused(replaced(hhr(), "ACDEFG    6", "AC#EFG    6")),
            "f:12: '#' is neither a letter nor a gap");
  EXPECT_EQ(refused("No 1\n\nNo 2\n"), "f:3: hit 1 ends here without a name ('>1ABC_A ...')");
}

struct Made {
  Templates templates;
  std::vector<LeftOut> leftOut;
};

Made made(const std::string& query, const std::string& text, const TemplateOptions& options) {
  Made result;
  result.templates = makeTemplates(query, parseHhr({"f", text}), options, result.leftOut);
  return result;
}

TEST(Templates, LieOnTheQuery) {
  const Folder folder;
  const MiniCif cif("9xyz", "WYACDFGHIPQKLMNWYVTS");
  writeFile(folder.path / "9xyz.cif", cif.text());
  const Made one = made("ACDEFGHIKLMN", hhr(), {folder.path, "2021-01-01", 20});
  ASSERT_EQ(one.templates.size(), 1) << (one.leftOut.empty() ? "" : one.leftOut[0].why);
  EXPECT_EQ(one.templates.names[0], "9xyz_A");
  EXPECT_EQ(one.templates.sumProbs[0], 10.5F);
  const Places from = {2, 3, 4, -1, 5, 6, 7, 8, 11, 12, 13, 14}; // of each residue of the query
  for (std::int64_t r = 0; r < 12; ++r) {
    EXPECT_EQ(one.templates.aatype(0, r), from[r] < 0 ? gapType : cif.residues[from[r]].type) << r;
    for (int i = 0; i < denseAtoms; ++i) {
      const int atom = from[r] < 0 ? -1 : chemistry().atom14To37[cif.residues[from[r]].type][i];
      if (atom < 0)
        continue;
      EXPECT_EQ(one.templates.mask(0, r, atom), 1);
      for (int axis = 0; axis < 3; ++axis)
        EXPECT_NEAR(one.templates.positions(0, r, atom, axis),
                    cif.residues[from[r]].places[i][axis], 1e-3);
    }
  }
  EXPECT_EQ(std::count(one.templates.mask.at(0, 3), one.templates.mask.at(0, 4), 0.0F), atomTypes);
}

TEST(Templates, AreLeftOutForAReason) {
  const Folder folder;
  writeFile(folder.path / "9xyz.cif", MiniCif("9xyz", "WYACDFGHIPQKLMNWYVTS").text());
  const std::string query = "ACDEFGHIKLMN";
  const auto why = [&](const std::string& query, const std::string& text,
                       const TemplateOptions& options) {
    const Made one = made(query, text, options);
    EXPECT_EQ(one.templates.size(), 0);
    return one.leftOut.empty() ? "nothing" : one.leftOut.at(0).why;
  };
  EXPECT_EQ(why(query, hhr(), {folder.path, "2001-01-01", 20}),
            "it was released 2020-02-20; the latest is to be 2001-01-01");
  EXPECT_EQ(why(query, hhr("1NOT_A"), {folder.path, "", 20}),
            "there is no 1not.cif in " + folder.path.string());
  EXPECT_EQ(why(query, hhr("9XYZ_B"), {folder.path, "", 20}),
            (folder.path / "9xyz.cif").string() + " has no chain 'B' of a protein");
  EXPECT_EQ(why("ACDEFGHIKLMW", hhr(), {folder.path, "", 20}),
            "it has N for residue 12 of the query: the file is of another one");
  EXPECT_EQ(why(query + std::string(200, 'A'), hhr(), {folder.path, "", 20}),
            "11 of 212 residues of the query are aligned; 10 % are needed");
  EXPECT_EQ(why(query, hhr("../9XYZ_A"), {folder.path / "below", "", 20}),
            "there is no ../9xyz.cif in " + (folder.path / "below").string());
  EXPECT_EQ(made(query, hhr(), {folder.path, "", 0}).templates.size(), 0);
}

} // namespace

} // namespace kiln::alphafold::test
