// What stores know of how long schedules take, in the terms of the cost model: for each tuned key
// the facts of its kernels and every schedule that was timed. No GPU and no NVRTC are needed.
#pragma once

#include "autotune/Kernels.h"

#include <filesystem>
#include <map>

namespace kiln::bench {

/// What a store knows of a key, and a sweep keeps of it: no cubins, and one time a schedule.
struct TimedKey {
  std::string label, twin, arch, module;
  std::vector<std::int64_t> sizes;
  std::string chosen, standard;
  std::map<std::string, double> times; // the last taken of each schedule, in microseconds
};
/// Of stores, and of sweeps that writeSweep() has written. Throws Error if a file is neither.
std::vector<TimedKey> timedKeys(std::span<const std::filesystem::path> files,
                                std::vector<std::string>& skipped);
void writeSweep(const std::filesystem::path& file, std::span<const TimedKey> keys);

struct Sample {
  std::string schedules;          // as stores name them
  std::vector<Schedule> ofKernel; // in the order of the key's kernels
  double microseconds = 0;        // the last time that was taken while nothing throttled
  bool isChosen = false;
  bool wasDefault = false; // of the last search: the model's first that compiled
};

struct TunedKey {
  std::string label;
  std::string op;   // its label's
  std::string twin; // the same for keys that share a choice: fixed sizes, and those of run time
  const Target* target = nullptr;
  std::vector<autotune::NamedKernel> kernels;
  model::Listing listing = model::Listing::likely; // all: unlikely ones were timed too
  std::vector<Sample> samples;                     // of schedules that are in the space still
};

/// Keys with a choice and at least one timed schedule, in the order of their labels. What cannot be
/// read any more is told in `skipped`. Throws Error if a file is neither a store nor a sweep.
std::vector<TunedKey> tunedKeys(std::span<const std::filesystem::path> files,
                                std::vector<std::string>& skipped);

} // namespace kiln::bench
