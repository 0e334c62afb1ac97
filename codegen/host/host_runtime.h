// Where compiled kernel text and the host runtime meet: one table per loaded kernel library.
// The library holds the table and reads its values directly; the runtime fills it in. It is
// compiled on both sides, with generated text in front of it: no library header may be included.
#pragma once

namespace kiln {

enum HostAccess { readGlobal, writeGlobal, readShared, writeShared };
enum HostBarrier { initializeBarrier, expectBytes, completeBytes, arriveAtBarrier, waitForPhase };

struct HostRuntime {
  void* context;   // handed back to the functions below
  int threadIndex; // of the fiber that runs now
  long long blockIndex;
  long long blockCount;
  char* sharedMemory;
  /// Id 0 with no threads is the barrier of the whole block.
  void (*barrier)(void* context, int id, int threads);
  float (*shuffleXor)(void* context, float value, int mask);
  unsigned (*lanesWith)(void* context, unsigned value);
  /// A barrier in shared memory; `number` of threads, of bytes, or the parity of the phase.
  void (*memoryBarrier)(void* context, void* barrier, HostBarrier what, int number);
  /// Returns if the access is allowed, otherwise leaves the kernel by an exception.
  void (*access)(void* context, const void* address, int bytes, HostAccess kind);
};

} // namespace kiln
