// See Compiler.h.
#include "runtime/Compiler.h"

#include "runtime/Backend.h"
#include "runtime/KernelMaker.h"
#include "runtime/Log.h"
#include "runtime/Stores.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <future>
#include <memory>
#include <pthread.h>
#include <thread>
#include <utility>

namespace kiln::runtime {

namespace {

/// NVRTC registers what it does when the process ends while it compiles for the first time. What
/// is registered later is called earlier: once this is done, stop() finds NVRTC still whole.
void loadNvrtc() {
  try {
    CompileOptions options;
    options.until = Stage::cubin;
    const Module copy = Module::parse("func.func @copy(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {\n"
                                      "  return %x : tensor<?x4xf32>\n}\n",
                                      "copy");
    static_cast<void>(Program::compile(copy, options));
  } catch (const Error& error) { // the first kernel that is asked for says it again
    log("{}", error.what());
  }
}

constexpr char kEnding[] = "the process is ending";
constexpr char kForked[] =
    "this process was forked while its parent compiled, and can compile nothing";

/// Whether this thread is compiling.
thread_local bool isCompiling = false;

class Compiler {
 public:
  static Compiler& get() {
    static const bool begun = [] {
      one = new Compiler; // routers may run until the very end
      ::pthread_atfork([] { one.load()->beforeFork(); }, [] { one.load()->afterFork(); },
                       [] { one = new Compiler(*one.load()); });
      return true;
    }();
    static_cast<void>(begun);
    return *one.load(std::memory_order_acquire);
  }

  void configure(const Options& next) {
    auto opened = std::make_shared<const Stores>(next, isForked, /*isFrozen=*/false);
    if (next.place == Place::gpu && backendOf(Place::gpu).whyNot().empty())
      std::call_once(nvrtcLoaded, loadNvrtc); // before the first step
    std::lock_guard held(mutex);
    stores = std::move(opened);
    options = next;
  }

  std::string freeze() {
    std::lock_guard held(mutex);
    const Options chosen = options ? *options : Options::fromEnvironment();
    if (chosen.mode == Mode::tune)
      throw Error(ErrorKind::input,
                  "choices cannot be frozen in mode 'tune', which changes them: tune first, with "
                  "one process or by kernel-compile tune, and then take KILN_MODE=use");
    auto frozen = std::make_shared<const Stores>(chosen, isForked, /*isFrozen=*/true);
    std::string text = frozen->describe();
    stores = std::move(frozen);
    return text;
  }

  void enqueue(Order& order) {
    if (order.backend.until() == Stage::cubin)
      std::call_once(nvrtcLoaded, loadNvrtc); // fused functions need no enable()
    std::lock_guard held(mutex);
    if (const char* why = stopping ? kEnding : whyNone)
      return leaveToATen(order, why);
    queue.push_back(&order);
    startLocked();
    changed.notify_all();
  }

  void wait(const std::function<bool()>& isDone) {
    std::unique_lock held(mutex);
    startLocked();
    changed.wait(held, [&] { return stopping || isDone(); });
  }
  /// Goes on with what was queued when this process was forked.
  void resume() {
    if (!isLeft.load(std::memory_order_relaxed))
      return;
    std::lock_guard held(mutex);
    startLocked();
  }
  /// Compiles in this thread; whoever forks waits for it.
  template <typename Work> auto compileHere(const Work& work) {
    begin();
    struct End {
      Compiler& compiler;
      ~End() { compiler.end(); }
    } end{*this};
    return work();
  }
  KernelCounts kernelCounts() const { return maker.counts(); }
  bool isIdle() const { return queue.empty() && !atWork; }
  bool isStopping() {
    std::lock_guard held(mutex);
    return stopping;
  }
  std::filesystem::path cacheFile() {
    std::lock_guard held(mutex);
    return stores    ? stores->options().cache
           : options ? options->cache // as the parent had
                     : std::filesystem::path();
  }
  std::shared_ptr<const Stores> current() {
    std::lock_guard held(mutex);
    return currentOfLocked();
  }

 private:
  const std::shared_ptr<const Stores>& currentOfLocked() {
    if (!stores)
      stores =
          std::make_shared<const Stores>(options ? *options : Options::fromEnvironment(), isForked,
                                         /*isFrozen=*/false);
    return stores;
  }

  Compiler() = default;
  /// In a child process, which has this thread alone and another's memory. What the parent's
  /// compiler has is left as it is for good: its thread, its locks and its connections to stores.
  explicit Compiler(const Compiler& parent)
      : queue(parent.queue), options(parent.options), isForked(true),
        maker(parent.maker, parent.isWhole()) {
    if (parent.isWhole()) {
      isLeft = !queue.empty();
      return;
    }
    whyNone = kForked; // who knows what locks were held
    if (parent.atWork)
      queue.push_back(parent.atWork);
    for (Order* order : queue) {
      std::construct_at(&order->detail, kForked); // it may have been half written
      order->state.store(Order::State::aten, std::memory_order_release);
    }
    queue.clear();
  }

  /// Whether nobody is in the middle of anything.
  bool isWhole() const { return busy == 0 && !whyNone; }

  /// Waits until nothing is compiled, so that the child finds everything whole; but not as long as
  /// a tuning may take. The lock is held until it is forked.
  void beforeFork() {
    constexpr std::chrono::seconds patience{5};
    std::unique_lock held(mutex);
    ++forks;
    changed.wait_for(held, patience, [&] { return busy == 0 || isCompiling; });
    held.release();
  }
  void afterFork() {
    --forks;
    changed.notify_all();
    mutex.unlock();
  }

  void begin() {
    std::unique_lock held(mutex);
    if (whyNone)
      throw Error(ErrorKind::unavailable, whyNone);
    changed.wait(held, [&] { return forks == 0; });
    ++busy;
    isCompiling = true;
  }
  void end() {
    std::lock_guard held(mutex);
    --busy;
    isCompiling = false;
    changed.notify_all();
  }

  static void leaveToATen(Order& order, const char* why) {
    order.detail = why;
    order.state.store(Order::State::aten, std::memory_order_release);
  }

  /// The thread, if there is something to do for it.
  void startLocked() {
    static bool isRegistered = false; // in children too
    if (thread.joinable() || stopping || queue.empty())
      return;
    isLeft = false;
    thread = std::thread([this] { work(); });
    if (!std::exchange(isRegistered, true))
      std::atexit([] { get().stop(); });
  }

  /// At the end of the process: what is being compiled is waited for, all else is left.
  void stop() {
    {
      std::lock_guard held(mutex);
      stopping = true;
      for (Order* order : queue)
        leaveToATen(*order, kEnding);
      queue.clear();
      changed.notify_all();
    }
    if (thread.joinable())
      thread.join();
  }

  void work() {
    isCompiling = true;
    for (std::unique_lock held(mutex);;) {
      changed.wait(held, [&] { return stopping || (!queue.empty() && forks == 0); });
      if (stopping)
        return;
      atWork = queue.front();
      queue.pop_front();
      ++busy;
      std::shared_ptr<const Stores> now;
      try {
        now = currentOfLocked();
      } catch (const std::exception& error) { // a file that is no store, say
        atWork->detail = error.what();
        atWork->state.store(Order::State::failed, std::memory_order_release);
      }
      held.unlock();
      if (now)
        maker.settle(*atWork, *now);
      held.lock();
      --busy;
      atWork = nullptr;
      changed.notify_all();
    }
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::thread thread;
  std::deque<Order*> queue;
  Order* atWork = nullptr; // of the thread
  unsigned busy = 0;       // threads that compile
  unsigned forks = 0;      // threads that wait for those, to fork
  std::shared_ptr<const Stores> stores;
  std::optional<Options> options;
  std::once_flag nvrtcLoaded;
  bool stopping = false;
  const bool isForked = false;
  const char* whyNone = nullptr;    // nothing can be compiled
  std::atomic<bool> isLeft = false; // something in the queue for a thread that is not there yet
  static inline std::atomic<Compiler*> one = nullptr;
  KernelMaker maker; // of the thread alone, but for its counts
};

} // namespace

void configureCompiler(const Options& options) {
  Compiler::get().configure(options);
}
std::string freezeChoices() {
  return Compiler::get().freeze();
}
void enqueue(Order& order) {
  Compiler::get().enqueue(order);
}
void waitFor(const Order& order) {
  Compiler::get().wait([&] { return order.isSettled(); });
}
void waitForAll() {
  Compiler& compiler = Compiler::get();
  compiler.wait([&] { return compiler.isIdle(); });
}
/// In a thread of its own: the caller's keeps its device, and may be next to a capture.
Program compileNow(TuningTask task, const Backend& backend, int device) {
  return std::async(std::launch::async,
                    [&] {
                      return Compiler::get().compileHere([&] {
                        const auto stores = Compiler::get().current();
                        task.options.arch = backend.enter(device);
                        task.options.until = backend.until();
                        if (const Tuned* tuned = stores->find(task, backend, device);
                            tuned && !tuned->isVendor()) {
                          log("{}: kernels from a store", task.label);
                          return programOf(*tuned, task, backend);
                        }
                        Program program = stores->compile(task, backend).program;
                        log("{}: compiled", task.label);
                        return program;
                      });
                    })
      .get();
}
bool isEnding() {
  return Compiler::get().isStopping();
}
void resumeCompiling() {
  Compiler::get().resume();
}
KernelCounts kernelCounts() {
  return Compiler::get().kernelCounts();
}
void recordMissing(const std::filesystem::path& workload) {
  waitForAll();
  Compiler::get().current()->recordShapes(workload);
}
std::string describeStores() {
  const auto file = Compiler::get().cacheFile();
  return file.empty() ? "standard" : file.string();
}

} // namespace kiln::runtime
