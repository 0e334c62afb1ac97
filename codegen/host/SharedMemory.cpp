// Vector clocks and the shadow of shared memory.
#include "codegen/host/SharedMemory.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <new>

namespace kiln {

namespace {

// Swizzles mix bits of addresses up to this. Of memory that is smaller the records are kept small.
constexpr std::int64_t alignment = 1024;

constexpr std::int64_t roundUp(std::int64_t bytes) {
  const std::int64_t unit = bytes < alignment ? 128 : alignment;
  return (bytes + unit - 1) / unit * unit;
}

} // namespace

void SharedMemory::Release::operator()(char* data) const {
  ::operator delete(data, std::align_val_t(alignment));
}

SharedMemory::SharedMemory(std::int64_t bytes, int threads, int blocks)
    : size(bytes), stride(roundUp(bytes)), threadsOfBlock(threads),
      warps((threads * blocks + laneCount - 1) / laneCount),
      memory(static_cast<char*>(
          ::operator new(static_cast<std::size_t>(stride* blocks), std::align_val_t(alignment)))),
      writes(static_cast<std::size_t>(stride * blocks)),
      reads(static_cast<std::size_t>(stride * blocks) * warps), reached(blocks), columns(warps),
      capacity(warps), clocks(static_cast<std::size_t>(warps) * warps) {}

void SharedMemory::begin() {
  base = std::max(newest, *std::max_element(clocks.begin(), clocks.end()));
  if (base > Epoch(1) << 31) { // clocks must not wrap around
    std::fill(writes.begin(), writes.end(), Write());
    std::fill(reads.begin(), reads.end(), Read());
    std::fill(copied.begin(), copied.end(), Copied());
    base = newest = 0;
  }
  columns = warps;
  std::fill(clocks.begin(), clocks.end(), base);
  fencedClocks.clear();
  for (std::vector<Epoch>& by : reached)
    by.clear();
  for (int warp = 0; warp < warps; ++warp)
    clock(warp, warp) = base + 1;
}

void SharedMemory::synchronize(std::uint64_t warpMask) {
  if (std::has_single_bit(warpMask)) { // which knows what it knows
    const int warp = std::countr_zero(warpMask);
    ++clock(warp, warp);
    return;
  }
  const auto join = [&](std::vector<Epoch>& all, bool ticks) {
    joined.assign(columns, 0);
    for (int warp = 0; warp < warps; ++warp)
      if (warpMask >> warp & 1)
        for (int of = 0; of < columns; ++of)
          joined[of] = std::max(joined[of], all[warp * capacity + of]);
    for (int warp = 0; warp < warps; ++warp)
      if (warpMask >> warp & 1)
        joined[warp] += ticks;
    for (int warp = 0; warp < warps; ++warp)
      if (warpMask >> warp & 1)
        std::copy_n(joined.data(), columns, all.data() + warp * capacity);
  };
  join(clocks, true);
  if (!fencedClocks.empty())
    join(fencedClocks, false);
}

void SharedMemory::release(int warp, Clock& what) {
  ++clock(warp, warp); // what it does from here on is not known by this
  what.known.resize(columns);
  for (int of = 0; of < columns; ++of)
    what.known[of] = std::max(what.known[of], clock(warp, of));
  if (fencedClocks.empty())
    return;
  what.fenced.resize(columns);
  for (int of = 0; of < columns; ++of)
    what.fenced[of] = std::max(what.fenced[of], fenced(warp, of));
}

void SharedMemory::acquire(int warp, const Clock& what) {
  for (std::size_t of = 0; of < what.known.size(); ++of)
    clock(warp, of) = std::max(clock(warp, of), what.known[of]);
  for (std::size_t of = 0; of < what.fenced.size(); ++of)
    fenced(warp, of) = std::max(fenced(warp, of), what.fenced[of]);
}

//===- Bulk copies --------------------------------------------------------------------------===//

int SharedMemory::addCopier() {
  if (columns == capacity) {
    const int wider = 2 * capacity;
    for (std::vector<Epoch>* all : {&clocks, &fencedClocks}) {
      if (all->empty())
        continue;
      std::vector<Epoch> moved(static_cast<std::size_t>(warps) * wider, base);
      for (int warp = 0; warp < warps; ++warp)
        std::copy_n(all->data() + warp * capacity, columns, moved.data() + warp * wider);
      *all = std::move(moved);
    }
    capacity = wider;
  }
  return columns++;
}

void SharedMemory::completeCopies(int copier, int phases, Clock& what) const {
  what.known.resize(columns);
  what.known[copier] = std::max(what.known[copier], epochOf(phases));
}

void SharedMemory::completeCopies(int copier, int phases, int warp) {
  clock(warp, copier) = std::max(clock(warp, copier), epochOf(phases));
}

void SharedMemory::note(int block, int column, Epoch epoch) {
  std::vector<Epoch>& by = reached[block];
  by.resize(std::max<std::size_t>(by.size(), column + 1));
  by[column] = epoch;
}

bool SharedMemory::mayEnd(int block) {
  const int first = block * threadsOfBlock / laneCount;
  const int last = ((block + 1) * threadsOfBlock - 1) / laneCount;
  for (int of = 0; of < static_cast<int>(reached[block].size()); ++of) {
    bool known = reached[block][of] <= base;
    for (int warp = first; warp <= last && !known; ++warp)
      known = before(reached[block][of], of, warp);
    if (!known)
      return refuse(fmt::format(
          "is the last of its block to end, and {} may still reach its shared memory; let it wait "
          "before",
          of < warps ? fmt::format("threads {}-{}", of * laneCount, (of + 1) * laneCount - 1)
                     : "a bulk copy"));
  }
  return true;
}

void SharedMemory::fence(int warp) {
  if (fencedClocks.empty())
    fencedClocks.assign(clocks.size(), base);
  ++clock(warp, warp);
  for (int of = 0; of < columns; ++of)
    fenced(warp, of) = std::max(fenced(warp, of), clock(warp, of));
}

/// Whether bulk copies that this warp starts see what was written.
bool SharedMemory::isVisible(const Write& write, int warp, const char* verb, std::int64_t where,
                             int bytes) {
  const auto writer = static_cast<int>(write.thread);
  const int of = writer / laneCount;
  if (of >= warps || (!fencedClocks.empty() && fenced(warp, of) > write.epoch))
    return true;
  return refuse(fmt::format("starts a {} {} bytes at shared memory + {}, which thread "
                            "{} wrote; no bulk_copy_fence lies between",
                            verb, bytes, where, writer));
}

bool SharedMemory::copyIn(int thread, int copier, int phase, int block, const void* address,
                          int bytes) {
  const std::size_t offset = offsetOf(address);
  const std::int64_t where = within(offset, block);
  if (!isInside("copies", where, bytes))
    return false;
  newest = std::max(newest, epochOf(phase));
  note(block, copier, epochOf(phase));
  if (!areOrdered(thread, offset, bytes, "copies", where))
    return false;
  for (std::size_t byte = offset; byte < offset + bytes; ++byte) {
    Write& record = writes[byte];
    if (record.epoch > base &&
        !isVisible(record, thread / laneCount, "bulk copy that overwrites", where, bytes))
      return false;
    record = {epochOf(phase), static_cast<std::uint32_t>(copier * laneCount)};
  }
  return true;
}

bool SharedMemory::copyOut(int thread, int copier, int phase, const void* address, int bytes) {
  const std::size_t offset = offsetOf(address);
  const std::int64_t where = within(offset, thread / threadsOfBlock);
  if (!read(thread, address, bytes))
    return false;
  for (std::size_t byte = offset; byte < offset + bytes; ++byte)
    if (!isVisible(writes[byte], thread / laneCount, "bulk copy that reads", where, bytes))
      return false;
  recordCopy(0, offset, bytes, {epochOf(phase), static_cast<std::uint32_t>(copier)});
  return true;
}

bool SharedMemory::readOperand(int thread, int copier, int phase, const void* address, int bytes) {
  constexpr int warpgroup = 4 * laneCount;
  const int block = thread / threadsOfBlock;
  const std::size_t offset = offsetOf(address);
  const std::int64_t where = within(offset, block);
  if (!isInside("reads", where, bytes))
    return false;
  for (int of = thread; of < thread + warpgroup; of += laneCount)
    for (std::size_t byte = offset; byte < offset + bytes; ++byte) {
      if (!isReadable(writes[byte], of))
        return refuseRead(byte, where, bytes, where + static_cast<std::int64_t>(byte - offset));
      if (!isVisible(writes[byte], of / laneCount, "wgmma that reads", where, bytes))
        return false;
    }
  const int ofBlock = (threadsOfBlock + warpgroup - 1) / warpgroup;
  const int slot = 1 + block * ofBlock + thread % threadsOfBlock / warpgroup;
  recordCopy(slot, offset, bytes, {epochOf(phase), static_cast<std::uint32_t>(copier)});
  return true;
}

void SharedMemory::recordCopy(std::size_t slot, std::size_t offset, int bytes, Copied copy) {
  newest = std::max(newest, copy.epoch);
  copied.resize(std::max(copied.size(), (slot + 1) * writes.size()));
  std::fill_n(copied.begin() + static_cast<std::ptrdiff_t>(slot * writes.size() + offset), bytes,
              copy);
}

//===- Accesses of threads ------------------------------------------------------------------===//

std::string SharedMemory::nameOf(int thread) const {
  return thread < warps * laneCount ? fmt::format("thread {}", thread) : "a bulk copy";
}

std::size_t SharedMemory::offsetOf(const void* address) const {
  return reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(memory.get());
}

std::int64_t SharedMemory::within(std::size_t offset, int block) const {
  return static_cast<std::int64_t>(offset) - block * stride;
}

bool SharedMemory::refuse(std::string why) {
  wrong = std::move(why);
  return false;
}

bool SharedMemory::isInside(const char* verb, std::int64_t where, int bytes) {
  if (where < 0 || where > size - bytes)
    return refuse(fmt::format("{} {} bytes at shared memory {} {}, the block has {} bytes", verb,
                              bytes, where < 0 ? "-" : "+", where < 0 ? -where : where, size));
  if (where % bytes != 0)
    return refuse(fmt::format("{} {} bytes at shared memory + {}, which is not aligned to {}", verb,
                              bytes, where, bytes));
  return true;
}

/// Says why the byte, `place` bytes into its block's memory, is not readable.
bool SharedMemory::refuseRead(std::size_t byte, std::int64_t where, int bytes, std::int64_t place) {
  const Write& write = writes[byte];
  if (write.epoch <= base)
    return refuse(fmt::format("reads {} bytes at shared memory + {}; byte {} was never written "
                              "by this block",
                              bytes, where, place));
  return refuse(fmt::format("reads {} bytes at shared memory + {} that {} writes; no barrier "
                            "lies between",
                            bytes, where, nameOf(static_cast<int>(write.thread))));
}

bool SharedMemory::read(int thread, const void* address, int bytes) {
  return read(thread, thread / threadsOfBlock, address, bytes);
}

bool SharedMemory::read(int thread, int block, const void* address, int bytes) {
  const std::size_t offset = offsetOf(address);
  const std::int64_t where = within(offset, block);
  if (!isInside("reads", where, bytes))
    return false;
  int warp = thread / laneCount;
  auto lane = static_cast<std::uint16_t>(thread % laneCount);
  Epoch now = clock(warp, warp);
  for (std::size_t byte = offset; byte < offset + bytes; ++byte) {
    if (!isReadable(writes[byte], thread))
      return refuseRead(byte, where, bytes, where + static_cast<std::int64_t>(byte - offset));
    Read& record = reads[byte * warps + warp];
    if (record.epoch != now)
      record = {now, lane, lane};
    else if (record.lane != lane)
      record = {now, lane, record.lane};
  }
  return true;
}

/// A thread that read the byte without a barrier since, or -1.
int SharedMemory::conflictingReader(int thread, std::size_t byte) {
  int warp = thread / laneCount, lane = thread % laneCount;
  for (int of = 0; of < warps; ++of) {
    const Read& record = reads[byte * warps + of];
    if (record.epoch <= base || before(record.epoch, of, warp))
      continue;
    int reader = of == warp && record.lane == lane ? record.otherLane : record.lane;
    if (of != warp || reader != lane)
      return of * laneCount + reader;
  }
  return -1;
}

bool SharedMemory::write(int thread, const void* address, int bytes) {
  return write(thread, thread / threadsOfBlock, address, bytes);
}

/// Whether all earlier accesses to the bytes come before what this thread does to them now.
bool SharedMemory::areOrdered(int thread, std::size_t offset, int bytes, const char* verb,
                              std::int64_t where) {
  const int warp = thread / laneCount;
  for (std::size_t byte = offset; byte < offset + bytes; ++byte) {
    const Write& record = writes[byte];
    auto writer = static_cast<int>(record.thread);
    if (record.epoch > base && writer != thread && !before(record.epoch, writer / laneCount, warp))
      return refuse(fmt::format("{} {} bytes at shared memory + {} that {} also writes; no barrier "
                                "lies between",
                                verb, bytes, where, nameOf(writer)));
    if (int reader = conflictingReader(thread, byte); reader >= 0)
      return refuse(
          fmt::format("{} {} bytes at shared memory + {} that thread {} reads; no barrier "
                      "lies between",
                      verb, bytes, where, reader));
  }
  for (std::size_t slot = 0; slot < copied.size(); slot += writes.size())
    for (std::size_t byte = slot + offset; byte < slot + offset + bytes; ++byte)
      if (copied[byte].epoch > base &&
          !before(copied[byte].epoch, static_cast<int>(copied[byte].copier), warp))
        return refuse(fmt::format("{} {} bytes at shared memory + {} that a {} reads; no wait for "
                                  "it lies between",
                                  verb, bytes, where, slot == 0 ? "bulk copy" : "wgmma"));
  return true;
}

bool SharedMemory::write(int thread, int block, const void* address, int bytes) {
  const std::size_t offset = offsetOf(address);
  const std::int64_t where = within(offset, block);
  if (!isInside("writes", where, bytes))
    return false;
  int warp = thread / laneCount;
  if (block != thread / threadsOfBlock)
    note(block, warp, clock(warp, warp));
  if (!areOrdered(thread, offset, bytes, "writes", where))
    return false;
  std::fill_n(writes.begin() + static_cast<std::ptrdiff_t>(offset), bytes,
              Write{clock(warp, warp), static_cast<std::uint32_t>(thread)});
  return true;
}

} // namespace kiln
