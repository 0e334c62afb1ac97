// What a run needs to go on: weights, the optimizer's state, random numbers, the step, the
// tokenizer and the options, in one safetensors file that is there whole or not at all.
#pragma once

#include "models/common/Safetensors.h"
#include "models/lm/Config.h"
#include "models/lm/Optimizer.h"
#include "models/lm/Tokenizer.h"

#include <torch/torch.h>

namespace kiln::lm {

class Checkpoint {
 public:
  /// Throws Error(missing, corrupt).
  explicit Checkpoint(const std::filesystem::path& path);

  std::int64_t step() const { return stepsDone; }
  const ModelConfig& model() const { return config; }
  const Tokenizer& tokenizer() const { return words; }
  const std::string& options() const { return file.text("options"); }

  /// Throws Error(corrupt) where names, dtypes or shapes differ.
  void load(torch::nn::Module& model) const;
  void load(Updater& updater) const { updater.restore(file); }
  /// The generators' states, of the CPU and of `device`.
  void loadRandom(at::Device device) const;

 private:
  Safetensors file;
  std::int64_t stepsDone;
  ModelConfig config;
  Tokenizer words;
};

/// Writes `folder`/step-NNNNNN.safetensors and removes all but the newest `options.keep`.
std::filesystem::path saveCheckpoint(const Options& options, std::int64_t step,
                                     const torch::nn::Module& model, const Updater& updater,
                                     at::Device device, const Tokenizer& tokenizer);

/// The newest checkpoint of a folder. Throws Error(missing).
std::filesystem::path latestCheckpoint(const std::filesystem::path& folder);

} // namespace kiln::lm
