// The buffers that a kernel may touch, checked at each access: inside one buffer, aligned to its
// size, no store to an input, no byte that two blocks of a kernel write or hand to each other, but
// for what a block wrote before it counted itself and another reads that was counted later, or what
// it wrote before it passed a turn on that the other waited for.
#pragma once

#include "kiln/kiln.h"

#include <cstdlib>
#include <map>

namespace kiln {

/// A piece of memory that a kernel gets a pointer to.
struct MemoryRegion {
  std::string name;
  void* data = nullptr;
  std::size_t bytes = 0;
  enum class Role { input, output, workspace, counter } role = Role::input;
};

class GlobalMemory {
 public:
  /// One kernel's view: all blocks of one launch go through the same object.
  explicit GlobalMemory(std::span<const MemoryRegion> regions);

  /// Whether the access is allowed; if not, complaint() says why. Nearly all are, and pay for no
  /// text.
  bool read(std::int64_t block, const void* address, int bytes);
  bool write(std::int64_t block, const void* address, int bytes);
  /// Counts a block, of so many, at a counter; `before`: those that were counted already.
  bool count(std::int64_t block, std::uint32_t* counter, std::uint32_t blocks,
             std::uint32_t& before);
  /// Of blocks that take turns, which run one after the other: who waits for one that nobody has
  /// passed on relies on a block that may never begin.
  bool waitForTurn(std::int64_t block, const int* turns, int turn);
  bool passTurn(std::int64_t block, int* turns, int next);
  const std::string& complaint() const { return wrong; }

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  struct Entry {
    MemoryRegion region;
    std::uintptr_t begin = 0;
    std::unique_ptr<std::uint32_t, Free> owners; // a byte's last writer + 1; null for inputs
    std::unique_ptr<std::uint32_t, Free> passes; // turns that it had passed on by then
  };
  /// A turn that a block passed on, the so manieth of it.
  struct Pass {
    std::int64_t block;
    std::uint32_t number;
  };

  Entry* find(std::uintptr_t address, int bytes, bool writing);
  std::string explain(std::uintptr_t address, int bytes, bool writing) const;
  bool isAligned(const Entry& entry, std::uintptr_t address, int bytes, bool writing);
  bool isOwn(const Entry& entry, std::int64_t block, std::uintptr_t address, int bytes,
             bool writing);
  std::uint32_t turnOf(std::int64_t block) const;
  bool hasSeen(std::int64_t block, std::int64_t other, std::uint32_t passes) const;
  Entry* turnsAt(const int* turns);
  bool refuse(std::string why);

  std::vector<Entry> entries;       // what may be written comes first
  std::size_t last = 0;             // the entry found last: accesses come in runs
  std::vector<std::uint32_t> turns; // of blocks, in which they were counted, from 1; 0: not yet
  std::map<const int*, std::vector<Pass>> passed;                      // at each place of turns
  std::map<std::int64_t, std::uint32_t> passesOf;                      // of each block
  std::map<std::pair<std::int64_t, std::int64_t>, std::uint32_t> seen; // (block, other): + 1
  std::string wrong; // with the last access that was refused
};

} // namespace kiln
