// mmCIF: what is read of odd files, and what is refused.
#include "Helpers.h"
#include "MiniCif.h"

#include "models/alphafold/features/Structures.h"

#include <cmath>

namespace kiln::alphafold::test {

namespace {

const std::string everything = "ARNDCQEGHILKMFPSTWYV";

Structure parsed(const MiniCif& cif) {
  return parseMmcif({"f.cif", cif.text()});
}

int atomOf(const char* name) {
  return *chemistry().atomOfName(name);
}

TEST(Mmcif, ReadsEveryAtomOfEveryType) {
  const MiniCif cif("1abc", everything);
  const Structure structure = parsed(cif);
  EXPECT_EQ(structure.id, "1abc");
  EXPECT_EQ(structure.resolution, 1.75F);
  EXPECT_EQ(structure.releaseDate, "2020-02-20") << "the first of all dates";
  ASSERT_EQ(structure.chains.size(), 1U);
  const ChainStructure& chain = structure.chains[0];
  EXPECT_EQ(chain.sequence, everything);
  EXPECT_EQ(chain.resolved(), 20);
  float seen = 0;
  for (float mask : chain.mask.values)
    seen += mask;
  EXPECT_EQ(seen, cif.atoms.size());
  for (std::int64_t r = 0; r < 20; ++r)
    for (int i = 0; i < denseAtoms; ++i)
      if (const int atom = chemistry().atom14To37[cif.residues[r].type][i]; atom >= 0) {
        for (int axis = 0; axis < 3; ++axis)
          EXPECT_NEAR(chain.positions(r, atom, axis), cif.residues[r].places[i][axis], 6e-5)
              << r << ' ' << chemistry().atomNames[atom];
      }
}

TEST(Mmcif, SelenomethionineIsMethionine) {
  MiniCif cif("1abc", "AMG");
  cif.names[1] = "MSE";
  for (MiniAtom& atom : cif.atoms)
    if (atom.residue == "MET") {
      atom.residue = "MSE";
      atom.name = atom.name == "SD" ? "SE" : atom.name;
    }
  const ChainStructure chain = parsed(cif).chains.at(0);
  EXPECT_EQ(chain.sequence, "AMG");
  EXPECT_EQ(chain.mask(1, atomOf("SD")), 1);
  EXPECT_NEAR(chain.positions(1, atomOf("SD"), 0), cif.atom(1, "SE").at[0], 1e-4);
}

TEST(Mmcif, ModifiedResiduesAreTheirParents) {
  MiniCif cif("1abc", "ASGK");
  cif.names[1] = "SEP"; // phosphoserine
  for (MiniAtom& atom : cif.atoms)
    if (atom.residue == "SER")
      atom.residue = "SEP";
  cif.atoms.push_back({"P", ".", "SEP", "A", "2", "102", "?", {1, 2, 3}});
  EXPECT_EQ(parsed(cif).chains.at(0).sequence, "AXGK") << "of which nobody says what it is";
  cif.canonical = "ASGK";
  EXPECT_EQ(parsed(cif).chains.at(0).sequence, "ASGK");
  EXPECT_EQ(parsed(cif).chains.at(0).mask(1, atomOf("OG")), 1);
  cif.canonical = "ASSGK"; // of another length than the sequence, as with chromophores
  cif.extra = "loop_\n_pdbx_struct_mod_residue.label_comp_id\n"
              "_pdbx_struct_mod_residue.parent_comp_id\nSEP SER\n";
  EXPECT_EQ(parsed(cif).chains.at(0).sequence, "ASGK");
}

TEST(Mmcif, OfAlternateLocationsTheMostOccupiedCounts) {
  MiniCif cif("1abc", "ACG");
  MiniAtom other = cif.atom(1, "SG");
  cif.atom(1, "SG").alternate = "A";
  cif.atom(1, "SG").occupancy = 0.4;
  other.alternate = "B";
  other.occupancy = 0.6;
  other.at = {11, 12, 13};
  cif.atoms.push_back(other); // not behind its residue's others
  EXPECT_EQ(parsed(cif).chains.at(0).positions(1, atomOf("SG"), 1), 12);
  for (MiniAtom& atom : cif.atoms)
    if (atom.name == "SG")
      atom.occupancy = 0.5;
  EXPECT_NEAR(parsed(cif).chains.at(0).positions(1, atomOf("SG"), 1), cif.atom(1, "SG").at[1], 1e-4)
      << "the first of equals";
}

TEST(Mmcif, OfSeveralResiduesAtOnePlaceTheFirstCounts) {
  MiniCif cif("1abc", "ASG");
  std::string text = cif.text();
  text.insert(text.find("1 3 GLY"), "1 2 THR\n");
  text.insert(text.find("ATOM N . GLY"),
              "ATOM CA . THR A 1 2 102 ? 5 6 7 0.5 A 1\nATOM CB . THR A 1 2 102 ? 5 6 7 0.5 A 1\n");
  const ChainStructure chain = parseMmcif({"f.cif", text}).chains.at(0);
  EXPECT_EQ(chain.sequence, "ASG");
  EXPECT_NE(chain.positions(1, atomOf("CA"), 0), 5);
}

TEST(Mmcif, MissingAtomsAndResiduesAreMasked) {
  MiniCif cif("1abc", "ACDEF");
  std::erase_if(cif.atoms, [](const MiniAtom& atom) {
    return atom.place == "1" || atom.place == "4" || (atom.place == "3" && atom.name == "CG");
  });
  const ChainStructure chain = parsed(cif).chains.at(0);
  EXPECT_EQ(chain.sequence, "ACDEF");
  EXPECT_EQ(chain.resolved(), 3);
  EXPECT_EQ(chain.mask(2, atomOf("CG")), 0);
  EXPECT_EQ(chain.positions(2, atomOf("CG"), 0), 0);
  EXPECT_EQ(chain.mask(2, atomOf("OD1")), 1);
}

TEST(Mmcif, WithoutNumbersObservedResiduesAreAligned) {
  MiniCif cif("1abc", everything);
  std::erase_if(cif.atoms,
                [](const MiniAtom& atom) { return atom.place == "1" || atom.place == "9"; });
  const ChainStructure numbered = parsed(cif).chains.at(0);
  for (MiniAtom& atom : cif.atoms) { // insertion codes: 5, 5A, 5B, ...
    const int place = std::stoi(atom.place);
    atom.number = "5";
    atom.insertion = place == 2 ? "?" : std::string(1, char('A' + place - 3));
    atom.place = ".";
  }
  const ChainStructure aligned = parsed(cif).chains.at(0);
  EXPECT_EQ(aligned.sequence, numbered.sequence);
  EXPECT_EQ(aligned.mask, numbered.mask);
  EXPECT_EQ(aligned.positions, numbered.positions);
}

TEST(Mmcif, WithoutSequenceWhatHasAtomsIsTheSequence) {
  MiniCif cif("1abc", "ACDEF");
  cif.hasSequence = false;
  std::erase_if(cif.atoms, [](const MiniAtom& atom) { return atom.place == "2"; });
  EXPECT_EQ(parsed(cif).chains.at(0).sequence, "ADEF");
}

TEST(Mmcif, ReadsSeveralChainsOfTheFirstModel) {
  MiniCif cif("1abc", "ACD");
  const auto copyOf = [&](const std::string& chain, int model) {
    for (const MiniAtom& atom : std::vector(cif.atoms))
      if (atom.chain == "A" && atom.model == 1) {
        MiniAtom other = atom;
        other.chain = chain;
        other.model = model;
        other.at[0] += 100;
        cif.atoms.push_back(other);
      }
  };
  copyOf("B", 1);
  copyOf("C", 2);
  copyOf("A", 2);
  const Structure structure = parsed(cif);
  ASSERT_EQ(structure.chains.size(), 2U);
  EXPECT_EQ(structure.chain("B")->author, "B");
  EXPECT_NEAR(structure.chain("B")->positions(0, 1, 0),
              structure.chain("A")->positions(0, 1, 0) + 100, 1e-3);
  EXPECT_EQ(structure.chain("C"), nullptr);
}

TEST(Mmcif, LigandsAreNoChains) {
  MiniCif cif("1abc", "ACD");
  cif.atoms.push_back({"CA", ".", "GLY", "B", ".", "1", "?", {1, 2, 3}}); // of another entity
  std::string text = cif.text();
  text.replace(text.find("CA . GLY B 1"), 12, "CA . GLY B 2");
  const Structure structure = parseMmcif({"f.cif", text});
  ASSERT_EQ(structure.chains.size(), 1U);
  EXPECT_EQ(structure.chains[0].sequence, "ACD");
}

TEST(Mmcif, EntitiesAreKnownWithoutSomeOfTheirTables) {
  MiniCif cif("1abc", "ACDE");
  std::erase_if(cif.atoms, [](const MiniAtom& atom) { return atom.place == "3"; });
  cif.extra = "loop_\n_struct_asym.id\n_struct_asym.entity_id\nA 1\n";
  std::string text = cif.text();
  text.replace(text.find("_atom_site.label_entity_id"), 26, "_atom_site.other");
  text.replace(text.find("_entity_poly.type"), 17, "_entity_poly.other");
  EXPECT_EQ(parseMmcif({"f.cif", text}).chains.at(0).sequence, "ACDE");
}

TEST(Mmcif, NamesArgininesNitrogensByDistance) {
  MiniCif cif("1abc", "AR");
  const Structure right = parsed(cif);
  std::swap(cif.atom(1, "NH1").at, cif.atom(1, "NH2").at);
  EXPECT_EQ(parsed(cif).chains.at(0).positions, right.chains.at(0).positions);
}

TEST(Mmcif, ReadsTheResolutionOfAnyExperiment) {
  const auto with = [](const std::string& line) {
    std::string text = MiniCif("1abc", "AC").text();
    text.replace(text.find("_refine.ls_d_res_high 1.75"), 26, line);
    return parseMmcif({"f.cif", text}).resolution;
  };
  EXPECT_EQ(with("_em_3d_reconstruction.resolution 3.2"), 3.2F);
  EXPECT_EQ(with("_reflns.d_resolution_high 2.5"), 2.5F);
  EXPECT_EQ(with("_refine.ls_d_res_high ?"), 0);
  EXPECT_EQ(with("_refine.ls_d_res_high -4"), 0);
  EXPECT_EQ(with("_cell.length_a 1"), 0) << "NMR";
}

std::string refused(const std::string& text) {
  return refusal([&] { parseMmcif({"f.cif", text}); });
}

std::string changed(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  return at == std::string::npos ? "'" + from + "' is not there"
                                 : text.replace(at, from.size(), to);
}

TEST(Mmcif, RefusesWhatIsDamaged) {
  MiniCif cif("1abc", "AC");
  cif.atoms[0].at = {7.5, 8.5, 9.5};
  const std::string text = cif.text();
  const std::string site = "f.cif:23: in row 1 of _atom_site, which begins here, ";
  const std::pair<std::string, std::string> cases[] = {
      {"", "f.cif: the file is empty; an mmCIF file is needed"},
      {" \n\t\n", "f.cif: the file is empty; an mmCIF file is needed"},
      {changed(text, "7.5000", "7,5"), site + "Cartn_x is '7,5'; a number is needed"},
      {changed(text, "7.5000", "nan"), site + "Cartn_x is 'nan'; a number is needed"},
      {changed(text, "7.5000", "1e300"),
       site + "a coordinate is 1e+300; at most 100000 angstrom are allowed"},
      {changed(text, " A 1 1 101", " A 1 x 101"),
       site + "label_seq_id is 'x'; a whole number is needed"},
      {changed(text, " A 1 1 101", " A 1 3 101"),
       site + "label_seq_id is 3; entity '1' has residues 1 to 2"},
      {changed(text, " A 1 1 101", " A 1 99999999999999999999 101"),
       site + "label_seq_id is '99999999999999999999'; a whole number is needed"},
      {changed(text, "_atom_site.Cartn_y", "_atom_site.other"),
       "f.cif: _atom_site lacks Cartn_y, which is needed"},
      {changed(text, "1 2 CYS", "1 7 CYS"), "f.cif:16: in row 2 of _entity_poly_seq, which begins "
                                            "here, num is 7 behind 1; numbers go up "
                                            "by one, to at most 50000"},
      {text.substr(0, text.find("#\nloop_\n_atom_site")),
       "f.cif: _atom_site lacks label_atom_id label_comp_id label_asym_id Cartn_x Cartn_y Cartn_z, "
       "which are needed"},
      {changed(text, "polypeptide(L)", "polyribonucleotide"),
       "f.cif: no chain of a protein has atoms in it; _atom_site must have some of a polypeptide's "
       "residues"}};
  for (const auto& [damaged, message] : cases)
    EXPECT_EQ(refused(damaged), message);
  for (const std::string& rubbish :
       {std::string("HEADER    HYDROLASE\nATOM      1  N   ALA A   1\n"),
        std::string("\x7f"
                    "ELF\x02\x01\0\0",
                    8),
        text.substr(0, text.size() - 20), std::string("data_x\nloop_\n_a.b\n"),
        std::string("data_x\n_a.b 'open\n"), std::string("data_x\n_a.b\n;open\n")}) {
    const std::string message = refused(rubbish);
    EXPECT_TRUE(message.starts_with("f.cif") && message.size() < 600) << message;
  }
}

} // namespace

} // namespace kiln::alphafold::test
