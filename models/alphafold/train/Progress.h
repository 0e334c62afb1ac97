// How a run is going: losses, quality, speed and memory, as a line, and with every term of the loss
// as JSON.
#pragma once

#include "models/alphafold/train/Trainer.h"
#include "models/common/ProgressLine.h"

#include <chrono>

namespace kiln::alphafold {

class Progress {
 public:
  /// Of rank 0; of others it says nothing.
  Progress(const TrainOptions& options, const dist::Group& group);

  /// Behind step `done`; `waited`: seconds that steps have waited for data so far.
  void show(std::int64_t done, const Trainer::Step& step, double waited);
  void show(std::int64_t done, const Trainer::Evaluation& found);
  /// What took the time since was no step.
  void restart(std::int64_t done, double waited);
  /// A line that stays.
  void say(const std::string& text) { line.say(text); }

 private:
  using Clock = std::chrono::steady_clock;

  const TrainOptions& options;
  at::Device device;
  models::ProgressLine line;
  std::int64_t since = 0;
  double waitedBefore = 0;
  Clock::time_point begin = Clock::now();
};

} // namespace kiln::alphafold
