// Where compiled kernel text and the host runtime meet: one table per loaded kernel library.
// The library holds the table and reads its values directly; the runtime fills it in. It is
// compiled on both sides, with generated text in front of it: no library header may be included.
#pragma once

namespace kiln {

enum HostAccess { readGlobal, writeGlobal, readShared, writeShared };
enum HostBarrier {
  initializeBarrier,
  fenceBarriers, // all that the thread initialized; names none
  expectBytes,
  arriveAtBarrier,
  arriveInBlock, // at the barrier in the same place of another block of the cluster
  waitForPhase
};

/// What all lanes of a warp do together.
enum HostCollective {
  shuffleLanes,
  takeFirstLane,
  matchLanes,
  voteLanes,
  multiplyFragments,
  multiplyTf32,
  loadMatrices,
  loadMatrices2,
  storeMatrices
};
constexpr int hostExchangeWords = 6; // that a lane brings at most

/// A sum as tensor cores give it in fp32: cut off, toward 0.
inline float hostCutOff(double sum) {
  const float near = static_cast<float>(sum);
  return __builtin_fabs(static_cast<double>(near)) > __builtin_fabs(sum)
             ? __builtin_bit_cast(float, __builtin_bit_cast(unsigned, near) - 1)
             : near;
}

/// The pieces of a tensor that a tensor map shows, and where they begin.
struct HostTile {
  const void* map;
  const int* at; // coordinates, the innermost first
  int dimensions;
};

/// (64, columns) of products over 16 that a warpgroup starts.
struct HostProduct {
  float (*widen)(unsigned short); // an element
  int columns;
  const unsigned* left; // the thread's four words; null: in shared memory
  unsigned long long leftDescriptor, rightDescriptor;
  bool leftTransposed, rightTransposed;
  bool accumulate;
};

struct HostRuntime {
  void* context;   // handed back to the functions below
  int threadIndex; // of the fiber that runs now, in its block
  int clusterRank; // of its block
  long long blockIndex, blockIndexY, blockIndexZ;
  long long blockCount;
  char* sharedMemory; // of its block
  /// Id 0 with no threads is the barrier of the whole block.
  void (*barrier)(void* context, int id, int threads);
  /// The barrier of all threads of the cluster.
  void (*clusterArrive)(void* context);
  void (*clusterWait)(void* context);
  /// Stores to the same place in the shared memory of each block of the cluster.
  void (*storeCluster)(void* context, float* to, float value);
  /// Stores four values to the same place in a block of the cluster, whose barrier is told.
  void (*storeToBlock)(void* context, void* to, const float* values, void* barrier, int rank);
  float (*shuffleXor)(void* context, float value, int mask);
  int (*uniform)(void* context, int value);
  unsigned (*lanesWith)(void* context, unsigned value);
  /// The words that each lane of the warp brings, one lane's after the other's. They stay until the
  /// running thread takes part in another collective.
  const unsigned* (*exchange)(void* context, HostCollective what, const unsigned* mine, int words);
  /// A barrier in shared memory; `number` of threads, of bytes, of the block, or the parity of the
  /// phase.
  void (*memoryBarrier)(void* context, void* barrier, HostBarrier what, int number);
  /// Bulk copies: of bytes, of a tile (to the blocks of the cluster in a mask) and from one, and
  /// from bytes, which may be added as fp32.
  void (*copyBytes)(void* context, void* to, const void* from, int bytes, void* barrier);
  void (*copyTile)(void* context, void* to, const HostTile* tile, void* barrier, unsigned blocks);
  void (*storeTile)(void* context, const HostTile* tile, const void* from);
  void (*storeBytes)(void* context, void* to, const void* from, int bytes, bool adds);
  /// Ends a group of the stores that the thread started, or waits for all but so many groups, until
  /// they have read shared memory, or are written too.
  void (*endStores)(void* context);
  void (*waitForStores)(void* context, int groups, bool written);
  void (*fenceCopies)(void* context);
  /// Products of a warpgroup: starts one whose sums the thread will hold there, ends a group, waits
  /// for all but so many groups.
  void (*multiply)(void* context, float* sums, const HostProduct* product);
  void (*fenceProducts)(void* context);
  void (*endProducts)(void* context);
  void (*waitForProducts)(void* context, int groups);
  void (*setRegisters)(void* context, int registers);
  /// Returns if the access is allowed, otherwise leaves the kernel by an exception.
  void (*access)(void* context, const void* address, int bytes, HostAccess kind);
  /// Counts the block, of so many, and returns how many had been counted before.
  unsigned (*countBlock)(void* context, unsigned* counter, unsigned blocks);
  /// Of blocks that take turns.
  void (*waitForTurn)(void* context, const int* turns, int turn);
  void (*passTurn)(void* context, int* turns, int next);
};

} // namespace kiln
