// See Packed.h.
#include "models/alphafold/features/Packed.h"

#include "models/alphafold/features/Chemistry.h"
#include "models/common/Fail.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <zstd.h>

namespace kiln::alphafold::packed {

namespace {

constexpr std::uint64_t largestChain = std::uint64_t(4) << 30; // bytes

/// Members of a chain in the order of the file. To is a Writer or a Reader.
template <typename To, typename Of> void eachMember(To& to, Of& chain) {
  to.text(chain.name);
  to.text(chain.sequence);
  to.text(chain.releaseDate);
  to.number(chain.resolution);
  to.array(chain.positions);
  to.array(chain.mask);
  to.array(chain.msa.types);
  to.array(chain.msa.deletions);
  to.list(chain.templates.names);
  to.list(chain.templates.sumProbs);
  to.array(chain.templates.aatype);
  to.array(chain.templates.positions);
  to.array(chain.templates.mask);
}

class Writer {
 public:
  template <typename T> void number(const T& value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void text(const std::string& value) {
    number(std::uint64_t(value.size()));
    bytes += value;
  }
  void list(const std::vector<std::string>& values) {
    number(std::uint64_t(values.size()));
    for (const std::string& value : values)
      text(value);
  }
  template <typename T> void list(const std::vector<T>& values) {
    number(std::uint64_t(values.size()));
    bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  }
  template <typename T> void array(const Array<T>& value) {
    list(value.shape);
    list(value.values);
  }

  std::string bytes;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest(bytes) {}

  template <typename T> void number(T& value) {
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
  }
  void text(std::string& value) { value = take(count(1)); }
  void list(std::vector<std::string>& values) {
    values.resize(count(sizeof(std::uint64_t)));
    for (std::string& value : values)
      text(value);
  }
  template <typename T> void list(std::vector<T>& values) {
    values.resize(count(sizeof(T)));
    const std::string_view from = take(values.size() * sizeof(T));
    if (!from.empty())
      std::memcpy(values.data(), from.data(), from.size());
  }
  template <typename T> void array(Array<T>& value) {
    list(value.shape);
    list(value.values);
  }
  bool isAtEnd() const { return rest.empty(); }

 private:
  /// How many elements of so many bytes, which are there.
  std::size_t count(std::size_t bytes) {
    std::uint64_t value = 0;
    number(value);
    if (value > rest.size() / bytes)
      models::fail(ErrorKind::corrupt, "it would go on for {} elements; {} bytes are left", value,
                   rest.size());
    return value;
  }
  std::string_view take(std::size_t bytes) {
    if (bytes > rest.size())
      models::fail(ErrorKind::corrupt, "the chain ends early");
    const std::string_view taken = rest.substr(0, bytes);
    rest.remove_prefix(bytes);
    return taken;
  }

  std::string_view rest;
};

template <typename T>
void checkArray(const char* name, const Array<T>& array, const std::vector<std::int64_t>& shape) {
  if (array.shape != shape || std::ssize(array.values) != Array<T>::elements(shape))
    models::fail(ErrorKind::corrupt, "its {} have another size than its {} residues ask for", name,
                 shape.back());
}

void checkTypes(const char* name, const Array<std::uint8_t>& types) {
  for (std::uint8_t type : types.values)
    if (type > gapType)
      models::fail(ErrorKind::corrupt, "its {} hold the residue type {}; {} is the last", name,
                   type, gapType);
}

void checkFinite(const char* name, const std::vector<float>& values) {
  if (!std::ranges::all_of(values, [](float x) { return std::isfinite(x); }))
    models::fail(ErrorKind::corrupt, "its {} are not all finite", name);
}

void checkChain(const Chain& chain) {
  const std::int64_t length = chain.length(), rows = chain.msa.rows(),
                     count = chain.templates.size();
  if (length == 0 || rows < 1 || rows > std::ssize(chain.msa.types.values) ||
      chain.sequence.find_first_not_of(chemistry().letters) != std::string::npos)
    models::fail(ErrorKind::corrupt, "its sequence or its alignment is none");
  checkArray("positions", chain.positions, {length, atomTypes, 3});
  checkArray("masks", chain.mask, {length, atomTypes});
  checkArray("alignments", chain.msa.types, {rows, length});
  checkArray("deletions", chain.msa.deletions, {rows, length});
  if (count > 0 || !chain.templates.aatype.shape.empty()) {
    checkArray("templates", chain.templates.aatype, {count, length});
    checkArray("templates' positions", chain.templates.positions, {count, length, atomTypes, 3});
    checkArray("templates' masks", chain.templates.mask, {count, length, atomTypes});
  }
  if (std::ssize(chain.templates.sumProbs) != count)
    models::fail(ErrorKind::corrupt, "it has {} templates and {} sums of probabilities", count,
                 chain.templates.sumProbs.size());
  checkTypes("alignments", chain.msa.types);
  checkTypes("templates", chain.templates.aatype);
  for (const auto* values :
       {&chain.positions.values, &chain.mask.values, &chain.templates.positions.values,
        &chain.templates.mask.values, &chain.templates.sumProbs})
    checkFinite("numbers", *values);
}

} // namespace

std::string plainBytes(const Chain& chain) {
  Writer writer;
  eachMember(writer, chain);
  return std::move(writer.bytes);
}

Chain chainOf(std::string_view bytes) {
  Chain chain;
  Reader reader(bytes);
  eachMember(reader, chain);
  if (!reader.isAtEnd())
    models::fail(ErrorKind::corrupt, "more follows behind the chain");
  checkChain(chain);
  return chain;
}

std::string compress(std::string_view bytes) {
  std::string result(ZSTD_compressBound(bytes.size()), '\0');
  constexpr int level = 3;
  const std::size_t size =
      ZSTD_compress(result.data(), result.size(), bytes.data(), bytes.size(), level);
  if (ZSTD_isError(size) != 0)
    models::fail(ErrorKind::io, "cannot pack {} bytes: {}", bytes.size(), ZSTD_getErrorName(size));
  result.resize(size);
  return result;
}

std::string decompress(std::string_view bytes, std::uint64_t size) {
  if (size > largestChain || ZSTD_getFrameContentSize(bytes.data(), bytes.size()) != size)
    models::fail(ErrorKind::corrupt,
                 "it would unpack to {} bytes; its frame says another size, or that is "
                 "more than {}",
                 size, largestChain);
  std::string result(size, '\0');
  const std::size_t got = ZSTD_decompress(result.data(), result.size(), bytes.data(), bytes.size());
  if (ZSTD_isError(got) != 0 || got != size)
    models::fail(ErrorKind::corrupt, "it cannot be unpacked: {}",
                 ZSTD_isError(got) != 0 ? ZSTD_getErrorName(got) : "it is shorter than it says");
  return result;
}

} // namespace kiln::alphafold::packed
