// See Cache.h.
#include "models/alphafold/features/Cache.h"

#include "kiln/files.h"
#include "models/alphafold/features/Chemistry.h"
#include "models/alphafold/features/Packed.h"
#include "models/alphafold/features/Text.h"
#include "models/common/Fail.h"
#include "models/common/Folder.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace kiln::alphafold {

namespace fs = std::filesystem;
using nlohmann::json;

static_assert(std::endian::native == std::endian::little);

namespace {

constexpr char magic[9] = "KILNFOLD";
constexpr std::uint32_t formatVersion = 1;
constexpr std::uint32_t longestDescription = 1 << 16; // bytes
constexpr const char* ending = ".features";

struct CacheHeader {
  char magic[8];
  std::uint32_t version, descriptionBytes;
  std::uint64_t packedBytes, plainBytes;
  std::uint64_t descriptionHash, packedHash;

  std::string_view hashed() const { return {magic, offsetof(CacheHeader, descriptionHash)}; }
};
static_assert(sizeof(CacheHeader) == 48);

std::uint64_t hash(std::string_view one, std::string_view other = {}) {
  return XXH3_64bits_withSeed(other.data(), other.size(), XXH3_64bits(one.data(), one.size()));
}

[[noreturn]] void refuseCache(const fs::path& path, const std::string& why) {
  models::fail(ErrorKind::corrupt, "{}: {}; remove it and run alphafold_features again",
               path.string(), why);
}

json describe(const CacheEntry& entry) {
  return {{"name", entry.name},
          {"origin", entry.origin},
          {"release_date", entry.releaseDate},
          {"length", entry.length},
          {"resolved", entry.resolved},
          {"msa_rows", entry.msaRows},
          {"templates", entry.templates},
          {"resolution", entry.resolution},
          {"commonest_type", entry.commonestType}};
}

CacheEntry entryOf(const fs::path& path, std::string_view description) try {
  const json object = json::parse(description);
  CacheEntry entry{path,
                   object.at("name"),
                   object.at("origin"),
                   object.at("release_date"),
                   object.at("length"),
                   object.at("resolved"),
                   object.at("msa_rows"),
                   object.at("templates"),
                   object.at("resolution"),
                   object.at("commonest_type")};
  if (entry.length < 1 || entry.msaRows < 1 || entry.templates < 0)
    refuseCache(path, fmt::format("it would hold {} residues, {} rows and {} templates",
                                  entry.length, entry.msaRows, entry.templates));
  return entry;
} catch (const json::exception& error) {
  refuseCache(path, std::string("its description is not as it should be: ") + error.what());
}

CacheHeader checkedHeader(const fs::path& path, std::string_view bytes, std::uint64_t size) {
  CacheHeader header{};
  if (bytes.size() < sizeof header)
    refuseCache(path, fmt::format("it has {} bytes; a header has {}", size, sizeof header));
  std::memcpy(&header, bytes.data(), sizeof header);
  if (std::memcmp(header.magic, magic, sizeof header.magic) != 0)
    refuseCache(path, "it does not begin with 'KILNFOLD': it is another kind of file");
  if (header.version != formatVersion)
    refuseCache(path, fmt::format("its format has version {}, and {} is read", header.version,
                                  formatVersion));
  if (header.descriptionBytes > longestDescription)
    refuseCache(path, fmt::format("its description would have {} bytes; {} are allowed",
                                  header.descriptionBytes, longestDescription));
  const std::uint64_t before = sizeof header + header.descriptionBytes;
  if (before > size || header.packedBytes != size - before)
    refuseCache(path,
                fmt::format("header and description take {} bytes and the chain {}, but it has "
                            "{}: it is cut off or was appended to",
                            before, header.packedBytes, size));
  return header;
}

std::string_view checkedDescription(const fs::path& path, const CacheHeader& header,
                                    std::string_view bytes) {
  const std::string_view description = bytes.substr(sizeof header, header.descriptionBytes);
  if (description.size() != header.descriptionBytes ||
      hash(header.hashed(), description) != header.descriptionHash)
    refuseCache(path, "its description has another hash than it says: it was altered");
  return description;
}

CacheEntry entryFor(const Chain& chain, const std::string& origin) {
  const int ca = *chemistry().atomOfName("CA");
  CacheEntry entry;
  entry.name = chain.name;
  entry.origin = origin;
  entry.releaseDate = chain.releaseDate;
  entry.length = chain.length();
  entry.msaRows = chain.msa.rows();
  entry.templates = chain.templates.size();
  entry.resolution = chain.resolution;
  for (std::int64_t r = 0; r < chain.length(); ++r)
    entry.resolved += chain.mask(r, ca) > 0 ? 1 : 0;
  for (char letter : chemistry().letters)
    entry.commonestType = std::max(
        entry.commonestType, double(std::ranges::count(chain.sequence, letter)) / entry.length);
  return entry;
}

} // namespace

bool isChainName(std::string_view name) {
  constexpr std::size_t longest = 200;
  return !name.empty() && name.size() <= longest && name[0] != '.' &&
         std::ranges::all_of(name, [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
         });
}

fs::path cacheFile(const fs::path& folder, const std::string& name) {
  if (!isChainName(name))
    models::fail(ErrorKind::input,
                 "'{}' cannot name a chain: letters, digits, '_', '-' and '.' can",
                 printable(name));
  return folder / (name + ending);
}

CacheEntry writeChain(const fs::path& folder, const Chain& chain, const std::string& origin) {
  CacheEntry entry = entryFor(chain, origin);
  entry.path = cacheFile(folder, chain.name);
  const std::string description = describe(entry).dump(), plain = packed::plainBytes(chain),
                    bytes = packed::compress(plain);
  CacheHeader header{};
  std::memcpy(header.magic, magic, sizeof header.magic);
  header.version = formatVersion;
  header.descriptionBytes = static_cast<std::uint32_t>(description.size());
  header.packedBytes = bytes.size();
  header.plainBytes = plain.size();
  header.descriptionHash = hash(header.hashed(), description);
  header.packedHash = hash(bytes);
  models::makeFolder(folder);
  std::string file(reinterpret_cast<const char*>(&header), sizeof header);
  writeFile(entry.path, std::string_view(file.append(description).append(bytes)));
  return entry;
}

CacheEntry readEntry(const fs::path& path) {
  std::error_code error;
  const std::uint64_t size = fs::file_size(path, error);
  std::ifstream file(path, std::ios::binary);
  if (error || !file)
    models::fail(ErrorKind::io, "{} cannot be read: {}", path.string(),
                 error ? error.message() : std::strerror(errno));
  std::string bytes(std::min<std::uint64_t>(size, sizeof(CacheHeader)), '\0');
  file.read(bytes.data(), std::ssize(bytes));
  const CacheHeader header = checkedHeader(path, bytes, size);
  bytes.resize(sizeof header + header.descriptionBytes);
  file.read(bytes.data() + sizeof header, header.descriptionBytes);
  return entryOf(path, checkedDescription(path, header, bytes));
}

Chain readChain(const fs::path& path) {
  const std::string bytes = readFile(path);
  const CacheHeader header = checkedHeader(path, bytes, bytes.size());
  const CacheEntry entry = entryOf(path, checkedDescription(path, header, bytes));
  const auto packedChain = std::string_view(bytes).substr(sizeof header + header.descriptionBytes);
  if (hash(packedChain) != header.packedHash)
    refuseCache(path, "the chain has another hash than it says: it was altered");
  try {
    Chain chain = packed::chainOf(packed::decompress(packedChain, header.plainBytes));
    if (chain.name != entry.name || chain.length() != entry.length ||
        chain.msa.rows() != entry.msaRows || chain.templates.size() != entry.templates)
      models::fail(ErrorKind::corrupt, "the chain is not the one that is described");
    return chain;
  } catch (const Error& error) {
    refuseCache(path, error.what());
  }
}

std::vector<CacheEntry> readCache(const fs::path& folder) {
  std::vector<CacheEntry> entries;
  std::error_code error;
  for (const auto& file : fs::directory_iterator(folder, error))
    if (file.path().extension() == ending)
      entries.push_back(readEntry(file.path()));
  if (error)
    models::fail(ErrorKind::missing, "{} cannot be read: {}", folder.string(), error.message());
  if (entries.empty())
    models::fail(ErrorKind::missing, "{} holds no chain (*{}); alphafold_features makes them",
                 folder.string(), ending);
  std::ranges::sort(entries, {}, &CacheEntry::name);
  return entries;
}

std::vector<std::string> namesIn(const std::string& list) {
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin < list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    names.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

std::vector<CacheEntry> chosen(const std::vector<CacheEntry>& chains,
                               const std::vector<std::string>& names) {
  if (names.empty())
    return chains;
  std::vector<CacheEntry> found;
  for (const CacheEntry& one : chains)
    if (std::ranges::find(names, one.name) != names.end())
      found.push_back(one);
  for (const std::string& name : names)
    if (std::ranges::none_of(found, [&](const CacheEntry& one) { return one.name == name; }))
      models::fail(ErrorKind::missing, "--chains: there is no {} among {} chains{}", inQuotes(name),
                   chains.size(), chains.empty() ? "" : ", such as " + chains.front().name);
  return found;
}

std::string hashOf(std::string_view bytes) {
  return fmt::format("{:016x}", hash(bytes));
}

} // namespace kiln::alphafold
