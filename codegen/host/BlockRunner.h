// Runs the blocks of one kernel, one after another, or the clusters, with threads as fibers.
// Every wait is kept track of: when nobody can go on although somebody waits, the block has
// diverged, and the error says where each thread is.
#pragma once

#include "codegen/host/Fibers.h"
#include "codegen/host/GlobalMemory.h"
#include "codegen/host/SharedMemory.h"
#include "codegen/host/host_runtime.h"

#include <array>
#include <exception>
#include <map>

namespace kiln {

/// A kernel of a loaded library and how to launch it.
struct KernelCall {
  std::string_view name;
  void* entry = nullptr;
  std::int64_t blocks = 0, blocksY = 1, blocksZ = 1;
  int threads = 0; // of a block
  int cluster = 1; // blocks
  std::int64_t sharedBytes = 0;
  std::span<const std::uint64_t> arguments; // pointers, also to tensor maps, and i64 values
  std::span<const MemoryRegion> regions;
  std::span<const WarpRole> roles;
};

/// Arguments that a kernel may have on the host.
inline constexpr std::size_t maxKernelArguments = 128; // sixteen parts of lists need 113

class BlockRunner {
 public:
  /// Fills in `table`, which belongs to the library and must stay unused by others meanwhile.
  /// Throws Error(input) for a launch that no GPU takes either.
  BlockRunner(const KernelCall& call, HostRuntime& table);
  ~BlockRunner();
  BlockRunner(const BlockRunner&) = delete;
  BlockRunner& operator=(const BlockRunner&) = delete;

  /// Runs a block, or the cluster that begins with it, counted through the grid, x first. Throws
  /// Error(verification); the runner can go on with other blocks after that.
  void run(std::int64_t block);

 private:
  static constexpr int laneCount = 32;
  static constexpr int barrierCount = 16;
  static constexpr int warpgroupThreads = 4 * laneCount;

  /// Unwinds a thread whose block has failed elsewhere.
  struct Abandoned {};
  enum class State { ready, shuffling, multiplying, waiting, awaiting, exited };
  struct Thread {
    State state = State::exited;
    int barrier = 0;                     // that it waits at, see barriers
    const void* memoryBarrier = nullptr; // that it awaits a phase of
    int clusterPhases = 0;               // of the cluster's barrier that it has awaited
    int registers = 0;                   // that it set last
    int storer = -1;                     // the copier of its stores
    int groups = 0, awaited = 0;         // of its stores: ended, and known to have been read
    int written = 0;                     // and known to be in global memory
    bool storing = false;                // since it ended the last
  };
  struct Warp {
    int shuffling = 0; // lanes that wait
    HostCollective collective = shuffleLanes;
    int turn = 0; // whose half of `values` is filled
    std::array<std::array<std::uint32_t, laneCount * hostExchangeWords>, 2> values;
  };
  struct Barrier {
    int arrived = 0;
    int expected = 0;
  };

  /// A barrier in shared memory. A phase is complete when nobody and no byte is missing.
  struct MemoryBarrier {
    int threads = 0; // of each phase
    int missing = 0; // threads
    int bytes = 0;   // expected and not yet copied
    int phase = 0;
    int initializer = -1;                     // thread
    int copier = -1;                          // of what completes here
    bool fenced = false;                      // so that copies and other blocks may use it
    SharedMemory::Clock coming{}, complete{}; // what the threads of this and the last phase knew
  };

  /// A product of a warpgroup that a thread has not waited for; its registers do not hold it yet.
  struct Product {
    float* sums;
    int group;
    std::vector<float> values;
  };
  struct Products {      // of a thread
    bool fenced = false; // since it last waited for some
    int groups = 0;      // ended
    std::vector<Product> pending{};
  };
  struct Warpgroup {
    int copier = -1; // of its operands in shared memory
    int arrived = 0; // threads, at the product
    int starter = 0; // the first of them
    int group = 0;   // that it is in
    HostProduct product{};
    std::array<std::array<std::uint32_t, 4>, warpgroupThreads> fragments; // of the left operand
    std::vector<float> left, right;                                       // (64, 16), (columns, 16)
  };

  void barrier(int id, int count);
  void initialize(const void* place, int threads);
  void fenceBarriers();
  void memoryBarrier(const void* barrier, HostBarrier what, int number);
  MemoryBarrier& barrierIn(int block, const void* place);
  MemoryBarrier& barrierOfCopy(int block, const void* place);
  void completeIfDone(const void* place, MemoryBarrier& barrier);
  void offerCollectives();
  static const char* nameOf(HostCollective what);
  const std::uint32_t* exchange(HostCollective what, const std::uint32_t* mine, int words);
  float shuffleXor(float value, int mask);
  int uniform(int value);
  std::uint32_t lanesWith(std::uint32_t value);
  void access(const void* address, int bytes, HostAccess kind);
  std::uint32_t countBlock(std::uint32_t* counter, std::uint32_t blocks);
  void storeCluster(float* to, float value);

  void offerCopies();
  void copyBytes(void* to, const void* from, int bytes, const void* barrier);
  void storeToBlock(void* to, const float* values, const void* barrier, int rank);
  void copyTile(void* to, const HostTile& tile, const void* barrier, unsigned blocks);
  void storeTile(const HostTile& tile, const void* from);
  void copyOut(const char* piece);
  void storeBytes(void* to, const void* from, int bytes, bool adds);
  void waitForStores(int groups, bool written);
  void passTurn(int* turns, int next);
  void copyIn(int block, std::uint64_t offset, const char* bytes, int count,
              MemoryBarrier& barrier);

  void offerProducts();
  void multiply(float* sums, const HostProduct& product);
  Products& productsHere();
  Warpgroup& warpgroupHere();
  void joinProduct(Warpgroup& group, const HostProduct& product);
  void readOperands(Warpgroup& group);
  std::vector<float> readOperand(const Warpgroup& group, std::uint64_t descriptor, bool transposed,
                                 int rows);
  void accumulate(const Warpgroup& group, const HostProduct& product, float* sums);
  void checkUntouched(const Product& product) const;
  void waitForProducts(int groups);

  void endThread();
  /// In the memory of the running thread's block.
  std::uint64_t offsetOf(const void* place) const {
    return static_cast<std::uint64_t>(static_cast<const char*>(place) - table.sharedMemory);
  }

  /// The barrier of a cluster is one in memory, whose place is that of the runner.
  const void* clusterBarrier() const { return this; }

  void enter(int thread);
  /// Lets others run. Inlined, as is what shuffles call around it: a processor foretells no return
  /// to a frame of a stack that it has left.
  [[gnu::always_inline]] void suspend(State state) {
    const int thread = running;
    threads[thread].state = state;
    fibers[thread].suspend();
    if (abandoning)
      throw Abandoned();
  }
  void release(int id);
  bool runWarp(int warp);
  void abandon();
  std::string whereThreadsAre() const;
  [[noreturn]] void failHere(const std::string& what) const;

  KernelCall call;
  HostRuntime& table;
  std::int64_t firstBlock = 0, firstX = 0;
  std::int64_t block = 0; // of the running thread, counted through the grid
  int running = 0;        // thread, counted through the cluster
  GlobalMemory global;
  SharedMemory shared;
  FiberLoan fibers;
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  std::vector<Warpgroup> warpgroups; // (cluster, those of a block), and...
  std::vector<Products> products;    // ...of each thread: empty before the first product
  std::vector<int> alive;            // (cluster): threads that have not ended
  std::vector<Barrier> barriers;     // (cluster, barrierCount)
  std::map<const void*, MemoryBarrier> memoryBarriers;
  std::exception_ptr failure;
  bool abandoning = false;
};

} // namespace kiln
