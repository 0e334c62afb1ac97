// See Templates.h.
#include "models/alphafold/features/Templates.h"

#include "models/alphafold/features/Align.h"
#include "models/alphafold/features/Alignments.h"
#include "models/alphafold/features/Chemistry.h"
#include "models/alphafold/features/Structures.h"
#include "models/common/Fail.h"

#include <algorithm>
#include <cmath>

namespace kiln::alphafold {

namespace fs = std::filesystem;

namespace {

// Of the supplement, and of what AlphaFold's published pipeline does beyond it.
constexpr double leastAligned = 0.1, mostOfQuery = 0.95;
constexpr std::int64_t leastResidues = 10;
constexpr double farthestNeighbours = 150; // angstrom

/// A template as far as it lies on the query; thrown away if there is a reason against it.
struct Placed {
  std::vector<std::uint8_t> aatype;
  Array<float> positions, mask;
};

std::string lettersOf(const Hit& hit) {
  std::string letters;
  std::ranges::copy_if(hit.hit, std::back_inserter(letters), [](char c) { return c != '-'; });
  return letters;
}

/// Why a hit is not even looked at; empty if it is.
std::string reasonAgainst(const Hit& hit, const std::string& query) {
  const std::int64_t columns = hit.alignedColumns();
  const std::string letters = lettersOf(hit);
  if (double(columns) / double(query.size()) < leastAligned)
    return fmt::format("{} of {} residues of the query are aligned; {:.0f} % are needed", columns,
                       query.size(), 100 * leastAligned);
  if (std::ssize(letters) < leastResidues)
    return fmt::format("{} residues are aligned; {} are needed", letters.size(), leastResidues);
  if (query.find(letters) != std::string::npos &&
      double(letters.size()) / double(query.size()) > mostOfQuery)
    return "it is the query itself";
  for (std::size_t i = 0; i < hit.query.size(); ++i)
    if (const std::int64_t place = hit.queryPlace[i]; place >= 0)
      if (place >= std::ssize(query) || (query[place] != hit.query[i] && query[place] != 'X'))
        return fmt::format("it has {} for residue {} of the query: the file is of another one",
                           hit.query[i], place + 1);
  return {};
}

/// Aligned residues of the hit, of its structure onto the query.
Placed place(const Hit& hit, const ChainStructure& chain, std::int64_t length) {
  Placed placed{std::vector<std::uint8_t>(length, gapType), Array<float>({length, atomTypes, 3}),
                Array<float>({length, atomTypes})};
  const std::vector<std::int64_t> inChain = placesIn(chain.sequence, lettersOf(hit));
  std::size_t letter = 0; // of the hit's, without gaps
  for (std::size_t column = 0; column < hit.hit.size(); ++column) {
    if (hit.hit[column] == '-')
      continue;
    const std::int64_t from = inChain[letter++], to = hit.queryPlace[column];
    if (to < 0)
      continue;
    placed.aatype[to] = msaTypeOf(hit.hit[column]);
    if (from < 0)
      continue;
    std::copy_n(chain.positions.at(from), atomTypes * 3, placed.positions.at(to));
    std::copy_n(chain.mask.at(from), atomTypes, placed.mask.at(to));
  }
  return placed;
}

/// A chain that comes apart is a mistake of the file's.
bool hasFarNeighbours(const ChainStructure& chain) {
  const int ca = *chemistry().atomOfName("CA");
  for (std::int64_t i = 1; i < chain.mask.shape[0]; ++i) {
    const float *a = chain.positions.at(i - 1, ca), *b = chain.positions.at(i, ca);
    if (chain.mask(i - 1, ca) * chain.mask(i, ca) == 1 &&
        std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]) > farthestNeighbours)
      return true;
  }
  return false;
}

Placed placeFromFile(const Hit& hit, std::int64_t length, const TemplateOptions& options) {
  const fs::path path = structureFile(options.structures, hit.structure());
  if (path.empty())
    models::fail(ErrorKind::missing, "there is no {}.cif in {}", printable(hit.structure()),
                 options.structures.string());
  const Structure structure = parseMmcif(readText(path));
  if (!options.latestRelease.empty() &&
      (structure.releaseDate.empty() || structure.releaseDate > options.latestRelease))
    models::fail(ErrorKind::input, "it was released {}; the latest is to be {}",
                 structure.releaseDate.empty() ? "at an unknown time" : structure.releaseDate,
                 options.latestRelease);
  const ChainStructure* chain = structure.chain(hit.chain());
  if (!chain)
    models::fail(ErrorKind::input, "{} has no chain {} of a protein", path.string(),
                 inQuotes(hit.chain()));
  if (hasFarNeighbours(*chain))
    models::fail(ErrorKind::input, "neighbours are more than {} angstrom apart",
                 farthestNeighbours);
  Placed placed = place(hit, *chain, length);
  if (std::ranges::none_of(placed.mask.values, [](float seen) { return seen == 1; }))
    models::fail(ErrorKind::input, "{} has no atom at an aligned residue", path.string());
  return placed;
}

Templates joined(const std::vector<std::pair<const Hit*, Placed>>& placed, std::int64_t length) {
  const auto count = std::ssize(placed);
  Templates all{{},
                Array<std::uint8_t>({count, length}),
                Array<float>({count, length, atomTypes, 3}),
                Array<float>({count, length, atomTypes}),
                {}};
  for (std::int64_t i = 0; i < count; ++i) {
    const auto& [hit, one] = placed[i];
    all.names.push_back(hit->structure() + '_' + hit->chain());
    all.sumProbs.push_back(float(hit->sumProbs));
    std::ranges::copy(one.aatype, all.aatype.at(i));
    std::ranges::copy(one.positions.values, all.positions.at(i));
    std::ranges::copy(one.mask.values, all.mask.at(i));
  }
  return all;
}

} // namespace

fs::path structureFile(const fs::path& folder, const std::string& id) {
  const bool isName = !id.empty() && std::ranges::all_of(id, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '.';
  });
  std::error_code none;
  for (const char* ending : {".cif", ".cif.gz"})
    if (const fs::path path = folder / (id + ending); isName && fs::is_regular_file(path, none))
      return path;
  return {};
}

Templates makeTemplates(const std::string& query, std::span<const Hit> hits,
                        const TemplateOptions& options, std::vector<LeftOut>& leftOut) {
  std::vector<const Hit*> sorted;
  for (const Hit& hit : hits)
    sorted.push_back(&hit);
  std::ranges::stable_sort(sorted, std::greater(), &Hit::sumProbs);
  std::vector<std::pair<const Hit*, Placed>> placed;
  for (const Hit* hit : sorted) {
    if (std::ssize(placed) >= options.most)
      break;
    std::string reason = reasonAgainst(*hit, query);
    if (reason.empty()) {
      try {
        placed.emplace_back(hit, placeFromFile(*hit, std::ssize(query), options));
      } catch (const Error& error) {
        reason = error.what();
      }
    }
    if (!reason.empty())
      leftOut.push_back({"template " + printable(hit->name), reason});
  }
  return joined(placed, std::ssize(query));
}

} // namespace kiln::alphafold
