// The table of a list of tensors; device/segment.cuh says what it looks like.
#include "kiln/lists.h"

#include "codegen/backend/Driver.h"
#include "codegen/backend/Fail.h"

#include <algorithm>

namespace kiln {

namespace {

constexpr std::int64_t maxChunks = 2147483647; // blocks in x that the hardware takes
constexpr std::uintptr_t vectorBytes = 16;

void checkCounts(const std::vector<TensorInfo>& infos, const char* role,
                 std::span<const TensorList> lists, std::size_t entries) {
  if (lists.size() != infos.size())
    fail(ErrorKind::input, "{} {} lists given, the program has {}; pass them in its order",
         lists.size(), role, infos.size());
  for (std::size_t i = 0; i < lists.size(); ++i)
    if (lists[i].size() != entries)
      fail(ErrorKind::input,
           "{} list '{}' has {} tensors, the first list has {}; all lists have as many", role,
           infos[i].name, lists[i].size(), entries);
}

/// Elements of a contiguous tensor.
std::int64_t lengthOf(const Buffer& tensor, const std::string& name) {
  std::int64_t length = 1;
  bool isEmpty = std::ranges::find(tensor.sizes, 0) != tensor.sizes.end();
  for (std::size_t d = tensor.sizes.size(); d-- > 0;) {
    if (tensor.sizes[d] < 0)
      fail(ErrorKind::input, "{}: dimension {} is {}; allowed are 0 or more", name, d,
           tensor.sizes[d]);
    bool strided = !tensor.strides.empty() && tensor.sizes[d] > 1 && !isEmpty;
    if (strided && (tensor.strides.size() != tensor.sizes.size() || tensor.strides[d] != length))
      fail(ErrorKind::input, "{}: is not contiguous; lists are made of contiguous tensors", name);
    if (__builtin_mul_overflow(length, isEmpty ? 0 : tensor.sizes[d], &length))
      fail(ErrorKind::input, "{}: the number of elements does not fit in 64 bits", name);
  }
  return length;
}

/// Checks one tensor and returns its address.
std::uintptr_t addressOf(const TensorInfo& info, const Buffer& tensor, std::size_t entry,
                         std::int64_t length) {
  std::string name = fmt::format("'{}[{}]'", info.name, entry);
  if (std::int64_t own = lengthOf(tensor, name); own != length)
    fail(ErrorKind::input,
         "{}: {} elements, the first list's tensor {} has {}; the tensors of an entry have one "
         "length",
         name, own, entry, length);
  auto address = reinterpret_cast<std::uintptr_t>(tensor.data);
  if (length > 0 && address == 0)
    fail(ErrorKind::input,
         "{}: the pointer is null and the tensor has {} elements; only an empty tensor may have "
         "none",
         name, length);
  if (std::size_t size = sizeInBytes(info.dtype); length > 0 && address % size != 0)
    fail(ErrorKind::input, "{}: the pointer is not a multiple of the element's {} bytes", name,
         size);
  return address;
}

} // namespace

/// For each entry: 2 * length + whether all its pointers are aligned, then the pointers.
std::vector<std::uint64_t> TensorLists::recordsOf(const ListsInfo& info,
                                                  std::span<const TensorList> inputs,
                                                  std::span<const TensorList> outputs) const {
  if (info.chunk <= 0)
    fail(ErrorKind::input, "the program is not over lists of tensors; launch it as it is");
  const std::size_t entries = inputs.empty() ? 0 : inputs[0].size();
  checkCounts(info.inputs, "input", inputs, entries);
  checkCounts(info.outputs, "output", outputs, entries);
  std::vector<std::uint64_t> records;
  for (std::size_t entry = 0; entry < entries; ++entry) {
    std::int64_t length =
        lengthOf(inputs[0][entry], fmt::format("'{}[{}]'", info.inputs[0].name, entry));
    std::size_t header = records.size();
    records.push_back(0);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      records.push_back(addressOf(info.inputs[i], inputs[i][entry], entry, length));
    for (std::size_t i = 0; i < outputs.size(); ++i)
      records.push_back(addressOf(info.outputs[i], outputs[i][entry], entry, length));
    bool aligned = std::all_of(records.begin() + header + 1, records.end(),
                               [](std::uint64_t pointer) { return pointer % vectorBytes == 0; });
    records[header] = 2 * static_cast<std::uint64_t>(length) + aligned;
  }
  return records;
}

TensorLists::TensorLists(const ListsInfo& info, std::span<const TensorList> inputs,
                         std::span<const TensorList> outputs) {
  const std::vector<std::uint64_t> records = recordsOf(info, inputs, outputs);
  entryCount = inputs.empty() ? 0 : inputs[0].size();
  const std::size_t recordWords = 1 + inputs.size() + outputs.size();
  for (std::size_t entry = 0; entry < entryCount; ++entry) {
    const auto length = static_cast<std::int64_t>(records[entry * recordWords] / 2);
    std::int64_t count = length / info.chunk + (length % info.chunk != 0);
    if (count > maxChunks - chunkCount)
      fail(ErrorKind::input,
           "{} elements up to tensor {} need more than {} chunks of {}; split the list",
           elementCount + length, entry, maxChunks, info.chunk);
    for (std::int64_t chunk = 0; chunk < count; ++chunk)
      words.push_back(entry | static_cast<std::uint64_t>(chunk) << 32);
    chunkCount += count;
    elementCount += length;
  }
  words.resize((words.size() + 1) / 2 * 2);
  segmentsBegin = words.size();
  segmentWords = static_cast<std::int64_t>(records.size());
  words.insert(words.end(), records.begin(), records.end());
}

std::span<const std::byte> TensorLists::relocate(const ListsInfo& info,
                                                 std::span<const TensorList> inputs,
                                                 std::span<const TensorList> outputs) {
  const std::vector<std::uint64_t> records = recordsOf(info, inputs, outputs);
  const std::span<std::uint64_t> known = std::span(words).subspan(segmentsBegin);
  const std::size_t recordWords = 1 + inputs.size() + outputs.size();
  if (records.size() != known.size())
    fail(ErrorKind::input, "{} tensors a list given, the table was made for {}; make a new one",
         inputs.empty() ? 0 : inputs[0].size(), entryCount);
  for (std::size_t entry = 0; entry < entryCount; ++entry)
    if (records[entry * recordWords] / 2 != known[entry * recordWords] / 2)
      fail(ErrorKind::input,
           "tensor {} of the lists has {} elements, the table was made for {}; make a new one",
           entry, records[entry * recordWords] / 2, known[entry * recordWords] / 2);
  std::ranges::copy(records, known.begin());
  return std::as_bytes(known);
}

void TensorLists::upload(void* device, void* stream) const {
  const Driver& driver = Driver::get();
  driver.currentDevice(); // a thread without a context gets one
  if (words.empty())
    return;
  driver.check(driver.cuMemcpyHtoDAsync(reinterpret_cast<CuPointer>(device), words.data(),
                                        tableBytes(), static_cast<CuStream>(stream)),
               "cuMemcpyHtoDAsync");
}

std::vector<Buffer> TensorLists::inputs(const void* device, std::span<const Buffer> shared) const {
  std::vector<Buffer> all(shared.begin(), shared.end());
  auto* begin = static_cast<std::uint64_t*>(const_cast<void*>(device));
  all.push_back({begin, {chunkCount}, {}});
  all.push_back({begin + segmentsBegin, {segmentWords}, {}});
  return all;
}

} // namespace kiln
