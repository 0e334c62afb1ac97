// See KernelMaker.h.
#include "runtime/KernelMaker.h"

#include "runtime/Backend.h"
#include "runtime/Log.h"
#include "runtime/Stores.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace kiln::runtime {

namespace {

/// Of sizes that differ in nothing but themselves one kernel is compiled.
std::string scheduledText(const TuningTask& task) {
  CompileOptions options = task.options;
  options.until = Stage::scheduled;
  return Program::compile(task.module, options).text(Stage::scheduled);
}

} // namespace

KernelMaker::KernelMaker(const KernelMaker& parent, bool isWhole)
    : storedCount(parent.storedCount.load()), compiledCount(parent.compiledCount.load()) {
  if (isWhole)
    compiled = parent.compiled;
}

void KernelMaker::settle(Order& order, const Stores& from) {
  using State = Order::State;
  order.state = State::compiling;
  const auto begin = std::chrono::steady_clock::now();
  State state = State::failed;
  const OrderText text = order.text();
  try {
    state = make(order, text, from);
  } catch (const std::exception& error) {
    order.detail = error.what();
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  log("{}: {} after {:.2f} s: {}", text.label,
      state == State::ready  ? "ready"
      : state == State::aten ? "left to ATen"
                             : "no kernel",
      seconds.count(), order.detail);
  order.state.store(state, std::memory_order_release);
}

Order::State KernelMaker::make(Order& order, const OrderText& text, const Stores& from) {
  const Backend& backend = order.backend;
  TuningTask task{Module::parse(text.module, text.label), {}, text.sizes, text.label};
  task.options.arch = backend.enter(order.device);
  task.options.function = text.function;
  task.options.backward = text.backward;
  task.options.readAhead = false; // callers of ATen's ops promise nothing about what runs before
  task.options.until = backend.until();
  const bool onlyGains =
      text.onlyChosen && from.options().mode == Mode::use && !from.options().strict;
  const Tuned* tuned = from.find(task, backend, order.device);
  if (from.options().mode == Mode::record) {
    order.detail = "only recorded";
    return Order::State::aten;
  }
  if (tuned)
    return take(order, *tuned, task, onlyGains);
  if (onlyGains) {
    order.detail = "ATen's kernel is about as fast as memory, and no store has a choice";
    return Order::State::aten;
  }
  task.options.sizes = text.usual;
  const std::string name =
      fmt::format("{} {} {} {} {}", task.options.arch, backend.target(), text.backward,
                  text.function, text.usual.empty() ? text.module : scheduledText(task));
  std::shared_ptr<Kernel>& kernel = compiled[name]; // serves all numbers of rows
  order.detail = "the cost model's choice";
  if (!kernel) {
    const Cache::Result made = from.compile(task, backend);
    ++(made.compiled ? compiledCount : storedCount);
    kernel = backend.load(made.program);
  }
  publish(order, kernel);
  return Order::State::ready;
}

Order::State KernelMaker::take(Order& order, const Tuned& tuned, const TuningTask& task,
                               bool onlyGains) {
  if (tuned.isVendor()) {
    order.detail = fmt::format("measured to be faster, {} store", tuned.layer());
    return Order::State::aten;
  }
  order.detail = fmt::format("{}, {} store", tuned.source(), tuned.layer());
  if (const double gain = tuned.gain(); gain > 0)
    order.detail += fmt::format(": {:.2f} times as fast as ATen's kernel", gain);
  const Backend& backend = order.backend;
  const Program program = programOf(tuned, task, backend);
  if (onlyGains && std::ranges::any_of(program.inputs(), &TensorInfo::older)) {
    order.detail = "the choice was measured reading ahead of the kernel before it, which calls of "
                   "ATen's ops do not allow";
    return Order::State::aten;
  }
  publish(order, backend.load(program));
  ++(backend.until() == Stage::cubin ? storedCount : compiledCount);
  return Order::State::ready;
}

void KernelMaker::publish(Order& order, std::shared_ptr<Kernel> kernel) {
  order.accept(*kernel);
  order.kernel.store(kernels.emplace_back(std::move(kernel)).get(), std::memory_order_release);
}

} // namespace kiln::runtime
