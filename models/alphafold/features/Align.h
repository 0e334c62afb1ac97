// Pairs two sequences that are nearly the same: a structure's observed residues with its whole
// sequence, a template's sequence in an alignment with that in its file.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace kiln::alphafold {

/// For each letter of `part` its place in `whole`, or -1; places ascend. Of a global alignment with
/// affine gaps (Gotoh 1982) whose end gaps are free: match 5, mismatch -4, X 0, gap -6 and -1 for
/// each letter. Throws Error(input) if the product of the lengths exceeds 10^8.
std::vector<std::int64_t> placesIn(std::string_view whole, std::string_view part);

} // namespace kiln::alphafold
