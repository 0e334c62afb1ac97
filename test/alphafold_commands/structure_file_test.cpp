// Predicted structures as files, read again by gemmi: every atom is where it was put, under its
// name, with its confidence. C++17, like what writes them.
#include "models/alphafold/predict/StructureFile.h"

#include <gemmi/cif.hpp>
#include <gemmi/mmcif.hpp>
#include <gemmi/pdb.hpp>
#include <gtest/gtest.h>

#include <random>

namespace kiln::alphafold {
namespace {

/// Of any size and place; the third residue is unknown and has no atoms.
PredictedChain randomChain(unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> place(-900, 900), confidence(0, 100);
  PredictedChain chain{"1abc_A", {}};
  const char* names[] = {"GLY", "MET", "UNK", "TRP", "CYS"};
  const std::vector<std::vector<const char*>> atoms = {
      {"N", "CA", "C", "O"},
      {"N", "CA", "C", "O", "CB", "CG", "SD", "CE"},
      {},
      {"N", "CA", "C", "O", "CB", "NE1", "CZ3"},
      {"N", "CA", "C", "O", "CB", "SG"}};
  for (int i = 0; i < 60; ++i) {
    PredictedResidue residue{names[i % 5], confidence(random), {}};
    for (const char* name : atoms[i % 5])
      residue.atoms.push_back({name, {place(random), place(random), place(random)}});
    chain.residues.push_back(residue);
  }
  return chain;
}

void expectSame(const gemmi::Structure& found, const PredictedChain& chain) {
  ASSERT_EQ(found.models.size(), 1U);
  ASSERT_EQ(found.models[0].chains.size(), 1U);
  const gemmi::Chain& read = found.models[0].chains[0];
  EXPECT_EQ(read.name, "A");
  std::size_t at = 0;
  for (std::size_t i = 0; i < chain.residues.size(); ++i) {
    const PredictedResidue& put = chain.residues[i];
    if (put.atoms.empty())
      continue;
    ASSERT_LT(at, read.residues.size());
    const gemmi::Residue& residue = read.residues[at++];
    EXPECT_EQ(residue.name, put.name);
    EXPECT_EQ(*residue.seqid.num, int(i) + 1);
    ASSERT_EQ(residue.atoms.size(), put.atoms.size());
    for (std::size_t a = 0; a < put.atoms.size(); ++a) {
      const gemmi::Atom& atom = residue.atoms[a];
      EXPECT_EQ(atom.name, put.atoms[a].name);
      EXPECT_EQ(atom.element.name(), put.atoms[a].name.substr(0, 1));
      EXPECT_NEAR(atom.pos.x, put.atoms[a].place[0], 6e-4);
      EXPECT_NEAR(atom.pos.y, put.atoms[a].place[1], 6e-4);
      EXPECT_NEAR(atom.pos.z, put.atoms[a].place[2], 6e-4);
      EXPECT_NEAR(atom.b_iso, put.confidence, 6e-3);
      EXPECT_EQ(atom.occ, 1);
    }
  }
  EXPECT_EQ(at, read.residues.size());
  ASSERT_EQ(found.entities.size(), 1U);
  ASSERT_EQ(found.entities[0].full_sequence.size(), chain.residues.size());
  for (std::size_t i = 0; i < chain.residues.size(); ++i)
    EXPECT_EQ(found.entities[0].full_sequence[i], chain.residues[i].name);
}

TEST(StructureFile, PdbIsReadAgain) {
  for (unsigned seed = 1; seed < 4; ++seed) {
    const PredictedChain chain = randomChain(seed);
    const std::string text = pdbText(chain);
    expectSame(gemmi::read_pdb_from_memory(text.data(), text.size(), "test"), chain);
    EXPECT_EQ(text.find("CRYST1"), std::string::npos) << "there is no crystal";
  }
}

TEST(StructureFile, MmcifIsReadAgain) {
  for (unsigned seed = 1; seed < 4; ++seed) {
    const PredictedChain chain = randomChain(seed);
    const std::string text = mmcifText(chain);
    gemmi::cif::Document document = gemmi::cif::read_memory(text.data(), text.size(), "test");
    expectSame(gemmi::make_structure_from_block(document.blocks[0]), chain);
    EXPECT_EQ(text.find("_cell"), std::string::npos) << "there is no crystal";
  }
}

} // namespace
} // namespace kiln::alphafold
