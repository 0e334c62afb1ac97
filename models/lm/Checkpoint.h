// What a run needs to go on: the state of all runs, the model's sizes, the tokenizer and the
// options.
#pragma once

#include "models/common/Checkpoint.h"
#include "models/lm/Config.h"
#include "models/lm/Tokenizer.h"

namespace kiln::lm {

class Checkpoint : public models::Checkpoint {
 public:
  /// Throws Error(missing, corrupt).
  explicit Checkpoint(const std::filesystem::path& path);

  const ModelConfig& model() const { return config; }
  const Tokenizer& tokenizer() const { return words; }

 private:
  ModelConfig config;
  Tokenizer words;
};

/// Writes a checkpoint of stateOf() into options.out, which keeps the newest `options.keep`.
std::filesystem::path saveCheckpoint(const Options& options, std::int64_t step,
                                     const std::vector<NamedTensor>& state,
                                     const Tokenizer& tokenizer);

} // namespace kiln::lm
