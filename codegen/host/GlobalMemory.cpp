// Look-up of addresses and the texts of what may be wrong with an access.
#include "codegen/host/GlobalMemory.h"

#include "codegen/backend/Fail.h"

#include <algorithm>

namespace kiln {

namespace {

/// Farther than this from every buffer, an address says nothing about the one that was meant.
constexpr std::uintptr_t neighbourhood = std::uintptr_t(1) << 32;

std::string place(const MemoryRegion& region, std::uintptr_t address) {
  auto begin = reinterpret_cast<std::uintptr_t>(region.data);
  return address >= begin ? fmt::format("{} + {}", region.name, address - begin)
                          : fmt::format("{} - {}", region.name, begin - address);
}

std::uintptr_t distance(const MemoryRegion& region, std::uintptr_t address) {
  auto begin = reinterpret_cast<std::uintptr_t>(region.data);
  if (address < begin)
    return begin - address;
  return address - begin < region.bytes ? 0 : address - begin - region.bytes + 1;
}

const char* verbOf(bool writing) {
  return writing ? "writes" : "reads";
}

bool isWritten(const MemoryRegion& region) {
  return region.bytes > 0 && (region.role == MemoryRegion::Role::output ||
                              region.role == MemoryRegion::Role::workspace);
}

} // namespace

GlobalMemory::GlobalMemory(std::span<const MemoryRegion> regions) {
  auto add = [&](const MemoryRegion& region, bool writable) {
    Entry entry{region, reinterpret_cast<std::uintptr_t>(region.data), nullptr, nullptr};
    // Zeroed by the system page by page, as far as it is used.
    if (writable)
      for (auto* record : {&entry.owners, &entry.passes})
        record->reset(
            static_cast<std::uint32_t*>(std::calloc(region.bytes, sizeof(std::uint32_t))));
    if (writable && (!entry.owners || !entry.passes))
      fail(ErrorKind::input, "'{}': no memory for the records of {} bytes; use smaller sizes",
           region.name, region.bytes);
    entries.push_back(std::move(entry));
  };
  for (bool writable : {true, false})
    for (const MemoryRegion& region : regions)
      if (isWritten(region) == writable)
        add(region, writable);
}

GlobalMemory::Entry* GlobalMemory::find(std::uintptr_t address, int bytes, bool writing) {
  auto holds = [&](const Entry& entry) {
    return entry.region.role != MemoryRegion::Role::counter && address >= entry.begin &&
           address - entry.begin < entry.region.bytes &&
           entry.region.bytes - (address - entry.begin) >= static_cast<std::size_t>(bytes) &&
           (entry.owners || !writing);
  };
  // An input may share memory with an output: the output's record has to be looked at.
  if (last < entries.size() && entries[last].owners && holds(entries[last]))
    return &entries[last];
  for (std::size_t i = 0; i < entries.size(); ++i)
    if (holds(entries[i])) {
      last = i;
      return &entries[i];
    }
  return nullptr;
}

std::string GlobalMemory::explain(std::uintptr_t address, int bytes, bool writing) const {
  const MemoryRegion* nearest = nullptr;
  for (const Entry& entry : entries)
    if (!nearest || distance(entry.region, address) < distance(*nearest, address))
      nearest = &entry.region;
  if (!nearest || distance(*nearest, address) > neighbourhood)
    return fmt::format("{} {} bytes at address {:#x}, which is far from every buffer",
                       verbOf(writing), bytes, address);
  std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(nearest->data);
  bool inside = address >= begin && address + bytes <= begin + nearest->bytes;
  std::string what =
      fmt::format("{} {} bytes at {}", verbOf(writing), bytes, place(*nearest, address));
  if (inside) // found nowhere although it is inside: a store to something read-only
    return fmt::format("{}, '{}' is {}", what, nearest->name,
                       nearest->role == MemoryRegion::Role::counter ? "a counter" : "an input");
  return fmt::format("{}, '{}' has {} bytes", what, nearest->name, nearest->bytes);
}

bool GlobalMemory::refuse(std::string why) {
  wrong = std::move(why);
  return false;
}

bool GlobalMemory::isAligned(const Entry& entry, std::uintptr_t address, int bytes, bool writing) {
  return address % bytes == 0 ||
         refuse(fmt::format("{} {} bytes at {}, which is not aligned to {}", verbOf(writing), bytes,
                            place(entry.region, address), bytes));
}

std::uint32_t GlobalMemory::turnOf(std::int64_t block) const {
  return static_cast<std::size_t>(block) < turns.size() ? turns[block] : 0;
}

/// Whether the block knows what the other one had written when that was counted, or what it had
/// when it had passed so many turns on.
bool GlobalMemory::hasSeen(std::int64_t block, std::int64_t other, std::uint32_t passes) const {
  if (turnOf(other) != 0 && turnOf(other) < turnOf(block))
    return true;
  const auto found = seen.find({block, other});
  return found != seen.end() && passes < found->second;
}

/// No other block wrote it, but for those that the block has seen.
bool GlobalMemory::isOwn(const Entry& entry, std::int64_t block, std::uintptr_t address, int bytes,
                         bool writing) {
  const std::uint32_t* owners = entry.owners.get() + (address - entry.begin);
  const std::uint32_t* passes = entry.passes.get() + (address - entry.begin);
  auto mine = static_cast<std::uint32_t>(block + 1);
  for (int i = 0; i < bytes; ++i)
    if (owners[i] != 0 && owners[i] != mine && !hasSeen(block, owners[i] - 1, passes[i]))
      return refuse(fmt::format("{} {} bytes at {}, which {}block {} writes in the same kernel",
                                verbOf(writing), bytes, place(entry.region, address),
                                writing ? "also " : "", owners[i] - 1));
  return true;
}

bool GlobalMemory::read(std::int64_t block, const void* from, int bytes) {
  auto address = reinterpret_cast<std::uintptr_t>(from);
  Entry* entry = find(address, bytes, false);
  if (!entry)
    return refuse(explain(address, bytes, false));
  return isAligned(*entry, address, bytes, false) &&
         (!entry->owners || isOwn(*entry, block, address, bytes, false));
}

bool GlobalMemory::write(std::int64_t block, const void* to, int bytes) {
  auto address = reinterpret_cast<std::uintptr_t>(to);
  Entry* entry = find(address, bytes, true);
  if (!entry)
    return refuse(explain(address, bytes, true));
  if (!isAligned(*entry, address, bytes, true) || !isOwn(*entry, block, address, bytes, true))
    return false;
  if (const std::uint32_t turn = turnOf(block); turn != 0 && turn < turns.size())
    return refuse(fmt::format("writes {} bytes at {} after it was counted as block {} of {}; only "
                              "the last may",
                              bytes, place(entry->region, address), turn, turns.size()));
  std::fill_n(entry->owners.get() + (address - entry->begin), bytes,
              static_cast<std::uint32_t>(block + 1));
  if (!passesOf.empty())
    std::fill_n(entry->passes.get() + (address - entry->begin), bytes, passesOf[block]);
  return true;
}

/// Where turns are counted: null if that is not in memory that kernels may write.
GlobalMemory::Entry* GlobalMemory::turnsAt(const int* turns) {
  const auto address = reinterpret_cast<std::uintptr_t>(turns);
  Entry* entry = find(address, sizeof *turns, true);
  if (!entry)
    refuse(explain(address, sizeof *turns, true));
  return entry;
}

bool GlobalMemory::waitForTurn(std::int64_t block, const int* turns, int turn) {
  const Entry* entry = turnsAt(turns);
  if (!entry)
    return false;
  if (*turns != turn)
    return refuse(fmt::format("waits for turn {} at {}, which is at {}; blocks begin in the order "
                              "of the grid, so that it may wait for earlier ones only",
                              turn, place(entry->region, reinterpret_cast<std::uintptr_t>(turns)),
                              *turns));
  for (const Pass& pass : passed[turns]) {
    std::uint32_t& last = seen[{block, pass.block}];
    last = std::max(last, pass.number + 1);
  }
  return true;
}

bool GlobalMemory::passTurn(std::int64_t block, int* turns, int next) {
  const Entry* entry = turnsAt(turns);
  if (!entry)
    return false;
  if (next != *turns + 1)
    return refuse(fmt::format("passes turn {} on at {}, which is at {}", next - 1,
                              place(entry->region, reinterpret_cast<std::uintptr_t>(turns)),
                              *turns));
  passed[turns].push_back({block, passesOf[block]++});
  *turns = next;
  return true;
}

bool GlobalMemory::count(std::int64_t block, std::uint32_t* counter, std::uint32_t blocks,
                         std::uint32_t& before) {
  const auto address = reinterpret_cast<std::uintptr_t>(counter);
  const auto isAt = [&](const Entry& entry) {
    return entry.region.role == MemoryRegion::Role::counter && entry.begin == address &&
           entry.region.bytes >= sizeof *counter;
  };
  if (std::ranges::none_of(entries, isAt))
    return refuse(fmt::format("counts itself at address {:#x}, where no counter is", address));
  turns.resize(blocks);
  if (turns[block] != 0)
    return refuse("counts itself a second time");
  before = *counter;
  if (before >= blocks)
    return refuse(fmt::format("finds {} blocks of {} counted; a counter is 0 between launches",
                              before, blocks));
  turns[block] = before + 1;
  *counter = before + 1 == blocks ? 0 : before + 1;
  return true;
}

} // namespace kiln
