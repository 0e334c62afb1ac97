// A training run of AlphaFold 2: batches of a source, losses, Adam behind a clip,
// a moving average of the parameters, validation by it, checkpoints, and going on bit by bit.
// Algorithm 31.
#pragma once

#include "models/alphafold/losses/Losses.h"
#include "models/alphafold/losses/Metrics.h"
#include "models/alphafold/train/Options.h"
#include "models/alphafold/train/Source.h"
#include "models/common/Casts.h"
#include "models/common/Checkpoint.h"
#include "models/common/Ema.h"
#include "models/common/Graph.h"
#include "models/common/Ranks.h"
#include "models/common/Transfer.h"

#include <map>
#include <set>

namespace kiln::alphafold {

/// Adam's part of the options.
models::UpdateOptions updateOptions(const TrainOptions& options);

class Trainer {
 public:
  /// `source` must live as long. Throws Error(input, unavailable).
  Trainer(TrainOptions options, Source& source);
  /// One of a group's ranks, whose source has proteins of its own. Rank 0 writes.
  Trainer(TrainOptions options, Source& source, std::shared_ptr<dist::Group> group);

  /// One update, or none if a term of the loss was not finite. Figures are those of all ranks.
  struct Step {
    double loss;             // of all terms with their weights, mean over the batch
    double lddt;             // of CA atoms, of what was predicted in training; likewise
    std::vector<Term> terms; // means over the batch; values on the host
    at::Tensor norm;         // of the gradient before the clip, on the device
    double rate;
    std::int64_t passes;
    std::string nonFinite; // which terms, with their values; empty: the update was made
  };
  /// The host waits for the device once, for the losses, behind the launches of the backward. The
  /// next step's proteins travel meanwhile. Throws Error(input) after ten steps in a row without an
  /// update.
  Step step();

  /// Means over a source's first `steps` batches, which ranks share, by the averaged parameters;
  /// proteins with fewer than two resolved residues are left out. Throws Error(input) if that is
  /// all.
  struct Evaluation {
    double loss, lddt, drmsd, gdtTs, gdtHa;
  };
  Evaluation evaluate(Source& other, std::int64_t steps);

  /// A checkpoint of where the run stands, with the averages as ema.NAME.
  std::filesystem::path save();
  /// The averages alone under the parameters' names, which are OpenFold's: what is shipped.
  void saveAverages(const std::filesystem::path& path);
  /// Begins with a file's weights, as for fine-tuning; the averages begin there too. Throws
  /// Error(missing, corrupt).
  void beginWith(const std::filesystem::path& weights);
  /// Takes a checkpoint's place. Throws Error(input) if its model is another.
  void resume(const std::filesystem::path& path);

  std::int64_t position() const { return done; }
  void clear(); // gradients and graphs
  AlphaFold& network() { return model; }

 private:
  using Proteins = std::vector<std::vector<Inputs>>; // as a Source gives them, on the device
  struct Found {
    Losses losses;
    PredictedStructure structure;
  };
  /// A step's forward and backward as a graph, with the tensors that it reads and writes, and its
  /// update as another, which runs if the losses are finite.
  struct Captured {
    std::unique_ptr<models::StepGraph> graph, update;
    Proteins proteins;
    at::Tensor values, norm;
    std::vector<at::Tensor> gradients; // of the parameters, undefined where there is none
    bool wasUpdated = false;           // by launches, which make what a graph needs
  };

  Proteins staged(std::int64_t step);
  std::vector<Inputs> onDevice(std::vector<Inputs> passes) const;
  Found found(const std::vector<Inputs>& passes);
  at::Tensor enqueue(const Proteins& proteins, bool sends = true);
  void seed(std::size_t protein) const;
  at::Tensor ofAllRanks(const at::Tensor& values) const;
  Captured& replay(const Proteins& proteins, const std::string& kind);
  models::StepGraph* anyGraph() const;
  at::Tensor update(Captured* by, double rate);
  bool updatesAlike() const;
  void rehearse(const Proteins& proteins, const std::string& kind);
  Step read(const at::Tensor& values, const Proteins& proteins) const;

  TrainOptions options;
  Source& source;
  std::shared_ptr<dist::Group> group;
  at::Device device;
  AlphaFold model;
  models::Casts casts; // of its parameters
  models::Updater updater;
  std::unique_ptr<dist::DataParallel> parallel; // none for one process
  models::Ema ema;
  LossConfig weights;
  std::int64_t done = 0, refused = 0; // steps; those without an update since the last one
  models::CopyStream copies;
  std::optional<Proteins> next; // the next step's
  Losses names;                 // terms of the last step, as enqueued
  std::set<std::string> rehearsed;
  std::map<std::string, Captured> captured;
};

} // namespace kiln::alphafold
