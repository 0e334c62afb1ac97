// Shared memory of a block, or of the blocks of a cluster, with a record of who touched each byte,
// so that reads of bytes never written and races are found whatever order the threads happened to
// run in. Threads are counted through the cluster. Warps carry vector clocks: barriers and shuffles
// take whole warps, so that one clock a warp is exact. Two accesses by different threads race if no
// chain of them lies between.
// Bulk copies touch memory on their own account, a copier for those that complete at one barrier
// and one for the stores of a thread: they come after what the thread that starts them knows, and
// before those who have awaited them. What threads wrote they see only behind a fence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace kiln {

class SharedMemory {
 public:
  static constexpr int laneCount = 32;
  using Epoch = std::uint32_t;
  /// What is known of each warp and copier, and how much of it bulk copies see.
  struct Clock {
    std::vector<Epoch> known, fenced;
  };

  /// For each block so many bytes and threads.
  SharedMemory(std::int64_t bytes, int threads, int blocks = 1);

  char* data(int block = 0) { return memory.get() + block * stride; }

  /// Forgets what the previous blocks wrote.
  void begin();
  /// All lanes of these warps (bit w: warp w) met.
  void synchronize(std::uint64_t warpMask);

  /// What this warp knows becomes known to those who acquire `what` later.
  void release(int warp, Clock& what);
  void acquire(int warp, const Clock& what);

  /// Whether the access to the memory of the thread's own block, or of another that is named, is
  /// allowed; if not, complaint() says why. Nearly all are, and pay for no text.
  bool read(int thread, const void* address, int bytes);
  bool read(int thread, int block, const void* address, int bytes);
  bool write(int thread, const void* address, int bytes);
  bool write(int thread, int block, const void* address, int bytes);
  const std::string& complaint() const { return wrong; }

  /// A copier of the blocks that run; its copies are counted in phases, from 0.
  int addCopier();
  /// A copy that `thread` starts, into the memory of a block or out of its own.
  bool copyIn(int thread, int copier, int phase, int block, const void* address, int bytes);
  bool copyOut(int thread, int copier, int phase, const void* address, int bytes);
  /// An operand of a product that four warps from `thread` on start together, each of which must
  /// see it. Products are counted in phases as copies are.
  bool readOperand(int thread, int copier, int phase, const void* address, int bytes);
  /// All copies of the phases before this are done, as those who acquire `what` know, or a warp.
  void completeCopies(int copier, int phases, Clock& what) const;
  void completeCopies(int copier, int phases, int warp);
  /// This warp reaches a barrier in the memory of another block.
  void reach(int warp, int block) { note(block, warp, clock(warp, warp)); }
  /// Whether the block, whose last thread ends, knows of all that reached its memory from outside;
  /// if not, complaint() says what may still come.
  bool mayEnd(int block);
  /// What this warp knows to be written is visible to the copies that come after.
  void fence(int warp);

 private:
  struct Write {
    Epoch epoch = 0;
    std::uint32_t thread = 0;
  };
  struct Read { // the last two lanes of one warp that read within one epoch
    Epoch epoch = 0;
    std::uint16_t lane = 0;
    std::uint16_t otherLane = 0;
  };
  struct Copied { // the last copy out of a byte, or product that reads it
    Epoch epoch = 0;
    std::uint32_t copier = 0;
  };
  struct Release {
    void operator()(char* data) const;
  };

  Epoch& clock(int warp, int of) { return clocks[warp * capacity + of]; }
  Epoch& fenced(int warp, int of) { return fencedClocks[warp * capacity + of]; }
  Epoch epochOf(int phase) const { return base + 1 + static_cast<Epoch>(phase); }
  /// Whether what `of` did at `epoch` comes before what `warp` does now.
  bool before(Epoch epoch, int of, int warp) { return clock(warp, of) > epoch; }
  int conflictingReader(int thread, std::size_t byte);
  void note(int block, int column, Epoch epoch);
  bool areOrdered(int thread, std::size_t offset, int bytes, const char* verb, std::int64_t where);
  bool isVisible(const Write& write, int warp, const char* verb, std::int64_t where, int bytes);
  /// Whether the byte was written before what this thread does now.
  bool isReadable(const Write& write, int thread) {
    const auto writer = static_cast<int>(write.thread);
    return write.epoch > base &&
           (writer == thread || before(write.epoch, writer / laneCount, thread / laneCount));
  }
  bool refuseRead(std::size_t byte, std::int64_t where, int bytes, std::int64_t place);
  void recordCopy(std::size_t slot, std::size_t offset, int bytes, Copied copy);
  std::string nameOf(int thread) const;
  /// From the start of all memory; of a block's, for messages.
  std::size_t offsetOf(const void* address) const;
  std::int64_t within(std::size_t offset, int block) const;
  bool isInside(const char* verb, std::int64_t where, int bytes);
  bool refuse(std::string why);

  std::int64_t size, stride; // of a block's memory; from one block's to the next
  int threadsOfBlock, warps;
  std::unique_ptr<char, Release> memory;
  std::vector<Write> writes;               // (bytes)
  std::vector<Read> reads;                 // (bytes, warps)
  std::vector<std::vector<Epoch>> reached; // (blocks, columns): by others, and by copies, last
  std::vector<Copied> copied; // (copies and each warpgroup's products, bytes), as far as there are
  int columns, capacity;      // warps and copiers, and for how many there is room
  std::vector<Epoch> clocks;  // (warps, columns): what a warp knows of the others
  std::vector<Epoch> fencedClocks; // the same, of what copies see; empty before the first fence
  std::vector<Epoch> joined;       // (columns), of a meeting
  Epoch base = 0;                  // everything up to here belongs to earlier blocks
  Epoch newest = 0;                // of all copies
  std::string wrong;               // with the last access that was refused
};

} // namespace kiln
