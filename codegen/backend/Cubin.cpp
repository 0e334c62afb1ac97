// A reader of NVIDIA's 64-bit ELF. Kernel attributes are records in `.nv.info` (whole file) and
// `.nv.info.<kernel>`: u8 format, u8 attribute, u16 value or length, payload if format is 4.
#include "codegen/backend/Cubin.h"

#include "codegen/backend/Fail.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <type_traits>

namespace kiln {

namespace {

constexpr std::uint64_t headerSize = 64, sectionSize = 64, symbolSize = 24;
constexpr std::uint16_t machineCuda = 190;
constexpr std::uint32_t sectionSymbols = 2, sectionNoBits = 8;
constexpr std::uint8_t typeFunction = 2, flagEntry = 0x10; // a kernel, not a device function

enum Attribute : std::uint8_t {
  maxThreadsAttribute = 0x05,
  frameAttribute = 0x11,
  parameterAttribute = 0x17,
  parametersAttribute = 0x19,
  registersAttribute = 0x2f,
  barriersAttribute = 0x4c
};

using Bytes = std::span<const std::byte>;

/// A number from anywhere in the file; every access of this reader goes through here.
template <typename T> T numberAt(Bytes bytes, std::uint64_t offset) {
  static_assert(std::is_unsigned_v<T>);
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T))
    fail(ErrorKind::input, "cubin is cut off: {} bytes needed at offset {}, the part has {}",
         sizeof(T), offset, bytes.size());
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

Bytes partOf(Bytes bytes, std::uint64_t offset, std::uint64_t size, std::string_view what) {
  if (offset > bytes.size() || bytes.size() - offset < size)
    fail(ErrorKind::input, "cubin is damaged: {} lies at {} with {} bytes, the file has {}", what,
         offset, size, bytes.size());
  return bytes.subspan(offset, size);
}

std::string textAt(Bytes strings, std::uint64_t offset) {
  if (offset >= strings.size())
    fail(ErrorKind::input, "cubin is damaged: name at {} of a string table of {} bytes", offset,
         strings.size());
  const char* begin = reinterpret_cast<const char*>(strings.data()) + offset;
  std::size_t length = ::strnlen(begin, strings.size() - offset);
  if (length == strings.size() - offset)
    fail(ErrorKind::input, "cubin is damaged: the name at {} does not end", offset);
  return std::string(begin, length);
}

struct Section {
  std::string name;
  std::uint32_t type = 0;
  std::uint64_t offset = 0, size = 0;
  std::uint32_t link = 0;
};

class CubinReader {
 public:
  explicit CubinReader(Bytes file) : file(file) {
    readHeader();
    readSections();
  }

  Cubin read() {
    readKernels();
    for (const Section& section : sections)
      if (section.name == ".nv.info")
        readRecords(section, -1);
    for (std::size_t i = 0; i < cubin.kernels.size(); ++i)
      readKernelSections(i);
    return std::move(cubin);
  }

 private:
  void readHeader() {
    if (file.size() < 4 || std::memcmp(file.data(),
                                       "\x7f"
                                       "ELF",
                                       4) != 0)
      fail(ErrorKind::input, "not a cubin: {} bytes that do not begin with \\x7fELF", file.size());
    partOf(file, 0, headerSize, "the ELF header");
    if (numberAt<std::uint8_t>(file, 4) != 2 || numberAt<std::uint8_t>(file, 5) != 1)
      fail(ErrorKind::input, "not a cubin: a 64-bit little-endian ELF file is needed");
    if (auto machine = numberAt<std::uint16_t>(file, 18); machine != machineCuda)
      fail(ErrorKind::input, "not a cubin: ELF machine {}, {} is needed", machine, machineCuda);
    // CUDA 13 moved the compute capability within the flags and says so by the ABI version.
    std::uint32_t flags = numberAt<std::uint32_t>(file, 48);
    bool moved = numberAt<std::uint8_t>(file, 8) >= 8;
    cubin.capability = static_cast<int>((moved ? flags >> 8 : flags) & 0xff);
  }

  void readSections() {
    std::uint64_t offset = numberAt<std::uint64_t>(file, 40);
    std::uint64_t entry = numberAt<std::uint16_t>(file, 58);
    std::uint64_t count = numberAt<std::uint16_t>(file, 60);
    std::uint64_t names = numberAt<std::uint16_t>(file, 62);
    if (entry != sectionSize || names >= count)
      fail(ErrorKind::input,
           "cubin is damaged: {} sections of {} bytes each with names in section {}; {} bytes each "
           "are needed",
           count, entry, names, sectionSize);
    Bytes table = partOf(file, offset, count * sectionSize, "the section table");
    std::vector<std::uint32_t> nameOffsets;
    for (std::uint64_t i = 0; i < count; ++i) {
      Bytes header = table.subspan(i * sectionSize, sectionSize);
      nameOffsets.push_back(numberAt<std::uint32_t>(header, 0));
      sections.push_back({"", numberAt<std::uint32_t>(header, 4),
                          numberAt<std::uint64_t>(header, 24), numberAt<std::uint64_t>(header, 32),
                          numberAt<std::uint32_t>(header, 40)});
    }
    Bytes strings = contents(sections[names]);
    for (std::uint64_t i = 0; i < count; ++i)
      sections[i].name = textAt(strings, nameOffsets[i]);
    // A file that is cut short is refused, whatever part of it would be read.
    for (const Section& section : sections)
      if (section.type != sectionNoBits)
        contents(section);
    partOf(file, numberAt<std::uint64_t>(file, 32),
           std::uint64_t(numberAt<std::uint16_t>(file, 54)) * numberAt<std::uint16_t>(file, 56),
           "the program headers");
  }

  Bytes contents(const Section& section) const {
    if (section.type == sectionNoBits)
      fail(ErrorKind::input, "cubin is damaged: section '{}' has no contents", section.name);
    return partOf(file, section.offset, section.size,
                  section.name.empty() ? "a section" : section.name);
  }

  const Section* find(std::string_view name) const {
    for (const Section& section : sections)
      if (section.name == name)
        return &section;
    return nullptr;
  }

  void readKernels() {
    const Section* table = nullptr;
    for (const Section& section : sections)
      if (section.type == sectionSymbols && section.name == ".symtab")
        table = &section;
    if (!table || table->link >= sections.size())
      fail(ErrorKind::input, "cubin is damaged: it has no symbol table with names");
    Bytes symbols = contents(*table), strings = contents(sections[table->link]);
    for (std::uint64_t i = 0; (i + 1) * symbolSize <= symbols.size(); ++i) {
      Bytes symbol = symbols.subspan(i * symbolSize, symbolSize);
      bool function = (numberAt<std::uint8_t>(symbol, 4) & 0xf) == typeFunction;
      bool entry = (numberAt<std::uint8_t>(symbol, 5) & flagEntry) != 0;
      bool defined = numberAt<std::uint16_t>(symbol, 6) != 0;
      if (!function || !entry || !defined)
        continue;
      kernelOfSymbol[static_cast<std::uint32_t>(i)] = cubin.kernels.size();
      cubin.kernels.push_back({});
      cubin.kernels.back().name = textAt(strings, numberAt<std::uint32_t>(symbol, 0));
    }
    if (cubin.kernels.empty())
      fail(ErrorKind::input, "the cubin has no kernel; declare one extern \"C\" __global__");
  }

  /// `kernel` is -1 for the records of the whole file, which name their kernel by its symbol.
  void readRecords(const Section& section, std::ptrdiff_t kernel) {
    Bytes records = contents(section);
    for (std::uint64_t offset = 0; offset < records.size();) {
      auto format = numberAt<std::uint8_t>(records, offset);
      auto attribute = numberAt<std::uint8_t>(records, offset + 1);
      auto value = numberAt<std::uint16_t>(records, offset + 2);
      offset += 4;
      Bytes payload;
      if (format == 4) {
        payload = partOf(records, offset, value, section.name);
        offset += value;
      } else if (format < 1 || format > 4) {
        fail(ErrorKind::input, "cubin is damaged: record of format {} in '{}'", format,
             section.name);
      }
      if (kernel < 0)
        applyGlobal(attribute, format, payload);
      else
        apply(cubin.kernels[static_cast<std::size_t>(kernel)], attribute, value, payload);
    }
  }

  void applyGlobal(std::uint8_t attribute, std::uint8_t format, Bytes payload) {
    if (format != 4 || (attribute != registersAttribute && attribute != frameAttribute))
      return;
    auto found = kernelOfSymbol.find(numberAt<std::uint32_t>(payload, 0));
    if (found == kernelOfSymbol.end())
      return; // a device function that is called, not a kernel
    auto value = numberAt<std::uint32_t>(payload, 4);
    if (attribute == registersAttribute)
      cubin.kernels[found->second].registers = checked(value, 255, "registers");
    else
      cubin.kernels[found->second].stackBytes = value;
  }

  void apply(CubinKernel& kernel, std::uint8_t attribute, std::uint16_t value, Bytes payload) {
    if (attribute == maxThreadsAttribute)
      for (std::size_t i = 0; i < 3; ++i)
        kernel.maxThreads[i] =
            checked(numberAt<std::uint32_t>(payload, 4 * i), 1024, "threads per block");
    else if (attribute == parametersAttribute)
      kernel.parameterBytes = value;
    else if (attribute == parameterAttribute)
      addParameter(kernel, payload);
    else if (attribute == barriersAttribute)
      kernel.barriers = value & 0xff;
  }

  /// Their order, u16, follows an index of no use; their size is the upper bits of the last word.
  static void addParameter(CubinKernel& kernel, Bytes payload) {
    const std::size_t order = numberAt<std::uint16_t>(payload, 4);
    if (kernel.parameters.size() <= order)
      kernel.parameters.resize(order + 1);
    kernel.parameters[order] = static_cast<int>(numberAt<std::uint32_t>(payload, 8) >> 18);
  }

  int checked(std::uint32_t value, std::uint32_t limit, const char* what) const {
    if (value > limit)
      fail(ErrorKind::input, "cubin is damaged: {} {}, at most {} are possible", value, what,
           limit);
    return static_cast<int>(value);
  }

  void readKernelSections(std::size_t index) {
    std::string name = cubin.kernels[index].name;
    if (const Section* info = find(".nv.info." + name))
      readRecords(*info, static_cast<std::ptrdiff_t>(index));
    CubinKernel& kernel = cubin.kernels[index];
    // Those of more than 8 bytes are aligned with the memory that begins before the parameters.
    if (!kernel.parameters.empty())
      kernel.parameterBytes =
          std::accumulate(kernel.parameters.begin(), kernel.parameters.end(), std::int64_t(0));
    const Section* code = find(".text." + name);
    if (!code)
      fail(ErrorKind::input, "cubin is damaged: kernel '{}' has no code", name);
    kernel.codeBytes = static_cast<std::int64_t>(contents(*code).size());
    if (const Section* shared = find(".nv.shared." + name)) {
      // From sm_90 on the section counts the kilobyte that the driver takes from each block.
      std::uint64_t reserved = cubin.capability >= 90 ? 1024 : 0;
      if (shared->size > (1 << 20))
        fail(ErrorKind::input, "cubin is damaged: kernel '{}' has {} bytes of shared memory", name,
             shared->size);
      kernel.sharedBytes =
          static_cast<std::int64_t>(shared->size > reserved ? shared->size - reserved : 0);
    }
  }

  Bytes file;
  Cubin cubin;
  std::vector<Section> sections;
  std::map<std::uint32_t, std::size_t> kernelOfSymbol;
};

/// The number in front of `what` on a line such as "  444 bytes spill stores, ...".
bool numberBefore(std::string_view line, std::string_view what, std::int64_t& number) {
  std::size_t end = line.find(what);
  if (end == std::string_view::npos)
    return false;
  std::size_t begin = end;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9')
    --begin;
  return std::from_chars(line.data() + begin, line.data() + end, number).ec == std::errc();
}

} // namespace

const CubinKernel& Cubin::kernel(std::string_view name) const {
  std::vector<std::string> names;
  for (const CubinKernel& kernel : kernels) {
    if (kernel.name == name)
      return kernel;
    names.push_back(kernel.name);
  }
  fail(ErrorKind::input, "the cubin has no kernel '{}'; it has {}", name, fmt::join(names, ", "));
}

Cubin readCubin(std::span<const std::byte> bytes) {
  return CubinReader(bytes).read();
}

/// Takes the first line off a text.
static std::string_view takeLine(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

SpillBytes spillsOf(std::string_view log, std::string_view kernel) {
  // ptxas: "Function properties for NAME", then one line with frame, spill stores and loads.
  bool inside = false;
  while (!log.empty()) {
    const std::string_view line = takeLine(log);
    constexpr std::string_view marker = "Function properties for ";
    if (std::size_t at = line.find(marker); at != std::string_view::npos) {
      std::string_view name = line.substr(at + marker.size());
      inside = name.substr(0, name.find_last_not_of(" \r") + 1) == kernel;
      continue;
    }
    SpillBytes spills;
    if (inside && numberBefore(line, " bytes spill stores", spills.stores) &&
        numberBefore(line, " bytes spill loads", spills.loads))
      return spills;
  }
  fail(ErrorKind::input,
       "the assembler's log says nothing of spills in '{}'; compile with --ptxas-options=-v and "
       "without a compile cache",
       kernel);
}

bool hasSerializedProducts(std::string_view log, std::string_view kernel) {
  const std::string name = fmt::format("'{}'", kernel);
  while (!log.empty()) {
    const std::string_view line = takeLine(log);
    if (line.find("(C75") != std::string_view::npos && line.find(name) != std::string_view::npos)
      return true;
  }
  return false;
}

Usage usageOf(const Cubin& cubin, std::string_view kernel, std::string_view log,
              std::int64_t dynamicSharedBytes) {
  const CubinKernel& found = cubin.kernel(kernel);
  SpillBytes spills = spillsOf(log, kernel);
  return {.registers = found.registers,
          .sharedBytes = found.sharedBytes + dynamicSharedBytes,
          .stackBytes = found.stackBytes,
          .spillStoreBytes = spills.stores,
          .spillLoadBytes = spills.loads,
          .barriers = found.barriers,
          .codeBytes = found.codeBytes,
          .serializedProducts = hasSerializedProducts(log, kernel)};
}

} // namespace kiln
