// See AlignmentFolder.h.
#include "models/alphafold/features/AlignmentFolder.h"

#include "models/alphafold/features/Cache.h"
#include "models/common/Fail.h"

#include <algorithm>

namespace kiln::alphafold {

namespace fs = std::filesystem;

namespace {

/// The ending of a name, without .gz.
std::string kindOf(const fs::path& path) {
  return (path.extension() == ".gz" ? path.stem() : path).extension().string();
}

} // namespace

AlignmentFolder::AlignmentFolder(const fs::path& folder, std::vector<LeftOut>& leftOut)
    : folder(folder) {
  std::vector<fs::path> files;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none))
    if (const std::string kind = kindOf(entry.path());
        kind == ".a3m" || kind == ".sto" || kind == ".hhr")
      files.push_back(entry.path());
  std::ranges::sort(files);
  for (const fs::path& file : files)
    try {
      texts.push_back(readText(file));
      allHash = hashOf(allHash + hashOf(texts.back().contents) + kindOf(file));
    } catch (const Error& error) {
      leftOut.push_back({file.string(), error.what()});
    }
}

void AlignmentFolder::parse(std::vector<LeftOut>& leftOut) {
  if (std::exchange(isParsed, true))
    return;
  for (Text& text : texts) {
    const std::string kind = kindOf(text.name);
    try {
      if (kind == ".hhr")
        std::ranges::move(parseHhr(text), std::back_inserter(allHits));
      else
        parsed.push_back({kind == ".sto" ? parseStockholm(text) : parseA3m(text), false, {}});
    } catch (const Error& error) {
      leftOut.push_back({text.name, error.what()});
    }
    text.contents = {}; // which may be hundreds of megabytes
  }
}

std::vector<Alignment> AlignmentFolder::alignmentsOf(const std::string& sequence,
                                                     std::vector<LeftOut>& leftOut) {
  parse(leftOut);
  std::vector<Alignment> own;
  for (Parsed& one : parsed) {
    one.why = otherQuery(sequence, one.alignment);
    if (!one.why.empty())
      continue;
    one.isUsed = true;
    own.push_back(one.alignment);
  }
  return own;
}

const std::vector<Hit>& AlignmentFolder::hits(std::vector<LeftOut>& leftOut) {
  parse(leftOut);
  return allHits;
}

void AlignmentFolder::leaveUnused(const std::string& owner, std::vector<LeftOut>& leftOut) const {
  for (const Parsed& one : parsed)
    if (!one.isUsed && !one.why.empty())
      leftOut.push_back({one.alignment.source, "it is of no chain of " + owner + ": " + one.why});
}

} // namespace kiln::alphafold
