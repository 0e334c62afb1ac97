// How a run is going: loss, speed and memory since the line before.
#pragma once

#include "models/common/ProgressLine.h"
#include "models/lm/Config.h"

#include <chrono>

namespace kiln::lm {

struct Figures {
  std::int64_t step;
  double loss, rate, norm;
};

class Progress {
 public:
  /// Of rank 0; of others it says nothing.
  Progress(const Options& options, const dist::Group& group);

  /// After the device has caught up with `figures.step`.
  void show(const Figures& figures);
  /// What took the time since was no step.
  void restart(std::int64_t step);
  /// A line that stays.
  void say(const std::string& text) { line.say(text); }

 private:
  using Clock = std::chrono::steady_clock;

  const Options& options;
  at::Device device;
  int ranks;
  bool isFirst;
  double peakFlops;
  ProgressLine line;
  std::int64_t since = 0;
  Clock::time_point begin = Clock::now();
};

} // namespace kiln::lm
