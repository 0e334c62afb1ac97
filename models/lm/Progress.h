// How a run is going: a line that is rewritten in place on a terminal and repeated elsewhere, and
// the same figures as lines of JSON in a file.
#pragma once

#include "models/lm/Config.h"

#include <chrono>
#include <filesystem>
#include <fstream>

namespace kiln::lm {

/// Largest number of bytes that tensors took on a GPU, or that the process took on a CPU.
double peakMemory(at::Device device);

struct Figures {
  std::int64_t step;
  double loss, rate, norm;
};

class Progress {
 public:
  /// Of rank 0; of others it says nothing.
  Progress(const Options& options, const dist::Group& group);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// After the device has caught up with `figures.step`.
  void show(const Figures& figures);
  /// What took the time since was no step.
  void restart(std::int64_t step);
  /// A line that stays.
  void say(const std::string& text);

 private:
  using Clock = std::chrono::steady_clock;

  const Options& options;
  at::Device device;
  int ranks;
  bool isFirst;
  double peakFlops;
  bool isTerminal;
  bool isOpen = false; // a line is on the terminal that will be rewritten
  std::ofstream log;
  std::int64_t since = 0;
  Clock::time_point begin = Clock::now();
};

} // namespace kiln::lm
