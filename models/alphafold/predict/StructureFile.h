// A predicted structure as files: PDB and mmCIF, written by gemmi, with the confidence where
// experiments have their B factors. C++17, like gemmi 0.5, whose headers Clang refuses in C++20;
// nothing else includes those that write.
#pragma once

#include <array>
#include <string>
#include <vector>

namespace kiln::alphafold {

struct PredictedAtom {
  std::string name;            // CA
  std::array<double, 3> place; // angstrom
};

struct PredictedResidue {
  std::string name;  // ALA; UNK: an unknown one
  double confidence; // pLDDT, 0 to 100
  std::vector<PredictedAtom> atoms;
};

/// One chain, A, of residues from 1 on.
struct PredictedChain {
  std::string name; // of the protein
  std::vector<PredictedResidue> residues;
};

std::string pdbText(const PredictedChain& chain);
std::string mmcifText(const PredictedChain& chain);

} // namespace kiln::alphafold
