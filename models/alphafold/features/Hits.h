// Templates that HHsearch found: an .hhr file.
#pragma once

#include "models/alphafold/features/Text.h"

#include <string>
#include <vector>

namespace kiln::alphafold {

struct Hit {
  std::string name; // 2CRB_A
  double sumProbs = 0;
  std::string query, hit;                         // aligned letters and '-', of the same length
  std::vector<std::int64_t> queryPlace, hitPlace; // of each column, from 0; -1 at a gap

  std::string structure() const; // 2crb: what stands before '_', in lower case
  std::string chain() const;     // A
  std::int64_t alignedColumns() const;
};

/// All hits in their order; an empty file has none. Throws Error(input) with the line for blocks
/// without name, Sum_probs or alignment, and for alignments whose letters and numbers disagree.
std::vector<Hit> parseHhr(const Text& text);

} // namespace kiln::alphafold
