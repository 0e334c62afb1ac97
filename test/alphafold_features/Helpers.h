// What tests of AlphaFold's features share: messages of refusals, a folder that goes away, the real
// proteins, random chains.
#pragma once

#include "kiln/files.h"
#include "models/alphafold/features/Chain.h"
#include "models/alphafold/features/Chemistry.h"
#include "models/common/Random.h"

#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <string>

namespace kiln::alphafold::test {

namespace fs = std::filesystem;
using models::Random;

/// What a call is refused with; "no error" if it is not.
template <typename Call> std::string refusal(Call call) {
  try {
    call();
    return "no error";
  } catch (const Error& error) {
    return error.what();
  }
}

/// Of a test, removed with it.
class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "kiln-features-XXXXXX").string();
    if (!mkdtemp(name.data()))
      throw std::runtime_error("no temporary folder");
    path = name;
  }
  ~Folder() { removeFolder(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  fs::path path;
};

/// The folder with real proteins, or an empty path.
inline fs::path proteins() {
  if (const char* given = std::getenv("KILN_DATA"))
    return fs::path(given) / "proteins";
  for (fs::path at = KILN_SOURCE; at != at.root_path(); at = at.parent_path())
    if (fs::exists(at / "shared/data/proteins"))
      return at / "shared/data/proteins";
  return {};
}

#define SKIP_WITHOUT_PROTEINS()                                                                    \
  if (proteins().empty())                                                                          \
  GTEST_SKIP() << "no real proteins: KILN_DATA names the folder with proteins/"

/// A chain of random residues that are all over the place, with an alignment and templates.
inline Chain randomChain(std::int64_t length, std::int64_t rows, std::int64_t templates,
                         std::uint64_t seed) {
  Random random(seed);
  const auto types = [&](std::vector<std::int64_t> shape, std::uint64_t most) {
    Array<std::uint8_t> result(std::move(shape));
    for (std::uint8_t& type : result.values)
      type = static_cast<std::uint8_t>(random.below(most + 1));
    return result;
  };
  const auto numbers = [&](std::vector<std::int64_t> shape, double scale) {
    Array<float> result(std::move(shape));
    for (float& x : result.values)
      x = float((random.uniform() - 0.5) * scale);
    return result;
  };
  const auto mask = [&](std::vector<std::int64_t> shape) {
    Array<float> result(std::move(shape));
    for (float& x : result.values)
      x = random.uniform() < 0.9 ? 1 : 0;
    return result;
  };
  Chain chain;
  chain.name = "1abc_" + std::to_string(seed);
  for (std::int64_t r = 0; r < length; ++r)
    chain.sequence += chemistry().letters[random.below(21)];
  chain.positions = numbers({length, atomTypes, 3}, 50);
  chain.mask = mask({length, atomTypes});
  chain.resolution = 1.5;
  chain.releaseDate = "2001-02-03";
  chain.msa.types = types({rows, length}, 21);
  chain.msa.deletions = Array<std::uint16_t>({rows, length});
  for (std::uint16_t& count : chain.msa.deletions.values)
    count = random.uniform() < 0.1 ? static_cast<std::uint16_t>(random.below(9)) : 0;
  for (std::int64_t t = 0; t < templates; ++t) {
    chain.templates.names.push_back("2xyz_" + std::to_string(t));
    chain.templates.sumProbs.push_back(float(100 - t));
  }
  chain.templates.aatype = types({templates, length}, 21);
  chain.templates.positions = numbers({templates, length, atomTypes, 3}, 50);
  chain.templates.mask = mask({templates, length, atomTypes});
  return chain;
}

} // namespace kiln::alphafold::test
