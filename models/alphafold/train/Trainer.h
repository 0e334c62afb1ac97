// A training run of AlphaFold 2: batches of a source, losses, Adam behind a clip,
// a moving average of the parameters, validation by it, checkpoints, and going on bit by bit.
// Algorithm 31.
#pragma once

#include "models/alphafold/losses/Losses.h"
#include "models/alphafold/losses/Metrics.h"
#include "models/alphafold/train/Options.h"
#include "models/alphafold/train/Source.h"
#include "models/common/Checkpoint.h"
#include "models/common/Ema.h"

namespace kiln::alphafold {

/// Adam's part of the options.
models::UpdateOptions updateOptions(const TrainOptions& options);

class Trainer {
 public:
  /// `source` must live as long. Throws Error(input, unavailable).
  Trainer(TrainOptions options, Source& source);

  /// One update, or none if a term of the loss was not finite.
  struct Step {
    double loss;             // of all terms with their weights, mean over the batch
    std::vector<Term> terms; // means over the batch; values on the host
    at::Tensor norm;         // of the gradient before the clip, on the device
    double rate;
    std::int64_t passes;
    std::string nonFinite; // which terms, with their values; empty: the update was made
  };
  /// Throws Error(input) after ten steps in a row without an update.
  Step step();

  /// Means over a source's first `steps` batches, by the averaged parameters.
  struct Evaluation {
    double loss, lddt, drmsd, gdtTs, gdtHa;
  };
  Evaluation evaluate(Source& other, std::int64_t steps);

  /// A checkpoint of where the run stands, with the averages as ema.NAME.
  std::filesystem::path save() const;
  /// The averages alone under the parameters' names, which are OpenFold's: what is shipped.
  void saveAverages(const std::filesystem::path& path);
  /// Begins with a file's weights, as for fine-tuning; the averages begin there too. Throws
  /// Error(missing, corrupt).
  void beginWith(const std::filesystem::path& weights);
  /// Takes a checkpoint's place. Throws Error(input) if its model is another.
  void resume(const std::filesystem::path& path);

  std::int64_t position() const { return done; }
  void clear() { updater.clear(); } // the gradients
  AlphaFold& network() { return model; }

 private:
  std::vector<Inputs> onDevice(std::vector<Inputs> passes) const;
  Losses lossOf(const std::vector<Inputs>& passes, PredictedStructure* structure = nullptr);
  static void accumulate(Step& step, const Losses& found, double share);

  TrainOptions options;
  Source& source;
  at::Device device;
  AlphaFold model;
  models::Updater updater;
  models::Ema ema;
  LossConfig weights;
  std::int64_t done = 0, refused = 0; // steps; those without an update since the last one
};

} // namespace kiln::alphafold
