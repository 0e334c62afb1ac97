// Shared memory of a block, or of the blocks of a cluster, with a record of who touched each byte,
// so that reads of bytes never written and races are found whatever order the threads happened to
// run in. Threads are counted through the cluster. Warps carry vector clocks: barriers and shuffles
// take whole warps, so that one clock a warp is exact. Two accesses by different threads race if no
// chain of them lies between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace kiln {

class SharedMemory {
 public:
  using Epoch = std::uint32_t;
  using Clock = std::vector<Epoch>; // (warps): what is known of each

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
  bool write(int thread, const void* address, int bytes);
  bool write(int thread, int block, const void* address, int bytes);
  const std::string& complaint() const { return wrong; }

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
  struct Release {
    void operator()(char* data) const;
  };

  Epoch& clock(int warp, int of) { return clocks[warp * warps + of]; }
  /// Whether what `of` did at `epoch` comes before what `warp` does now.
  bool before(Epoch epoch, int of, int warp) { return clock(warp, of) > epoch; }
  int conflictingReader(int thread, std::size_t byte);
  /// From the start of all memory; of a block's, for messages.
  std::size_t offsetOf(const void* address) const;
  std::int64_t within(std::size_t offset, int block) const;
  bool isInside(const char* verb, std::int64_t where, int bytes);
  bool refuse(std::string why);

  std::int64_t size, stride; // of a block's memory; from one block's to the next
  int threadsOfBlock, warps;
  std::unique_ptr<char, Release> memory;
  std::vector<Write> writes; // (bytes)
  std::vector<Read> reads;   // (bytes, warps)
  std::vector<Epoch> clocks; // (warps, warps): what a warp knows of the others
  Epoch base = 0;            // everything up to here belongs to earlier blocks
  std::string wrong;         // with the last access that was refused
};

} // namespace kiln
