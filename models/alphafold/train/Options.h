// What a training run is told, how it is read (flags, or a JSON file of the same names), and its
// learning rate. Section 1.11.3 of the supplement.
#pragma once

#include "models/alphafold/model/Config.h"
#include "models/common/Ranks.h"

#include <cstdint>
#include <optional>
#include <string>

namespace kiln::alphafold {

/// What each means stands in Cli.cpp, beside its flag.
struct TrainOptions {
  std::string size = "model_1";
  ModelConfig model; // of `size`

  std::string data, cache, templateStructures, chains, clusterFile;
  std::int64_t crop = 0, clusters = 0, extra = -1, templates = -1; // that small: of the stage
  std::int64_t passes = 4;                                         // of recycling, at most
  std::int64_t batch = 1, workers = 2;

  std::string stage = "initial"; // weights of the losses and sizes of examples: or finetune
  std::int64_t steps = 1000;
  double learningRate = 1e-3;
  std::int64_t warmup = 1000; // steps
  std::int64_t decayAfter = 50000;
  double decay = 0.95; // of the learning rate, each `decayAfter` steps
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-6, clip = 0.1, ema = 0.999;
  double dropout = 1; // of the model's shares
  std::int64_t seed = 1;

  std::string device, precision = "fp32"; // fp32, tf32, or bf16 by autocast
  std::string kiln = "off", recompute = "none";
  bool deterministic = false, graphs = false;

  std::string out = "run", log; // folder of checkpoints; a file
  std::string resume, weights;
  std::int64_t checkpointEvery = 500, keep = 2, logEvery = 10;
  std::string validation;
  std::int64_t evaluateEvery = 500, evaluateProteins = 32;

  models::RankOptions ranks;

  std::int64_t bench = 0, profile = 0;
  std::string recordShapes; // a workload file

  /// Fills in what follows from the size. Throws Error(input), with the numbers.
  void settle();
  void check() const;
  /// A JSON object that --config reads.
  std::string text() const;
};

/// The options of a command line, or none if all is said: `status` is 0 after --help and 2 after a
/// usage error. Throws Error(input) for values that do not fit.
std::optional<TrainOptions> parse(int argc, const char* const* argv, int& status);

/// Of how many blocks one is computed again, 0: none. Throws Error(input) for another text.
std::int64_t recomputedBlocks(const std::string& text);

/// Of step 0 to steps - 1: a line up to the full rate, then a fall by a factor at times.
double learningRate(const TrainOptions& options, std::int64_t step);

} // namespace kiln::alphafold
