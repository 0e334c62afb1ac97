// makeChain(): see Build.h.
#include "models/alphafold/features/Build.h"
#include "models/alphafold/features/Chemistry.h"
#include "models/common/Fail.h"

namespace kiln::alphafold {

Chain makeChain(const std::string& name, const std::string& sequence,
                std::span<const Alignment> alignments, std::span<const Hit> hits,
                const ChainOptions& options, std::vector<LeftOut>& notes) {
  if (sequence.empty())
    models::fail(ErrorKind::input, "chain {} has no residues; one is needed", printable(name));
  Chain chain;
  chain.name = name;
  for (char letter : sequence)
    chain.sequence += chemistry().letters.find(letter) == std::string::npos ? 'X' : letter;
  chain.positions = Array<float>({chain.length(), atomTypes, 3});
  chain.mask = Array<float>({chain.length(), atomTypes});
  chain.msa = mergeAlignments(sequence, alignments, options.mostCells);
  if (!options.templates.structures.empty())
    chain.templates = makeTemplates(chain.sequence, hits, options.templates, notes);
  return chain;
}

Chain makeChain(const std::string& name, const ChainStructure& chain, const Structure& structure,
                std::span<const Alignment> alignments, std::span<const Hit> hits,
                const ChainOptions& options, std::vector<LeftOut>& notes) {
  Chain made = makeChain(name, chain.sequence, alignments, hits, options, notes);
  made.positions = chain.positions;
  made.mask = chain.mask;
  made.resolution = structure.resolution;
  made.releaseDate = structure.releaseDate;
  return made;
}

} // namespace kiln::alphafold
