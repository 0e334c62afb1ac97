// Features of templates: what HHsearch found, with the structures that the hits name.
#pragma once

#include "models/alphafold/features/Chain.h"
#include "models/alphafold/features/Hits.h"

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace kiln::alphafold {

struct TemplateOptions {
  std::filesystem::path structures; // folder of ID.cif or ID.cif.gz
  std::string latestRelease;        // 2018-04-30: later templates are left out; empty: none is
  std::int64_t most = 20;
};

/// Something that was not used, and why.
struct LeftOut {
  std::string what, why;
};

/// Supplement 1.2.3 and 1.2.9. Hits by descending Sum_probs, those left out that
/// - align less than a tenth of the query, or fewer than 10 residues;
/// - are the query itself: a piece of it that covers more than 95 % of its length;
/// - have no structure in the folder, one that cannot be read, without the chain, or released
/// later;
/// - have no atom at an aligned residue, or neighbours with CA atoms more than 150 angstrom apart.
/// Where a hit's letters are not those of its file the two are aligned. [T, R] as in Chain.h.
Templates makeTemplates(const std::string& query, std::span<const Hit> hits,
                        const TemplateOptions& options, std::vector<LeftOut>& leftOut);

/// ID.cif or ID.cif.gz in a folder, or an empty path.
std::filesystem::path structureFile(const std::filesystem::path& folder, const std::string& id);

} // namespace kiln::alphafold
