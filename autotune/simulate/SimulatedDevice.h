// A device that is none: compiles to a few bytes that say how fast a kernel is and what is wrong
// with it, and answers as a GPU would. Times are the cost model's, off by a factor that each
// schedule has for itself, with noise, drift and throttling, all from a seed. Faults are planted
// by schedule; those that would end a process end this one.
#pragma once

#include "autotune/measure/Wire.h"

#include <map>
#include <random>
#include <set>

namespace kiln::autotune {

struct Simulation {
  struct Fault {
    FailureKind kind = FailureKind::crash;
    bool whileTiming = false; // else when verified; a spill shows when compiled
  };
  std::uint64_t seed = 1;
  double bias = 0.05;   // spread of the logarithm of true over predicted time, by schedule
  double noise = 0.004; // of a sample
  double drift = 0.02;  // of the clock, slowly up and down
  double throttled = 0; // part of all batches
  double reference = 0; // seconds that preparing takes
  double copy = 0.9;    // time of a plain copy, of that of the first kernel beside it
  std::map<std::string, Fault> faults;  // by the schedule's text
  std::set<std::string> spilling;       // parts of texts: "kernel = schedule"
  std::map<std::string, double> slower; // by the schedule's text, a factor in place of the bias
  std::map<std::string, double> aged;   // the same of kernels that were compiled before
  std::string driver = "simulated 1";
};

Json toJson(const Simulation& simulation);
Simulation simulationOf(const Json& json);

class SimulatedDevice final : public Device {
 public:
  explicit SimulatedDevice(Simulation simulation);

  void begin(const Task& task) override;
  Compiled compile(const Proposal& proposal) override;
  void prepare(const Artifact& artifact, std::uint64_t seed) override;
  Check verify(const Artifact& artifact, std::uint64_t seed) override;
  Batch time(std::span<const Artifact* const> kernels, std::size_t rounds) override;
  Conditions conditions() override;

  /// What a schedule takes, without noise and drift.
  static double trueMicroseconds(const Simulation& simulation, const Proposal& proposal);

 private:
  Simulation simulation;
  std::mt19937_64 random;
  double clock = 0; // rounds timed
};

} // namespace kiln::autotune
