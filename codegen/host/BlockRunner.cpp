// The scheduler of a block: which threads may run, what each of the others waits for.
#include "codegen/host/BlockRunner.h"

#include "codegen/backend/Fail.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace kiln {

namespace {

constexpr int laneMultiple = 32;
constexpr int maxThreads = 1024;
constexpr int maxCluster = 16;
constexpr int maxClusterThreads = 2048;             // a bit a warp
constexpr std::size_t maxParts = 16;                // of a message
constexpr std::int64_t maxSharedBytes = 227 * 1024; // of the largest target

using CallFunction = void (*)(void*, const std::uint64_t*);

// A kernel's parameters are all pointers or 64-bit integers, which the x86-64 and AArch64 calling
// conventions pass alike: a function of that many integers can stand for every signature, which
// sanitizers need not see: checks of these 8,000 reads take longer to compile than all else here.
template <std::size_t... Index>
#if defined(__clang__)
__attribute__((no_sanitize("address", "undefined")))
#endif
void callWith(void* entry, const std::uint64_t* arguments, std::index_sequence<Index...>) {
  using Function = void (*)(decltype(static_cast<void>(Index), std::uint64_t())...);
  reinterpret_cast<Function>(entry)(arguments[Index]...);
}

template <std::size_t... Count>
constexpr std::array<CallFunction, sizeof...(Count)> makeCalls(std::index_sequence<Count...>) {
  return {[](void* entry, const std::uint64_t* arguments) {
    callWith(entry, arguments, std::make_index_sequence<Count>());
  }...};
}

constexpr auto calls = makeCalls(std::make_index_sequence<maxKernelArguments + 1>());

const KernelCall& checked(const KernelCall& call) {
  if (call.threads < laneMultiple || call.threads > maxThreads || call.threads % laneMultiple != 0)
    fail(ErrorKind::input, "{}: {} threads a block; allowed are multiples of {} up to {}",
         call.name, call.threads, laneMultiple, maxThreads);
  if (call.cluster < 1 || call.cluster > maxCluster || call.blocks % call.cluster != 0 ||
      call.cluster * call.threads > maxClusterThreads)
    fail(ErrorKind::input,
         "{}: {} blocks of {} threads in clusters of {}; allowed are whole clusters of 1 to {} "
         "blocks and {} threads",
         call.name, call.blocks, call.threads, call.cluster, maxCluster, maxClusterThreads);
  if (call.sharedBytes < 0 || call.sharedBytes > maxSharedBytes)
    fail(ErrorKind::input, "{}: {} bytes of shared memory; allowed are 0 to {}", call.name,
         call.sharedBytes, maxSharedBytes);
  if (call.arguments.size() > maxKernelArguments)
    fail(ErrorKind::input, "{}: {} arguments; the host target passes at most {}", call.name,
         call.arguments.size(), maxKernelArguments);
  return call;
}

} // namespace

BlockRunner::BlockRunner(const KernelCall& kernel, HostRuntime& runtime)
    : call(checked(kernel)), table(runtime), global(call.regions),
      shared(call.sharedBytes, call.threads, call.cluster), fibers(call.threads * call.cluster),
      threads(call.threads * call.cluster), warps(threads.size() / laneCount),
      barriers(call.cluster * barrierCount) {
  table.context = this;
  table.blockCount = call.blocks;
  table.barrier = [](void* context, int id, int count) {
    static_cast<BlockRunner*>(context)->barrier(id, count);
  };
  table.memoryBarrier = [](void* context, void* barrier, HostBarrier what, int number) {
    static_cast<BlockRunner*>(context)->memoryBarrier(barrier, what, number);
  };
  table.clusterArrive = [](void* context) {
    auto* runner = static_cast<BlockRunner*>(context);
    if (!runner->memoryBarriers.contains(runner->clusterBarrier())) {
      const int all = static_cast<int>(runner->threads.size());
      runner->memoryBarriers[runner->clusterBarrier()] = {.threads = all, .missing = all};
    }
    runner->memoryBarrier(runner->clusterBarrier(), arriveAtBarrier, 1);
  };
  table.clusterWait = [](void* context) {
    auto* runner = static_cast<BlockRunner*>(context);
    const int phase = runner->threads[runner->running].clusterPhases++;
    runner->memoryBarrier(runner->clusterBarrier(), waitForPhase, phase % 2);
  };
  table.storeCluster = [](void* context, float* to, float value) {
    static_cast<BlockRunner*>(context)->storeCluster(to, value);
  };
  table.access = [](void* context, const void* address, int bytes, HostAccess kind) {
    static_cast<BlockRunner*>(context)->access(address, bytes, kind);
  };
  table.countBlock = [](void* context, unsigned* counter, unsigned blocks) {
    return static_cast<BlockRunner*>(context)->countBlock(counter, blocks);
  };
  table.waitForTurn = [](void* context, const int* turns, int turn) {
    auto* runner = static_cast<BlockRunner*>(context);
    if (!runner->global.waitForTurn(runner->block, turns, turn))
      runner->failHere(runner->global.complaint());
  };
  table.passTurn = [](void* context, int* turns, int next) {
    static_cast<BlockRunner*>(context)->passTurn(turns, next);
  };
  offerCollectives();
  offerCopies();
  offerProducts();
  for (std::size_t thread = 0; thread < threads.size(); ++thread)
    fibers[thread].start([this] {
      try {
        calls[call.arguments.size()](call.entry, call.arguments.data());
        endThread();
      } catch (const Abandoned&) {
      } catch (...) {
        failure = std::current_exception();
      }
      threads[running].state = State::exited;
    });
}

BlockRunner::~BlockRunner() {
  table = {};
  for (std::size_t thread = 0; thread < threads.size(); ++thread)
    fibers[thread].start(nullptr);
}

void BlockRunner::failHere(const std::string& what) const {
  fail(ErrorKind::verification, "{}: block {} thread {} {}", call.name, block, table.threadIndex,
       what);
}

void BlockRunner::run(std::int64_t first) {
  firstBlock = first;
  firstX = first % call.blocks;
  table.blockIndexY = first / call.blocks % call.blocksY;
  table.blockIndexZ = first / call.blocks / call.blocksY;
  shared.begin();
  std::ranges::fill(barriers, Barrier());
  memoryBarriers.clear();
  warpgroups.clear();
  products.clear();
  for (Warp& warp : warps)
    warp.shuffling = 0;
  std::ranges::fill(threads, Thread{.state = State::ready});
  alive.assign(call.cluster, call.threads);
  bool progress = true;
  while (progress) {
    progress = false;
    for (int warp = 0; warp < static_cast<int>(warps.size()); ++warp)
      progress |= runWarp(warp);
  }
  bool finished = true;
  for (const Thread& thread : threads)
    finished = finished && thread.state == State::exited;
  if (finished)
    return;
  std::string where = whereThreadsAre();
  abandon();
  fail(ErrorKind::verification, "{}: block {} diverged: {}", call.name, first, where);
}

/// What the thread will find in the table.
void BlockRunner::enter(int thread) {
  running = thread;
  table.clusterRank = thread / call.threads;
  table.threadIndex = thread % call.threads;
  table.blockIndex = firstX + table.clusterRank;
  block = firstBlock + table.clusterRank;
  table.sharedMemory = shared.data(table.clusterRank);
}

/// Lets each lane that can run do so until it waits; false if none could.
bool BlockRunner::runWarp(int warp) {
  bool ran = false;
  for (int thread = warp * laneCount; thread < (warp + 1) * laneCount; ++thread) {
    if (threads[thread].state != State::ready)
      continue;
    enter(thread);
    fibers[thread].resume();
    if (failure) {
      abandon();
      std::rethrow_exception(std::exchange(failure, nullptr));
    }
    ran = true;
  }
  return ran;
}

/// Ends all threads that have begun, so that their fibers can be used again.
void BlockRunner::abandon() {
  abandoning = true;
  for (int thread = 0; thread < static_cast<int>(threads.size()); ++thread)
    if (fibers[thread].running()) {
      enter(thread);
      fibers[thread].resume();
    }
  abandoning = false;
}

void BlockRunner::access(const void* address, int bytes, HostAccess kind) {
  const bool allowed = kind == readGlobal    ? global.read(block, address, bytes)
                       : kind == writeGlobal ? global.write(block, address, bytes)
                       : kind == readShared  ? shared.read(running, address, bytes)
                                             : shared.write(running, address, bytes);
  if (!allowed)
    failHere(kind == readGlobal || kind == writeGlobal ? global.complaint() : shared.complaint());
}

std::uint32_t BlockRunner::countBlock(std::uint32_t* counter, std::uint32_t blocks) {
  std::uint32_t before = 0;
  if (blocks != call.blocks * call.blocksY * call.blocksZ)
    failHere(fmt::format("counts itself as one of {} blocks; the grid has {}", blocks,
                         call.blocks * call.blocksY * call.blocksZ));
  if (!global.count(block, counter, blocks, before))
    failHere(global.complaint());
  return before;
}

void BlockRunner::storeCluster(float* to, float value) {
  const std::ptrdiff_t offset = reinterpret_cast<char*>(to) - table.sharedMemory;
  for (int block = 0; block < call.cluster; ++block) {
    char* there = shared.data(block) + offset;
    if (!shared.write(running, block, there, sizeof value))
      failHere(shared.complaint());
    std::memcpy(there, &value, sizeof value);
  }
}

void BlockRunner::barrier(int id, int count) {
  if (id == 0 && count == 0)
    count = call.threads;
  else if (id < 1 || id >= barrierCount)
    failHere(fmt::format("waits at barrier {}; allowed are 1 to {}", id, barrierCount - 1));
  if (count < laneCount || count > call.threads || count % laneCount != 0)
    failHere(fmt::format("waits at barrier {} for {} threads; allowed are multiples of {} up to {}",
                         id, count, laneCount, call.threads));
  id += table.clusterRank * barrierCount;
  Barrier& meeting = barriers[id];
  if (meeting.arrived > 0 && meeting.expected != count)
    failHere(fmt::format("waits at barrier {} for {} threads where others wait for {}",
                         id % barrierCount, count, meeting.expected));
  meeting.expected = count;
  threads[running].barrier = id;
  bool last = ++meeting.arrived == count;
  if (last)
    release(id);
  suspend(last ? State::ready : State::waiting);
}

/// The running thread was the last to arrive.
void BlockRunner::release(int id) {
  threads[running].state = State::waiting;
  std::uint64_t mask = 0;
  for (std::size_t warp = 0; warp < warps.size(); ++warp) {
    int here = 0;
    for (int lane = 0; lane < laneCount; ++lane) {
      const Thread& thread = threads[warp * laneCount + lane];
      here += thread.state == State::waiting && thread.barrier == id;
    }
    if (here == laneCount)
      mask |= std::uint64_t(1) << warp;
    else if (here > 0) // the hardware counts whole warps
      failHere(fmt::format("completes barrier {} with {} of 32 lanes of warp {}", id % barrierCount,
                           here, warp));
  }
  for (Thread& thread : threads)
    if (thread.state == State::waiting && thread.barrier == id)
      thread.state = State::ready;
  barriers[id].arrived = 0;
  shared.synchronize(mask);
}

/// That the running thread uses, and must know to be initialized.
BlockRunner::MemoryBarrier& BlockRunner::barrierIn(int of, const void* place) {
  if (place != clusterBarrier() && !shared.read(running, of, place, 8))
    failHere(shared.complaint());
  auto found = memoryBarriers.find(place);
  if (found == memoryBarriers.end())
    failHere("uses a barrier in shared memory that was not initialized");
  return found->second;
}

void BlockRunner::memoryBarrier(const void* place, HostBarrier what, int number) {
  if (what == initializeBarrier)
    return initialize(place, number);
  if (what == HostBarrier::fenceBarriers)
    return fenceBarriers();
  if (what == arriveInBlock)
    place = shared.data(number) + offsetOf(place);
  MemoryBarrier& barrier =
      what == arriveInBlock ? barrierOfCopy(number, place) : barrierIn(table.clusterRank, place);
  const int warp = running / laneCount;
  if (what == waitForPhase) {
    threads[running].memoryBarrier = place;
    while (barrier.phase % 2 == number)
      suspend(State::awaiting);
    shared.acquire(warp, barrier.complete);
    return;
  }
  if (what == expectBytes) {
    barrier.bytes += number;
  } else {
    if (what == arriveInBlock && number != table.clusterRank)
      shared.reach(warp, number);
    shared.release(warp, barrier.coming);
    --barrier.missing;
  }
  if (barrier.missing < 0)
    failHere(fmt::format("arrives at a barrier in shared memory where {} have arrived already",
                         barrier.threads));
  completeIfDone(place, barrier);
}

void BlockRunner::completeIfDone(const void* place, MemoryBarrier& barrier) {
  if (barrier.missing != 0 || barrier.bytes != 0)
    return;
  ++barrier.phase;
  barrier.missing = barrier.threads;
  barrier.complete = barrier.coming;
  if (barrier.copier >= 0)
    shared.completeCopies(barrier.copier, barrier.phase, barrier.complete);
  for (Thread& thread : threads)
    if (thread.state == State::awaiting && thread.memoryBarrier == place)
      thread.state = State::ready;
}

/// "threads 0-31 wait at block_barrier, threads 32-127 exited".
std::string BlockRunner::whereThreadsAre() const {
  auto collectiveOf = [&](std::size_t thread) { return warps[thread / laneCount].collective; };
  auto same = [&](std::size_t a, std::size_t b) {
    return threads[a].state == threads[b].state &&
           (threads[a].state != State::waiting || threads[a].barrier == threads[b].barrier) &&
           (threads[a].state != State::shuffling || collectiveOf(a) == collectiveOf(b));
  };
  std::vector<std::string> parts;
  for (std::size_t first = 0, next; first < threads.size(); first = next) {
    for (next = first + 1; next < threads.size() && same(first, next);)
      ++next;
    const Thread& thread = threads[first];
    bool one = next == first + 1;
    std::string who =
        one ? fmt::format("thread {}", first) : fmt::format("threads {}-{}", first, next - 1);
    const char* wait = one ? "waits" : "wait";
    if (thread.state == State::exited)
      parts.push_back(who + " exited");
    else if (thread.state == State::shuffling)
      parts.push_back(fmt::format("{} {} in {}", who, wait, nameOf(collectiveOf(first))));
    else if (thread.state == State::multiplying)
      parts.push_back(fmt::format("{} {} in wgmma", who, wait));
    else if (thread.state == State::awaiting)
      parts.push_back(fmt::format("{} {} at {}", who, wait,
                                  thread.memoryBarrier == clusterBarrier()
                                      ? "cluster_wait"
                                      : "a barrier in shared memory"));
    else if (thread.barrier % barrierCount == 0)
      parts.push_back(fmt::format("{} {} at block_barrier", who, wait));
    else
      parts.push_back(fmt::format("{} {} at group_barrier({}, {})", who, wait,
                                  thread.barrier % barrierCount,
                                  barriers[thread.barrier].expected));
    if (parts.size() == maxParts) {
      parts.push_back("and so on");
      break;
    }
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

} // namespace kiln
