// Structures of proteins from mmCIF files.
#pragma once

#include "models/alphafold/features/Array.h"
#include "models/alphafold/features/Text.h"

#include <string>
#include <vector>

namespace kiln::alphafold {

/// A chain of a protein. Atoms are those of the first model that belong to a residue of SEQRES.
struct ChainStructure {
  std::string author;   // the chain's name as its authors gave it, which most call it by: A
  std::string label;    // as the archive gave it
  std::string sequence; // SEQRES; of a modified residue its parent's letter, X where none is known
  Array<float> positions; // [R, 37, 3] angstrom
  Array<float> mask;      // [R, 37]

  std::int64_t resolved() const; // residues with a CA
};

struct Structure {
  std::string id;          // 1k1a
  float resolution = 0;    // angstrom; 0: the experiment has none
  std::string releaseDate; // 2001-06-13, or empty
  std::vector<ChainStructure> chains;

  /// By the author's name, else by the label. None: nullptr.
  const ChainStructure* chain(const std::string& name) const;
};

/// - SEQRES is _entity_poly_seq; without it, the residues that have atoms. Of several residues at
///   one place (microheterogeneity) the first is meant.
/// - Selenomethionine is methionine, its SE is SD. Of other modified residues those atoms count
/// that
///   their parent has.
/// - Of alternate locations of an atom the one with the largest occupancy, the first of equals.
/// - Arginine's NH1 is the one nearer to CD (supplement 1.2.1).
/// - Residues belong to SEQRES by label_seq_id; where a chain lacks those, by alignment.
/// Throws Error(input) naming file, line or row, and what is allowed: for what is no mmCIF, tables
/// without their columns, coordinates that are no numbers or beyond 10^5 angstrom, residue numbers
/// beyond SEQRES, and files without a chain of a protein.
Structure parseMmcif(const Text& text);

} // namespace kiln::alphafold
