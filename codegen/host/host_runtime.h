// Where compiled kernel text and the host runtime meet: one table per loaded kernel library.
// The library holds the table and reads its values directly; the runtime fills it in. It is
// compiled on both sides, with generated text in front of it: no library header may be included.
#pragma once

namespace kiln {

enum HostAccess { readGlobal, writeGlobal, readShared, writeShared };
enum HostBarrier { initializeBarrier, expectBytes, completeBytes, arriveAtBarrier, waitForPhase };

struct HostRuntime {
  void* context;   // handed back to the functions below
  int threadIndex; // of the fiber that runs now, in its block
  int clusterRank; // of its block
  long long blockIndex;
  long long blockCount;
  char* sharedMemory; // of its block
  /// Id 0 with no threads is the barrier of the whole block.
  void (*barrier)(void* context, int id, int threads);
  /// The barrier of all threads of the cluster.
  void (*clusterArrive)(void* context);
  void (*clusterWait)(void* context);
  /// Stores to the same place in the shared memory of each block of the cluster.
  void (*storeCluster)(void* context, float* to, float value);
  float (*shuffleXor)(void* context, float value, int mask);
  unsigned (*lanesWith)(void* context, unsigned value);
  /// A barrier in shared memory; `number` of threads, of bytes, or the parity of the phase.
  void (*memoryBarrier)(void* context, void* barrier, HostBarrier what, int number);
  /// Returns if the access is allowed, otherwise leaves the kernel by an exception.
  void (*access)(void* context, const void* address, int bytes, HostAccess kind);
};

} // namespace kiln
