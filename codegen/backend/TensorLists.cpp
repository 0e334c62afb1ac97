// The table of a list of tensors; device/segment.cuh says what it looks like.
#include "codegen/backend/ListTable.h"

#include "codegen/backend/Driver.h"
#include "codegen/backend/Fail.h"

#include <algorithm>

namespace kiln {

namespace {

constexpr std::int64_t maxChunks = 2147483647; // blocks in x that the hardware takes
constexpr std::uintptr_t vectorBytes = 16;

/// All lists of a part have as many tensors.
void checkCounts(const std::vector<TensorInfo>& infos, const char* role,
                 std::span<const TensorList> lists, int part, std::size_t entries) {
  for (std::size_t i = 0; i < lists.size(); ++i)
    if (infos[i].part == part && lists[i].size() != entries)
      fail(ErrorKind::input,
           "{} list '{}' has {} tensors, the first list{} has {}; all lists of a part have as many",
           role, infos[i].name, lists[i].size(), part > 0 ? fmt::format(" of part {}", part) : "",
           entries);
}

void checkListCount(const std::vector<TensorInfo>& infos, const char* role, std::size_t lists) {
  if (lists != infos.size())
    fail(ErrorKind::input, "{} {} lists given, the program has {}; pass them in its order", lists,
         role, infos.size());
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

void checkForm(const ListsInfo& info, std::span<const TensorList> inputs,
               std::span<const TensorList> outputs) {
  if (info.chunk <= 0)
    fail(ErrorKind::input, "the program is not over lists of tensors; launch it as it is");
  checkListCount(info.inputs, "input", inputs.size());
  checkListCount(info.outputs, "output", outputs.size());
}

} // namespace

/// For each entry of a part: 2 * length + whether all its pointers are aligned, then the pointers.
std::vector<std::uint64_t> TensorLists::recordsOf(const ListsInfo& info, int number,
                                                  std::span<const TensorList> inputs,
                                                  std::span<const TensorList> outputs, Part& part) {
  const std::size_t first = static_cast<std::size_t>(
      std::ranges::find(info.inputs, number, &TensorInfo::part) - info.inputs.begin());
  part.entries = inputs[first].size();
  checkCounts(info.inputs, "input", inputs, number, part.entries);
  checkCounts(info.outputs, "output", outputs, number, part.entries);
  std::vector<std::uint64_t> records;
  for (std::size_t entry = 0; entry < part.entries; ++entry) {
    std::int64_t length =
        lengthOf(inputs[first][entry], fmt::format("'{}[{}]'", info.inputs[first].name, entry));
    std::size_t header = records.size();
    records.push_back(0);
    auto add = [&](const std::vector<TensorInfo>& infos, std::span<const TensorList> lists) {
      for (std::size_t i = 0; i < lists.size(); ++i)
        if (infos[i].part == number)
          records.push_back(addressOf(infos[i], lists[i][entry], entry, length));
    };
    add(info.inputs, inputs);
    add(info.outputs, outputs);
    part.recordWords = records.size() - header;
    bool aligned = std::all_of(records.begin() + header + 1, records.end(),
                               [](std::uint64_t pointer) { return pointer % vectorBytes == 0; });
    records[header] = 2 * static_cast<std::uint64_t>(length) + aligned;
  }
  return records;
}

std::vector<ListedTensor> tensorsOfTable(const ListsInfo& info, int part, const Buffer& records) {
  std::vector<ListedTensor> tensors;
  const auto* word = static_cast<const std::uint64_t*>(records.data);
  const std::uint64_t* end = word + records.sizes[0];
  for (std::size_t entry = 0; word < end; ++entry) {
    const std::size_t length = *word++ / 2;
    const auto add = [&](const std::vector<TensorInfo>& lists, bool areOutputs) {
      for (const TensorInfo& list : lists)
        if (list.part == part)
          tensors.push_back({&list, areOutputs, entry, reinterpret_cast<void*>(*word++),
                             length * sizeInBytes(list.dtype)});
    };
    add(info.inputs, false);
    add(info.outputs, true);
  }
  return tensors;
}

/// Every piece of the table begins at a multiple of 16 bytes.
static void pad(std::vector<std::uint64_t>& words) {
  words.resize((words.size() + 1) / 2 * 2);
}

void TensorLists::addChunks(const ListsInfo& info, std::span<const std::uint64_t> records,
                            Part& part) {
  part.chunksBegin = words.size();
  for (std::size_t entry = 0; entry < part.entries; ++entry) {
    const auto length = static_cast<std::int64_t>(records[entry * part.recordWords] / 2);
    std::int64_t count = length / info.chunk + (length % info.chunk != 0);
    if (count > maxChunks - chunkCount)
      fail(ErrorKind::input,
           "{} elements up to tensor {} need more than {} chunks of {}; split the list",
           elementCount + length, entry, maxChunks, info.chunk);
    for (std::int64_t chunk = 0; chunk < count; ++chunk)
      words.push_back(entry | static_cast<std::uint64_t>(chunk) << 32);
    part.chunks += count;
    chunkCount += count;
    elementCount += length;
  }
  pad(words);
}

TensorLists::TensorLists(const ListsInfo& info, std::span<const TensorList> inputs,
                         std::span<const TensorList> outputs)
    : parts(static_cast<std::size_t>(info.parts())), counts(info.counts) {
  checkForm(info, inputs, outputs);
  words.assign(counts ? 2 : 0, 0);
  std::vector<std::vector<std::uint64_t>> records;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    records.push_back(recordsOf(info, static_cast<int>(i), inputs, outputs, parts[i]));
    addChunks(info, records.back(), parts[i]);
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    parts[i].segmentsBegin = words.size();
    words.insert(words.end(), records[i].begin(), records[i].end());
    if (i + 1 < parts.size())
      pad(words);
  }
}

std::span<const std::byte> TensorLists::relocate(const ListsInfo& info,
                                                 std::span<const TensorList> inputs,
                                                 std::span<const TensorList> outputs) {
  checkForm(info, inputs, outputs);
  if (parts.empty() || parts.size() != static_cast<std::size_t>(info.parts()))
    fail(ErrorKind::input, "lists of {} parts given, the table was made for {}; make a new one",
         info.parts(), parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Part& part = parts[i];
    Part given;
    const auto records = recordsOf(info, static_cast<int>(i), inputs, outputs, given);
    const std::span<std::uint64_t> known = std::span(words).subspan(part.segmentsBegin);
    if (given.entries != part.entries)
      fail(ErrorKind::input, "{} tensors a list given, the table was made for {}; make a new one",
           given.entries, part.entries);
    for (std::size_t at = 0; at < records.size(); at += part.recordWords)
      if (records[at] / 2 != known[at] / 2)
        fail(ErrorKind::input,
             "tensor {} of the lists has {} elements, the table was made for {}; make a new one",
             at / part.recordWords, records[at] / 2, known[at] / 2);
    std::ranges::copy(records, known.begin());
  }
  return std::as_bytes(std::span(words).subspan(parts.front().segmentsBegin));
}

std::size_t TensorLists::entries() const {
  std::size_t count = 0;
  for (const Part& part : parts)
    count += part.entries;
  return count;
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
  for (const Part& part : parts) {
    all.push_back({begin + part.chunksBegin, {part.chunks}, {}});
    all.push_back({begin + part.segmentsBegin,
                   {static_cast<std::int64_t>(part.entries * part.recordWords)},
                   {}});
  }
  if (counts)
    all.push_back({begin, {1}, {}});
  return all;
}

} // namespace kiln
