// A run: model, data and optimizer, step by step, with evaluations and checkpoints between.
#pragma once

#include "models/common/Graph.h"
#include "models/common/Signals.h"
#include "models/lm/Checkpoint.h"
#include "models/lm/Data.h"
#include "models/lm/Model.h"
#include "models/lm/Progress.h"

namespace kiln::lm {

/// AdamW's part of the options.
UpdateOptions updateOptions(const Options& options);

class Trainer {
 public:
  /// The model's vocabulary is the tokenizer's. Throws Error(input).
  Trainer(Options options, Data data, Tokenizer tokenizer);
  /// One of a group's ranks, each of which has --batch sequences of its own; rank 0 writes.
  Trainer(Options options, Data data, Tokenizer tokenizer, std::shared_ptr<dist::Group> group);

  /// From where it stands to the last step, or until SIGINT or SIGTERM; then a checkpoint is left.
  void run();
  /// Takes a checkpoint's place. Throws Error(input) if its model or tokenizer is another.
  void resume(const std::filesystem::path& path);

  /// One update. The loss is this rank's, the norm that of the ranks' mean. Loss and norm are
  /// scalars on the device, with --graphs until the next step.
  struct Step {
    at::Tensor loss, norm;
    double rate;
  };
  Step step();
  /// Mean loss over what is held out, which ranks share.
  double evaluate();
  /// On rank 0; on others, which must ask too, nothing.
  std::filesystem::path save();
  /// Runs a step without an update, so that Kiln's kernels are there before the first one: all
  /// steps then run on the same kernels, which a resumed run needs to repeat them.
  void prepare();

  std::int64_t position() const { return done; }
  Transformer& transformer() { return model; }
  const Options& settings() const { return options; }

 private:
  at::Tensor loss(const Batch& here);
  Batch onDevice(const Batch& batch) const;
  Step eagerStep(double rate);
  Step graphStep(double rate);
  Batch next(std::int64_t part) const;
  bool advance(Progress& progress, const Signals& signals);
  void makeWhole();
  void makeParallel();
  void makeSharded();

  Options options;
  Data data;
  Tokenizer tokenizer;
  std::shared_ptr<dist::Group> group;
  at::Device device;
  Transformer model;
  std::unique_ptr<dist::DataParallel> parallel; // none for one process
  std::unique_ptr<Updater> updater;
  std::int64_t done = 0;
  // Of --graphs: the step that replays compute, with the tensors that it reads and writes.
  std::unique_ptr<StepGraph> graph;
  Batch captured;
  Step replayed;
  std::int64_t begun = 0; // steps since the start, or since what was resumed
};

} // namespace kiln::lm
