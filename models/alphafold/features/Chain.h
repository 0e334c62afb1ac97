// What is known of a chain before anything is drawn or cropped: its sequence, structure, alignments
// and templates. This is what the cache holds.
#pragma once

#include "models/alphafold/features/Array.h"

#include <string>
#include <vector>

namespace kiln::alphafold {

/// Aligned sequences, no two alike, the chain's own first. Types are 0..20, 21 is a gap.
struct Msa {
  Array<std::uint8_t> types;      // [N, R]
  Array<std::uint16_t> deletions; // [N, R] residues left out before each, at most 65535

  std::int64_t rows() const { return types.shape.empty() ? 0 : types.shape[0]; }
  bool operator==(const Msa&) const = default;
};

/// Structures of related chains, the likeliest first.
struct Templates {
  std::vector<std::string> names; // [T] 2crb_A
  Array<std::uint8_t> aatype;     // [T, R] 0..20, 21 where nothing is aligned
  Array<float> positions;         // [T, R, 37, 3] angstrom, 0 where nothing is known
  Array<float> mask;              // [T, R, 37]
  std::vector<float> sumProbs;    // [T] of HHsearch

  std::int64_t size() const { return static_cast<std::int64_t>(names.size()); }
  bool operator==(const Templates&) const = default;
};

struct Chain {
  std::string name;        // 1k1a_A
  std::string sequence;    // R letters of the twenty, X where unknown
  Array<float> positions;  // [R, 37, 3] angstrom, 0 where nothing was seen
  Array<float> mask;       // [R, 37] 1 where the experiment saw the atom; all 0 without a structure
  float resolution = 0;    // angstrom; 0: the experiment has none
  std::string releaseDate; // 2001-06-13, or empty
  Msa msa;
  Templates templates;

  std::int64_t length() const { return static_cast<std::int64_t>(sequence.size()); }
  bool operator==(const Chain&) const = default;
};

} // namespace kiln::alphafold
