// The alignments and hits of a folder: read when they are there, parsed when they are needed, for
// one chain or for several of a structure.
#pragma once

#include "models/alphafold/features/Alignments.h"
#include "models/alphafold/features/Hits.h"
#include "models/alphafold/features/Templates.h"

#include <filesystem>
#include <string>
#include <vector>

namespace kiln::alphafold {

class AlignmentFolder {
 public:
  /// Reads *.a3m, *.sto and *.hhr, gzipped or not, by name; what cannot be read is left out. A
  /// folder that is not there is empty.
  AlignmentFolder(const std::filesystem::path& folder, std::vector<LeftOut>& leftOut);

  bool isEmpty() const { return texts.empty(); }
  const std::filesystem::path& path() const { return folder; }
  /// Of all that was read.
  const std::string& hash() const { return allHash; }

  /// Alignments whose query is `sequence`.
  std::vector<Alignment> alignmentsOf(const std::string& sequence, std::vector<LeftOut>& leftOut);
  const std::vector<Hit>& hits(std::vector<LeftOut>& leftOut);

  /// Adds the alignments that were parsed and asked for in vain.
  void leaveUnused(const std::string& owner, std::vector<LeftOut>& leftOut) const;

 private:
  struct Parsed {
    Alignment alignment;
    bool isUsed = false;
    std::string why; // it was not used the last time
  };
  void parse(std::vector<LeftOut>& leftOut);

  std::filesystem::path folder;
  std::vector<Text> texts;
  std::string allHash;
  bool isParsed = false;
  std::vector<Parsed> parsed;
  std::vector<Hit> allHits;
};

} // namespace kiln::alphafold
