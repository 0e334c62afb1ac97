// See Compiler.h.
#include "runtime/Compiler.h"

#include "kiln/tuner.h"
#include "runtime/Backend.h"
#include "runtime/Log.h"
#include "runtime/Route.h"
#include "runtime/Site.h"
#include "runtime/Tune.h"

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <future>
#include <map>
#include <thread>

namespace kiln::runtime {

TaskText taskTextOf(const Plan& plan) {
  const Route& route = plan.site.route;
  return {route.module(plan.key),
          fmt::format("{} {}", route.name, labelOf(plan.key, plan.firstRows))};
}

namespace {

/// Stores as the options name them.
struct Stores {
  explicit Stores(const Options& options) : options(options) {
    TunerOptions tunerOptions;
    tunerOptions.onWarning = [](const std::string& text) { log("{}", text); };
    if (!options.cache.empty()) {
      cache.emplace(Cache::open(options.cache));
      for (const std::string& warning : cache->warnings())
        log("{}", warning);
      tunerOptions.layers.project = options.cache;
    }
    tuner.emplace(Tuner::open(tunerOptions));
  }
  Options options;
  std::optional<Cache> cache;
  std::optional<Tuner> tuner;
};

/// The cost model's choice, kept in the cache if there is one.
Program compileInto(const Stores& stores, const TuningTask& task, const Backend& backend) {
  const bool kept = stores.cache && backend.until() == Stage::cubin;
  return kept ? stores.cache->compile(task).program : Program::compile(task.module, task.options);
}

class Compiler {
 public:
  static Compiler& get() {
    static auto* one = new Compiler; // routers may run until the very end
    return *one;
  }

  void configure(const Options& next) {
    auto opened = std::make_shared<const Stores>(next);
    std::lock_guard held(mutex);
    stores = std::move(opened);
  }

  void enqueue(Plan& plan) {
    std::lock_guard held(mutex);
    queue.push_back(&plan);
    if (!thread.joinable() && !stopping) {
      thread = std::thread([this] { work(); });
      std::atexit([] { get().stop(); });
    }
    changed.notify_all();
  }

  void wait(const std::function<bool()>& isDone) {
    std::unique_lock held(mutex);
    changed.wait(held, [&] { return stopping || isDone(); });
  }
  bool isIdle() const { return queue.empty() && !working; }
  std::filesystem::path cacheFile() {
    std::lock_guard held(mutex);
    return stores ? stores->options.cache : std::filesystem::path();
  }
  std::shared_ptr<const Stores> current() {
    std::lock_guard held(mutex);
    if (!stores)
      stores = std::make_shared<const Stores>(Options::fromEnvironment());
    return stores;
  }

 private:
  void stop() {
    {
      std::lock_guard held(mutex);
      stopping = true;
      changed.notify_all();
    }
    thread.join();
  }

  void work() {
    for (std::unique_lock held(mutex);;) {
      changed.wait(held, [&] { return stopping || !queue.empty(); });
      if (stopping)
        return;
      Plan& plan = *queue.front();
      queue.pop_front();
      working = true;
      if (!stores)
        stores = std::make_shared<const Stores>(Options::fromEnvironment());
      auto now = stores;
      held.unlock();
      settle(plan, *now);
      held.lock();
      working = false;
      changed.notify_all();
    }
  }

  /// Gives the plan its kernel, or the reason why it gets none.
  void settle(Plan& plan, const Stores& from) {
    using State = Plan::State;
    plan.state = State::compiling;
    const auto begin = std::chrono::steady_clock::now();
    State state = State::failed;
    try {
      state = make(plan, from);
    } catch (const std::exception& error) {
      plan.detail = error.what();
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    log("{}: {} after {:.2f} s: {}", taskTextOf(plan).label,
        state == State::ready  ? "ready"
        : state == State::aten ? "left to ATen"
                               : "no kernel",
        seconds.count(), plan.detail);
    plan.state.store(state, std::memory_order_release);
  }

  Plan::State make(Plan& plan, const Stores& from) {
    const Backend& backend = plan.site.backend;
    const Route& route = plan.site.route;
    const TaskText text = taskTextOf(plan);
    TuningTask task{Module::parse(text.module, route.name), {}, {plan.firstRows}, text.label};
    task.options.arch = backend.enter(plan.key.device);
    task.options.backward = route.backward;
    task.options.until = backend.until();
    if (backend.until() == Stage::cubin) {
      if (from.options.mode == Mode::tune)
        tuneInto(from.options.cache, task);
      if (const Tuned* tuned = from.tuner->find(task)) {
        plan.detail = fmt::format("{}, {} store", tuned->source(), tuned->layer());
        if (tuned->isVendor())
          return Plan::State::aten;
        publish(plan, backend.load(tuned->program(), route));
        return Plan::State::ready;
      }
    }
    const std::string name = fmt::format("{} {} {} {}", task.options.arch, backend.target(),
                                         route.backward, text.module);
    std::shared_ptr<Kernel>& kernel = compiled[name]; // serves all numbers of rows
    plan.detail = "the cost model's choice";
    if (!kernel)
      kernel = backend.load(compileInto(from, task, backend), route);
    publish(plan, kernel);
    return Plan::State::ready;
  }

  void publish(Plan& plan, std::shared_ptr<Kernel> kernel) {
    plan.kernel.store(kernels.emplace_back(std::move(kernel)).get(), std::memory_order_release);
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::thread thread;
  std::deque<Plan*> queue;
  std::shared_ptr<const Stores> stores;
  bool working = false, stopping = false;
  // Of the thread alone. Kernels live as long as the process: routers hold their addresses.
  std::map<std::string, std::shared_ptr<Kernel>> compiled;
  std::deque<std::shared_ptr<Kernel>> kernels;
};

} // namespace

void configureCompiler(const Options& options) {
  Compiler::get().configure(options);
}
void enqueue(Plan& plan) {
  Compiler::get().enqueue(plan);
}
void waitFor(const Plan& plan) {
  Compiler::get().wait([&] { return plan.isSettled(); });
}
void waitForAll() {
  Compiler& compiler = Compiler::get();
  compiler.wait([&] { return compiler.isIdle(); });
}
/// In a thread of its own: the caller's keeps its device, and may be next to a capture.
Program compileNow(TuningTask task, const Backend& backend, int device) {
  return std::async(std::launch::async,
                    [&] {
                      const auto stores = Compiler::get().current();
                      task.options.arch = backend.enter(device);
                      task.options.until = backend.until();
                      if (backend.until() == Stage::cubin) {
                        if (stores->options.mode == Mode::tune)
                          tuneInto(stores->options.cache, task);
                        if (const Tuned* tuned = stores->tuner->find(task);
                            tuned && !tuned->isVendor())
                          return tuned->program();
                      }
                      return compileInto(*stores, task, backend);
                    })
      .get();
}
std::string describeStores() {
  const auto file = Compiler::get().cacheFile();
  return file.empty() ? "standard" : file.string();
}

} // namespace kiln::runtime
