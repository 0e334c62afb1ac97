// Bulk copies of a block: of bytes, of tiles and their stores. They are done at once; who may touch
// what, and when, is checked as if they took their time (SharedMemory.h). What of its registers and
// stores a thread must have settled when it ends stands here too.
#include "codegen/backend/Fail.h"
#include "codegen/host/BlockRunner.h"
#include "codegen/host/HostTensorMap.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace kiln {

namespace {

constexpr int unit = 16;           // bytes
constexpr int tileAlignment = 128; // in shared memory

} // namespace

void BlockRunner::offerCopies() {
  table.copyBytes = [](void* context, void* to, const void* from, int bytes, void* barrier) {
    static_cast<BlockRunner*>(context)->copyBytes(to, from, bytes, barrier);
  };
  table.storeToBlock = [](void* context, void* to, const float* values, void* barrier, int rank) {
    static_cast<BlockRunner*>(context)->storeToBlock(to, values, barrier, rank);
  };
  table.copyTile = [](void* context, void* to, const HostTile* tile, void* barrier,
                      unsigned blocks) {
    static_cast<BlockRunner*>(context)->copyTile(to, *tile, barrier, blocks);
  };
  table.storeTile = [](void* context, const HostTile* tile, const void* from) {
    static_cast<BlockRunner*>(context)->storeTile(*tile, from);
  };
  table.endStores = [](void* context) {
    auto* runner = static_cast<BlockRunner*>(context);
    Thread& thread = runner->threads[runner->running];
    ++thread.groups;
    thread.storing = false;
  };
  table.storeBytes = [](void* context, void* to, const void* from, int bytes, bool adds) {
    static_cast<BlockRunner*>(context)->storeBytes(to, from, bytes, adds);
  };
  table.waitForStores = [](void* context, int groups, bool written) {
    static_cast<BlockRunner*>(context)->waitForStores(groups, written);
  };
  table.fenceCopies = [](void* context) {
    auto* runner = static_cast<BlockRunner*>(context);
    runner->shared.fence(runner->running / laneCount);
  };
  table.setRegisters = [](void* context, int registers) {
    auto* runner = static_cast<BlockRunner*>(context);
    runner->threads[runner->running].registers = registers;
  };
}

void BlockRunner::initialize(const void* place, int count) {
  access(place, 8, writeShared);
  memoryBarriers[place] = {.threads = count, .missing = count, .initializer = running};
}

void BlockRunner::fenceBarriers() {
  for (auto& [place, barrier] : memoryBarriers)
    barrier.fenced |= barrier.initializer == running;
}

/// That something but the block's own threads is to use.
BlockRunner::MemoryBarrier& BlockRunner::barrierOfCopy(int of, const void* place) {
  if (of < 0 || of >= call.cluster)
    failHere(
        fmt::format("reaches block {} of its cluster, which has {}, from 0", of, call.cluster));
  if (alive[of] == 0)
    failHere(fmt::format("reaches block {} of its cluster, which has ended; let the blocks meet "
                         "before they end",
                         of));
  MemoryBarrier& barrier = barrierIn(of, place);
  if (!barrier.fenced)
    failHere("lets a bulk copy or another block use a barrier in shared memory that no "
             "mbarrier_fence made known to them");
  return barrier;
}

void BlockRunner::copyIn(int of, std::uint64_t offset, const char* bytes, int count,
                         MemoryBarrier& barrier) {
  if (barrier.copier < 0)
    barrier.copier = shared.addCopier();
  char* to = shared.data(of) + offset;
  if (!shared.copyIn(running, barrier.copier, barrier.phase, of, to, count))
    failHere(shared.complaint());
  std::memcpy(to, bytes, static_cast<std::size_t>(count));
}

/// Unlike a bulk copy it needs no fence to see what threads did, and who awaits the barrier knows
/// what this thread does.
void BlockRunner::storeToBlock(void* to, const float* values, const void* place, int of) {
  const int there = std::clamp(of, 0, call.cluster - 1); // if not there, the barrier's use fails
  const void* told = shared.data(there) + offsetOf(place);
  MemoryBarrier& barrier = barrierOfCopy(of, told);
  char* target = shared.data(there) + offsetOf(to);
  if (offsetOf(to) % unit != 0)
    failHere(fmt::format("stores 16 bytes to another block's shared memory + {}, which is not "
                         "aligned to them",
                         offsetOf(to)));
  if (!shared.write(running, there, target, unit))
    failHere(shared.complaint());
  std::memcpy(target, values, unit);
  shared.release(running / laneCount, barrier.coming);
  barrier.bytes -= unit;
  completeIfDone(told, barrier);
}

void BlockRunner::copyBytes(void* to, const void* from, int bytes, const void* place) {
  if (bytes < 0 || bytes % unit != 0)
    failHere(
        fmt::format("starts a bulk copy of {} bytes; allowed are multiples of {}", bytes, unit));
  MemoryBarrier& barrier = barrierOfCopy(table.clusterRank, place);
  for (int at = 0; at < bytes; at += unit) {
    const char* source = static_cast<const char*>(from) + at;
    access(source, unit, readGlobal);
    copyIn(table.clusterRank, offsetOf(to) + static_cast<std::uint64_t>(at), source, unit, barrier);
  }
  barrier.bytes -= bytes;
  completeIfDone(place, barrier);
}

/// The map of a tile, which must be one.
static const HostTensorMap* mapOf(const HostTile& tile, std::uint64_t offset, std::string& wrong) {
  const auto* map = static_cast<const HostTensorMap*>(tile.map);
  if (!map->isValid())
    wrong = "copies a tile by bytes that are no tensor map";
  else if (map->dimensions() != tile.dimensions)
    wrong = fmt::format("copies a tile at {} coordinates, its tensor map has {} dimensions",
                        tile.dimensions, map->dimensions());
  else if (offset % tileAlignment != 0)
    wrong = fmt::format("copies a tile at shared memory + {}, which is not aligned to {}", offset,
                        tileAlignment);
  return map;
}

void BlockRunner::copyTile(void* to, const HostTile& tile, const void* place, unsigned blocks) {
  std::string wrong;
  const HostTensorMap* map = mapOf(tile, offsetOf(to), wrong);
  if (!wrong.empty())
    failHere(wrong);
  for (int of = 0; blocks >> of != 0; ++of) {
    if ((blocks >> of & 1) == 0)
      continue;
    const void* there = shared.data(std::min(of, call.cluster - 1)) + offsetOf(place);
    MemoryBarrier& barrier = barrierOfCopy(of, there);
    map->forEach(offsetOf(to), tile.at, [&](std::uint64_t offset, auto elements) {
      char piece[unit] = {};
      const int bytes = map->elementBytes();
      for (std::size_t i = 0; i < elements.size(); ++i)
        if (elements[i]) {
          access(elements[i], bytes, readGlobal);
          std::memcpy(piece + i * bytes, elements[i], static_cast<std::size_t>(bytes));
        }
      copyIn(of, offset, piece, unit, barrier);
    });
    barrier.bytes -= map->boxBytes();
    completeIfDone(there, barrier);
  }
}

/// A piece of the stores of the running thread.
void BlockRunner::copyOut(const char* piece) {
  Thread& thread = threads[running];
  if (thread.storer < 0)
    thread.storer = shared.addCopier();
  thread.storing = true;
  if (!shared.copyOut(running, thread.storer, thread.groups, piece, unit))
    failHere(shared.complaint());
}

void BlockRunner::storeBytes(void* to, const void* from, int bytes, bool adds) {
  if (bytes < 0 || bytes % unit != 0 || offsetOf(from) % unit != 0)
    failHere(fmt::format("stores {} bytes from shared memory + {}; allowed are multiples of {} of "
                         "both",
                         bytes, offsetOf(from), unit));
  for (int at = 0; at < bytes; at += unit) {
    const char* piece = static_cast<const char*>(from) + at;
    char* target = static_cast<char*>(to) + at;
    copyOut(piece);
    std::array<float, unit / sizeof(float)> values{}, there{};
    std::memcpy(values.data(), piece, unit);
    if (adds) {
      access(target, unit, readGlobal);
      std::memcpy(there.data(), target, unit);
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] += there[i];
    }
    access(target, unit, writeGlobal);
    std::memcpy(target, values.data(), unit);
  }
}

void BlockRunner::storeTile(const HostTile& tile, const void* from) {
  std::string wrong;
  const HostTensorMap* map = mapOf(tile, offsetOf(from), wrong);
  if (!wrong.empty())
    failHere(wrong);
  for (int d = 0; d < tile.dimensions; ++d)
    if (tile.at[d] < 0) // Hopper calls it an illegal instruction
      failHere(
          fmt::format("stores a tile that begins at {} of dimension {}; a store may reach beyond "
                      "a tensor's end, and begins at 0 or later",
                      tile.at[d], d));
  map->forEach(offsetOf(from), tile.at, [&](std::uint64_t offset, auto elements) {
    const char* piece = table.sharedMemory + offset;
    copyOut(piece);
    const int bytes = map->elementBytes();
    for (std::size_t i = 0; i < elements.size(); ++i)
      if (elements[i]) {
        access(elements[i], bytes, writeGlobal);
        std::memcpy(const_cast<char*>(elements[i]), piece + i * bytes,
                    static_cast<std::size_t>(bytes));
      }
  });
}

void BlockRunner::waitForStores(int groups, bool written) {
  Thread& thread = threads[running];
  thread.awaited = std::max(thread.awaited, thread.groups - groups);
  if (written)
    thread.written = std::max(thread.written, thread.groups - groups);
  if (thread.storer >= 0)
    shared.completeCopies(thread.storer, thread.awaited, running / laneCount);
}

void BlockRunner::passTurn(int* turns, int next) {
  const Thread& thread = threads[running];
  if (thread.storing || thread.written < thread.groups)
    failHere("passes its turn on before what it stored is written; wait for that "
             "(wait_for_tile_stores_but)");
  if (!global.passTurn(block, turns, next))
    failHere(global.complaint());
}

/// The running thread has left the kernel.
void BlockRunner::endThread() {
  const Thread& thread = threads[running];
  if (thread.storing || thread.awaited < thread.groups)
    failHere("ends while stores of tiles that it started may still read shared memory; wait for "
             "them (wait_for_tile_reads_but)");
  if (!products.empty() && !products[running].pending.empty())
    failHere("ends before a wgmma that it started; end its group and wait for it (wgmma_commit, "
             "wgmma_wait)");
  int warp = table.threadIndex / laneCount;
  const WarpRole* role = nullptr;
  for (std::size_t i = 0; i < call.roles.size() && !role; warp -= call.roles[i++].warps)
    if (warp < call.roles[i].warps)
      role = &call.roles[i];
  if (thread.registers != (role ? role->registers : 0))
    failHere(fmt::format("ends with {}, its role in the launch plan {}",
                         thread.registers > 0 ? fmt::format("{} registers", thread.registers)
                                              : "the registers it began with",
                         role ? fmt::format("has {}", role->registers) : "keeps those"));
  if (--alive[table.clusterRank] == 0 && !shared.mayEnd(table.clusterRank))
    failHere(shared.complaint());
}

} // namespace kiln
