// From folders of structures and alignments to a cache of chains.
#pragma once

#include "models/alphafold/features/Alignments.h"
#include "models/alphafold/features/Cache.h"
#include "models/alphafold/features/Structures.h"
#include "models/alphafold/features/Templates.h"

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace kiln::alphafold {

/// What of the alignments becomes features.
struct ChainOptions {
  TemplateOptions templates; // without a folder no hit is used
  /// Cells (rows x residues) of an alignment; rows beyond are left out, from the ends of its files.
  /// What is bounded is the product, as HFAiLab's report does, because reading, drawing and memory
  /// grow with it. The default lets 10,000 rows of 800 residues pass.
  std::int64_t mostCells = 8'000'000;
  bool allowSingle = false; // chains without an alignment get their own sequence as one
};

/// Features of a sequence without a structure. To `notes` templates are added that hits name and
/// rules leave out. Throws Error(input) for a sequence without letters and alignments of another.
Chain makeChain(const std::string& name, const std::string& sequence,
                std::span<const Alignment> alignments, std::span<const Hit> hits,
                const ChainOptions& options, std::vector<LeftOut>& notes);
/// With a structure.
Chain makeChain(const std::string& name, const ChainStructure& chain, const Structure& structure,
                std::span<const Alignment> alignments, std::span<const Hit> hits,
                const ChainOptions& options, std::vector<LeftOut>& notes);

struct BuildOptions {
  std::vector<std::filesystem::path>
      structures;                   // files, or folders, looked through with all in them
  std::filesystem::path sequences;  // FASTA: chains without a structure, by their names
  std::filesystem::path alignments; // holds ID_CHAIN/ or ID/, and NAME/ for sequences
  std::filesystem::path output;     // the cache
  ChainOptions chain;
  std::int64_t workers = 0; // threads; 0: as many as there are cores
  bool again = false;       // also what is there already, made from the same files and options
  /// Called from any thread after each of `total` files.
  std::function<void(std::size_t total, const std::string& file)> progress;
};

struct BuildResult {
  std::vector<CacheEntry> made, kept;
  std::vector<LeftOut> leftOut, notes;
};

/// Makes what is missing in the cache. What cannot be used is told, and does not stop the others.
/// Throws Error(input, missing) if there is nothing to make anything of.
BuildResult buildCache(const BuildOptions& options);

} // namespace kiln::alphafold
