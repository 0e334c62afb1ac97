// What a language model is made of, what a run does, and how both are read: flags, or a JSON file
// of the same names. What is refused is refused with its numbers.
#pragma once

#include "models/common/Ranks.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kiln::lm {

using namespace models; // what all models share

/// A pre-norm transformer. Sizes are elements, tokens or counts.
struct ModelConfig {
  std::int64_t vocabulary = 0;
  std::int64_t context = 0; // tokens that a prediction may look at
  std::int64_t width = 0;   // of the residual stream
  std::int64_t hidden = 0;  // of the feed-forward part
  std::int64_t layers = 0;
  std::int64_t heads = 0;

  /// Of a size: tiny, small, medium, large, xl, 2.7b; the vocabulary is the tokenizer's business.
  /// Throws Error(input) for other names.
  static ModelConfig named(const std::string& size);
  /// Throws Error(input), with the numbers.
  void check() const;

  std::int64_t parameters() const;
  /// Floating-point operations of a training step a token: 6 for each weight of a product, and
  /// causal attention's products over half of the square.
  double flopsPerToken() const;

  /// As JSON. parse() throws Error(corrupt).
  std::string text() const;
  static ModelConfig parse(const std::string& text);

  bool operator==(const ModelConfig&) const = default;
};

/// Everything that a run may be told. What each means stands in Cli.cpp, beside its flag.
struct Options {
  std::string size = "tiny";
  ModelConfig model; // what is 0 follows from the size, the vocabulary from the tokenizer

  std::string data, tokenizer, out = "run", resume;
  double heldOut = 0.05;

  std::int64_t steps = 1000, batch = 8, accumulate = 1;
  double learningRate = 1e-3, minLearningRate = 1e-4;
  std::int64_t warmup = 100;
  double weightDecay = 0.1, beta1 = 0.9, beta2 = 0.95, clip = 1;
  std::int64_t seed = 1;

  std::string device, precision = "fp32", kiln = "off";
  bool recompute = false, deterministic = false, graphs = false;

  std::int64_t evaluateEvery = 250, evaluateBatches = 20;
  std::int64_t checkpointEvery = 500, keep = 2, logEvery = 10;
  double peakTflops = 0;

  RankOptions ranks;
  std::string shard = "auto";

  std::int64_t sample = 0, topK = 50;
  std::string prompt;
  double temperature = 0.8;

  std::string trainTokenizer;
  std::int64_t vocabulary = 1024;
  std::int64_t bench = 0, profile = 0;
  std::string recordShapes; // a workload file

  /// Whether ranks, if there are several, have a part of the optimizer each.
  bool isSharded() const;

  /// Fills in what follows from the size and checks all but the model. Throws Error(input).
  void settle();
  /// A JSON object that --config reads.
  std::string text() const;
};

/// The options of a command line, or none if all is said: `status` is 0 after --help and 2 after a
/// usage error. Throws Error(input) for values that do not fit.
std::optional<Options> parse(int argc, const char* const* argv, int& status);

} // namespace kiln::lm
