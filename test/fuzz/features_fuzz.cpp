// Any bytes given to AlphaFold's parsers as what they read: a3m, Stockholm, FASTA, hhr, mmCIF, gzip
// or a packed chain. The first byte says which. Taken, or refused by kiln::Error; never a crash.
#include "kiln/kiln.h"
#include "models/alphafold/features/Alignments.h"
#include "models/alphafold/features/Hits.h"
#include "models/alphafold/features/Packed.h"
#include "models/alphafold/features/Structures.h"

#include <cstdlib>

namespace {

using namespace kiln::alphafold;

void parseAs(unsigned kind, const Text& text) {
  switch (kind % 7) {
  case 0:
    parseA3m(text);
    break;
  case 1:
    parseStockholm(text);
    break;
  case 2:
    parseFasta(text);
    break;
  case 3:
    parseHhr(text);
    break;
  case 4:
    parseMmcif(text);
    break;
  case 5:
    unzip(text.contents, text.name);
    break;
  default:
    packed::chainOf(text.contents);
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  if (size == 0)
    return 0;
  const Text text{"folder/fuzz", std::string(reinterpret_cast<const char*>(data) + 1, size - 1)};
  try {
    parseAs(data[0], text);
  } catch (const kiln::Error& error) {
    const std::string_view why = error.what();
    if (why.empty() || why.size() > 2000 || kiln::printable(why) != why)
      std::abort();
  }
  return 0;
}
