// Chains on disk, a file each: made once, read at every step. A file is there whole or not at all,
// whoever else writes it, and is checked when it is read.
//
//   bytes      what
//   8          "KILNFOLD"
//   4, 4       version of the format; bytes of the description
//   8, 8       bytes of the chain, packed by zstd and as they were
//   8, 8       xxHash (XXH3, 64 bits) of the 32 bytes above and the description; of the packed
//   chain
//   ...        description: JSON of what a sampler asks (CacheEntry)
//   ...        the chain, packed
// Numbers are little-endian.
#pragma once

#include "models/alphafold/features/Chain.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace kiln::alphafold {

/// What is known of a cached chain without unpacking it.
struct CacheEntry {
  std::filesystem::path path;
  std::string name;        // 1k1a_A
  std::string origin;      // a hash of what it was made from: files and options
  std::string releaseDate; // or empty
  std::int64_t length = 0, resolved = 0, msaRows = 0, templates = 0;
  double resolution = 0;    // angstrom; 0: none
  double commonestType = 0; // share of the residue type that is there most often
};

/// Names that a file may have: letters, digits, '_', '-' and '.', not first; at most 200 bytes.
bool isChainName(std::string_view name);

/// FOLDER/NAME.features. Throws Error(input) for a name that is none.
std::filesystem::path cacheFile(const std::filesystem::path& folder, const std::string& name);

/// Replaces or makes the chain's file in a folder, which is made too. Throws Error(io), and
/// Error(input) for a name that is none.
CacheEntry writeChain(const std::filesystem::path& folder, const Chain& chain,
                      const std::string& origin);

/// Throws Error(io), and Error(corrupt) naming the file, for what is cut off, altered, of another
/// version, or not as it should be.
CacheEntry readEntry(const std::filesystem::path& path);
Chain readChain(const std::filesystem::path& path);

/// All chains of a folder by name. Throws Error(missing) if there is none.
std::vector<CacheEntry> readCache(const std::filesystem::path& folder);

/// Names in a list such as 1k1a_A,102m_A.
std::vector<std::string> namesIn(const std::string& list);

/// Those of the chains that are named; of no name all. Throws Error(missing) if one is not there.
std::vector<CacheEntry> chosen(const std::vector<CacheEntry>& chains,
                               const std::vector<std::string>& names);

/// Of bytes, in hexadecimal, for `origin`.
std::string hashOf(std::string_view bytes);

} // namespace kiln::alphafold
