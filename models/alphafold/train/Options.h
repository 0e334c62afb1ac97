// What a training run is told, and its learning rate. Section 1.11.3 of the supplement.
#pragma once

#include "models/alphafold/model/Config.h"

namespace kiln::alphafold {

struct TrainOptions {
  ModelConfig model;
  std::string stage = "initial"; // weights of the losses: initial or finetune
  std::int64_t steps = 1000;
  double learningRate = 1e-3;
  std::int64_t warmup = 1000; // steps
  std::int64_t decayAfter = 50000;
  double decay = 0.95; // of the learning rate, each `decayAfter` steps
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-6, clip = 0.1, ema = 0.999;
  std::int64_t seed = 1;

  std::string device, precision = "fp32"; // fp32, tf32, or bf16 by autocast
  bool kiln = false;                      // Kiln's optimizer
  bool recompute = false, deterministic = false;

  std::string out = "run"; // folder of checkpoints
  std::int64_t checkpointEvery = 500, keep = 2;

  /// Throws Error(input), with the numbers.
  void check() const;
};

/// Of step 0 to steps - 1: a line up to the full rate, then a fall by a factor at times.
double learningRate(const TrainOptions& options, std::int64_t step);

} // namespace kiln::alphafold
