// kiln::profile::ThroughputMeter.
#include "kiln/profile.h"
#include "runtime/profile/Device.h"

#include <chrono>
#include <fmt/format.h>

namespace kiln::profile {

static double rateOf(std::int64_t items, double seconds) {
  return items > 0 && seconds > 0 ? static_cast<double>(items) / seconds : 0;
}

ThroughputMeter::ThroughputMeter(const MeterOptions& options) : options(options) {
  if (options.warmup < 0 || options.window < 1)
    throw Error(
        ErrorKind::input,
        fmt::format("ThroughputMeter: warmup = {}, window = {}; allowed are 0 or more steps "
                    "of warm-up and a window of 1 or more",
                    options.warmup, options.window));
}

double ThroughputMeter::now() const {
  if (options.clock)
    return options.clock();
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(time).count();
}

void ThroughputMeter::synchronize() const {
  if (options.synchronize)
    waitForDevices();
}

void ThroughputMeter::start() {
  synchronize();
  itemCount = stepCount = 0;
  begin = steady = end = {now(), 0};
  marks.assign(static_cast<std::size_t>(options.window) + 1, begin);
  running = true;
}

void ThroughputMeter::step(std::int64_t items) {
  if (!running)
    throw Error(ErrorKind::input, "ThroughputMeter: step() without start(), or behind stop()");
  itemCount += items;
  if (++stepCount == options.warmup)
    synchronize();
  end = {now(), itemCount};
  if (stepCount == options.warmup)
    steady = end;
  marks[static_cast<std::size_t>(stepCount) % marks.size()] = end;
}

void ThroughputMeter::stop() {
  if (!running)
    return;
  synchronize();
  end = {now(), itemCount};
  running = false;
}

double ThroughputMeter::overallRate() const {
  return rateOf(itemCount, (running ? now() : end.seconds) - begin.seconds);
}
double ThroughputMeter::steadyRate() const {
  return stepCount <= options.warmup
             ? 0
             : rateOf(end.items - steady.items, end.seconds - steady.seconds);
}
double ThroughputMeter::windowRate() const {
  if (stepCount == 0)
    return 0;
  const std::int64_t first = std::max<std::int64_t>(stepCount - options.window, 0);
  const Mark& from = marks[static_cast<std::size_t>(first) % marks.size()];
  const Mark& to = marks[static_cast<std::size_t>(stepCount) % marks.size()];
  return rateOf(to.items - from.items, to.seconds - from.seconds);
}

std::string ThroughputMeter::report() const {
  return fmt::format("{} items in {} steps: {:.1f} /s overall, {:.1f} /s steady after {}, "
                     "{:.1f} /s last {}",
                     itemCount, stepCount, overallRate(), steadyRate(), options.warmup,
                     windowRate(), std::min<std::int64_t>(stepCount, options.window));
}

} // namespace kiln::profile
