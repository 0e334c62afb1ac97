// See Checkpoint.h.
#include "models/lm/Checkpoint.h"

namespace kiln::lm {

namespace fs = std::filesystem;

Checkpoint::Checkpoint(const fs::path& path)
    : models::Checkpoint(path), config(ModelConfig::parse(tensors().text("model"))),
      words(Tokenizer::parse(tensors().text("tokenizer"), path.string())) {}

fs::path saveCheckpoint(const Options& options, std::int64_t step,
                        const std::vector<NamedTensor>& state, const Tokenizer& tokenizer) {
  return writeCheckpoint(options.out, step, options.keep, state,
                         {{"model", options.model.text()},
                          {"options", options.text()},
                          {"tokenizer", tokenizer.text()}});
}

} // namespace kiln::lm
