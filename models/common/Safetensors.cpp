// See Safetensors.h. The elements' offsets count from the end of the header.
#include "models/common/Safetensors.h"

#include "models/common/Fail.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace kiln::models {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr std::pair<at::ScalarType, const char*> dtypes[] = {
    {at::kDouble, "F64"}, {at::kFloat, "F32"}, {at::kHalf, "F16"},  {at::kBFloat16, "BF16"},
    {at::kLong, "I64"},   {at::kInt, "I32"},   {at::kShort, "I16"}, {at::kUInt16, "U16"},
    {at::kChar, "I8"},    {at::kByte, "U8"},   {at::kBool, "BOOL"}};
constexpr std::int64_t longestHeader = 100'000'000; // as in the format's own reader

const char* nameOf(at::ScalarType type) {
  const auto* found =
      std::ranges::find(dtypes, type, &std::pair<at::ScalarType, const char*>::first);
  if (found == std::end(dtypes))
    fail(ErrorKind::input, "a tensor of {}: a safetensors file cannot hold it",
         c10::toString(type));
  return found->second;
}

/// A file that is written in order and reaches the disk before it is closed.
class Output {
 public:
  explicit Output(const fs::path& path)
      : path(path), file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) {
    if (file < 0)
      failed("be made");
  }
  ~Output() { close(file); }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  void write(const void* data, std::size_t size) {
    const auto* at = static_cast<const char*>(data);
    while (size > 0) {
      const ssize_t written = ::write(file, at, size);
      if (written < 0 && errno == EINTR)
        continue;
      if (written < 0)
        failed("be written");
      at += written;
      size -= static_cast<std::size_t>(written);
    }
  }
  void sync() {
    if (fsync(file) != 0)
      failed("be synchronised");
  }

 private:
  [[noreturn]] void failed(const char* what) {
    fail(ErrorKind::io, "{} cannot {}: {}", path.string(), what, std::strerror(errno));
  }
  fs::path path;
  int file;
};

void syncFolder(const fs::path& folder) {
  const int file = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0)
    return;
  fsync(file); // a folder that cannot be synchronised keeps its files all the same
  close(file);
}

std::string headerOf(const std::vector<NamedTensor>& tensors, const Metadata& metadata) {
  json header = json::object();
  if (!metadata.empty())
    header["__metadata__"] = metadata;
  std::size_t offset = 0;
  for (const NamedTensor& one : tensors) {
    const std::size_t end = offset + one.tensor.nbytes();
    if (header.contains(one.name))
      fail(ErrorKind::input, "two tensors are called {}", one.name);
    header[one.name] = {{"dtype", nameOf(one.tensor.scalar_type())},
                        {"shape", one.tensor.sizes().vec()},
                        {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

} // namespace

void writeSafetensors(const fs::path& path, const std::vector<NamedTensor>& tensors,
                      const Metadata& metadata) {
  std::vector<NamedTensor> sorted = tensors; // large elements first: all are aligned
  std::ranges::stable_sort(sorted, std::greater(),
                           [](const NamedTensor& one) { return one.tensor.element_size(); });
  const std::string header = headerOf(sorted, metadata);
  const fs::path partial = path.string() + ".partial";
  {
    Output file(partial);
    const std::uint64_t size = header.size();
    file.write(&size, sizeof size);
    file.write(header.data(), header.size());
    for (const NamedTensor& one : sorted) {
      const at::Tensor onHost = one.tensor.detach().to(at::kCPU).contiguous();
      file.write(onHost.const_data_ptr(), onHost.nbytes());
    }
    file.sync();
  }
  fs::rename(partial, path);
  syncFolder(path.parent_path());
}

Safetensors::Safetensors(const fs::path& path) : path(path) {
  std::error_code error;
  const auto size = static_cast<std::int64_t>(fs::file_size(path, error));
  if (error)
    fail(ErrorKind::missing, "{} cannot be read: {}", path.string(), error.message());
  if (size < 8)
    fail(ErrorKind::corrupt, "{} has {} bytes; a safetensors file has at least 8", path.string(),
         size);
  const at::Tensor all = at::from_file(path.string(), /*shared=*/false, size, at::kByte);
  std::uint64_t length = 0;
  std::memcpy(&length, all.const_data_ptr(), sizeof length);
  if (length > std::uint64_t(std::min(size - 8, longestHeader)))
    fail(ErrorKind::corrupt,
         "{} is no safetensors file: its header would have {} bytes; {} follow, and {} are allowed",
         path.string(), length, size - 8, longestHeader);
  const auto header = static_cast<std::int64_t>(length);
  bytes = all.slice(0, 8 + header);
  parse({static_cast<const char*>(all.const_data_ptr()) + 8, length});
}

void Safetensors::parse(const std::string& header) {
  try {
    const json parsed = json::parse(header);
    for (const auto& [name, value] : parsed.items())
      if (name == "__metadata__")
        texts = value.get<Metadata>();
      else
        entries.emplace(name, parseEntry(name, value));
  } catch (const json::exception& error) {
    fail(ErrorKind::corrupt, "{}: its header is not as it should be: {}", path.string(),
         error.what());
  }
  std::vector<std::pair<std::int64_t, std::int64_t>> spans;
  for (const auto& [name, entry] : entries)
    spans.emplace_back(entry.begin, entry.end);
  std::ranges::sort(spans);
  std::int64_t covered = 0;
  for (auto [begin, end] : spans) {
    if (begin != covered)
      fail(ErrorKind::corrupt, "{}: tensors end at byte {} and go on at byte {}", path.string(),
           covered, begin);
    covered = end;
  }
  if (covered != bytes.numel())
    fail(ErrorKind::corrupt, "{}: tensors take {} bytes, and the file holds {}; is it cut off?",
         path.string(), covered, bytes.numel());
}

Safetensors::Entry Safetensors::parseEntry(const std::string& name, const auto& value) const {
  const auto dtype = value.at("dtype").template get<std::string>();
  const auto* known = std::ranges::find_if(dtypes, [&](auto& d) { return d.second == dtype; });
  if (known == std::end(dtypes))
    fail(ErrorKind::corrupt, "{}: {} has the dtype {}, which is not read", path.string(), name,
         dtype);
  Entry entry{known->first, value.at("shape").template get<std::vector<std::int64_t>>(), 0, 0};
  const auto offsets = value.at("data_offsets").template get<std::array<std::int64_t, 2>>();
  entry.begin = offsets[0];
  entry.end = offsets[1];
  auto expected = static_cast<std::int64_t>(c10::elementSize(entry.dtype));
  for (std::int64_t extent : entry.shape)
    if (extent < 0 || __builtin_mul_overflow(expected, extent, &expected))
      fail(ErrorKind::corrupt, "{}: {} has the shape [{}]", path.string(), name,
           fmt::join(entry.shape, ", "));
  if (entry.begin < 0 || entry.end - entry.begin != expected || entry.end > bytes.numel())
    fail(ErrorKind::corrupt,
         "{}: {} {} [{}] takes {} bytes, and its offsets are {} to {} of {} bytes", path.string(),
         name, dtype, fmt::join(entry.shape, ", "), expected, entry.begin, entry.end,
         bytes.numel());
  return entry;
}

const std::string& Safetensors::text(const std::string& key) const {
  const auto found = texts.find(key);
  if (found == texts.end())
    fail(ErrorKind::corrupt, "{} has no '{}' in its metadata", path.string(), key);
  return found->second;
}

std::vector<std::string> Safetensors::names() const {
  std::vector<std::string> all;
  for (const auto& [name, entry] : entries)
    all.push_back(name);
  return all;
}

at::Tensor Safetensors::tensor(const std::string& name) const {
  const auto found = entries.find(name);
  if (found == entries.end())
    fail(ErrorKind::corrupt, "{} has no tensor {}; it has {} others", path.string(), name,
         entries.size());
  const Entry& entry = found->second;
  at::Tensor raw = bytes.slice(0, entry.begin, entry.end);
  if (raw.storage_offset() % static_cast<std::int64_t>(c10::elementSize(entry.dtype)) != 0)
    raw = raw.clone(); // by a writer that does not align
  return raw.view(entry.dtype).view(entry.shape);
}

void Safetensors::read(const std::string& name, at::Tensor& into) const {
  const at::Tensor found = tensor(name);
  if (found.scalar_type() != into.scalar_type() || found.sizes() != into.sizes())
    fail(ErrorKind::corrupt, "{}: {} is {} [{}], and {} [{}] is needed", path.string(), name,
         c10::toString(found.scalar_type()), fmt::join(found.sizes(), ", "),
         c10::toString(into.scalar_type()), fmt::join(into.sizes(), ", "));
  into.copy_(found);
}

} // namespace kiln::models
