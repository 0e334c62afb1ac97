// Vector clocks and the shadow of shared memory.
#include "codegen/host/SharedMemory.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>

namespace kiln {

namespace {

constexpr std::align_val_t alignment{128};
constexpr int laneCount = 32;
constexpr int maxWarps = 64; // bits of a mask

} // namespace

void SharedMemory::Release::operator()(char* data) const {
  ::operator delete(data, alignment);
}

SharedMemory::SharedMemory(std::int64_t bytes, int threads, int blocks)
    : size(bytes), stride((bytes + 127) / 128 * 128), threadsOfBlock(threads),
      warps((threads * blocks + laneCount - 1) / laneCount),
      memory(
          static_cast<char*>(::operator new(static_cast<std::size_t>(stride* blocks), alignment))),
      writes(static_cast<std::size_t>(stride * blocks)),
      reads(static_cast<std::size_t>(stride * blocks) * warps),
      clocks(static_cast<std::size_t>(warps) * warps) {}

void SharedMemory::begin() {
  base = *std::max_element(clocks.begin(), clocks.end());
  if (base > Epoch(1) << 31) { // clocks must not wrap around
    std::fill(writes.begin(), writes.end(), Write());
    std::fill(reads.begin(), reads.end(), Read());
    base = 0;
  }
  std::fill(clocks.begin(), clocks.end(), base);
  for (int warp = 0; warp < warps; ++warp)
    clock(warp, warp) = base + 1;
}

void SharedMemory::synchronize(std::uint64_t warpMask) {
  Epoch joined[maxWarps] = {};
  for (int warp = 0; warp < warps; ++warp)
    if (warpMask >> warp & 1)
      for (int of = 0; of < warps; ++of)
        joined[of] = std::max(joined[of], clock(warp, of));
  for (int warp = 0; warp < warps; ++warp)
    if (warpMask >> warp & 1)
      ++joined[warp];
  for (int warp = 0; warp < warps; ++warp)
    if (warpMask >> warp & 1)
      std::copy_n(joined, warps, &clock(warp, 0));
}

void SharedMemory::release(int warp, Clock& what) {
  what.resize(warps);
  ++clock(warp, warp); // what it does from here on is not known by this
  for (int of = 0; of < warps; ++of)
    what[of] = std::max(what[of], clock(warp, of));
}

void SharedMemory::acquire(int warp, const Clock& what) {
  for (std::size_t of = 0; of < what.size(); ++of)
    clock(warp, of) = std::max(clock(warp, of), what[of]);
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

bool SharedMemory::read(int thread, const void* address, int bytes) {
  const std::size_t offset = offsetOf(address);
  const std::int64_t where = within(offset, thread / threadsOfBlock);
  if (!isInside("reads", where, bytes))
    return false;
  int warp = thread / laneCount;
  auto lane = static_cast<std::uint16_t>(thread % laneCount);
  Epoch now = clock(warp, warp);
  for (std::size_t byte = offset; byte < offset + bytes; ++byte) {
    const Write& write = writes[byte];
    if (write.epoch <= base)
      return refuse(fmt::format("reads {} bytes at shared memory + {}; byte {} was never written "
                                "by this block",
                                bytes, where, where + static_cast<std::int64_t>(byte - offset)));
    auto writer = static_cast<int>(write.thread);
    if (writer != thread && !before(write.epoch, writer / laneCount, warp))
      return refuse(fmt::format("reads {} bytes at shared memory + {} that thread {} writes; no "
                                "barrier lies between",
                                bytes, where, writer));
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

bool SharedMemory::write(int thread, int block, const void* address, int bytes) {
  const std::size_t offset = offsetOf(address);
  const std::int64_t where = within(offset, block);
  if (!isInside("writes", where, bytes))
    return false;
  int warp = thread / laneCount;
  for (std::size_t byte = offset; byte < offset + bytes; ++byte) {
    Write& record = writes[byte];
    auto writer = static_cast<int>(record.thread);
    if (record.epoch > base && writer != thread && !before(record.epoch, writer / laneCount, warp))
      return refuse(fmt::format("writes {} bytes at shared memory + {} that thread {} also writes; "
                                "no barrier lies between",
                                bytes, where, writer));
    if (int reader = conflictingReader(thread, byte); reader >= 0)
      return refuse(fmt::format("writes {} bytes at shared memory + {} that thread {} reads; no "
                                "barrier lies between",
                                bytes, where, reader));
    record = {clock(warp, warp), static_cast<std::uint32_t>(thread)};
  }
  return true;
}

} // namespace kiln
