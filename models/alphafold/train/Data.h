// From folders of proteins to batches of training: features are made once, a loader makes examples
// ahead, and each becomes the model's inputs. What a step reads follows from the seed and the step
// alone.
#pragma once

#include "models/alphafold/features/Loader.h"
#include "models/alphafold/train/Options.h"
#include "models/alphafold/train/Source.h"

#include <functional>

namespace kiln::alphafold {

/// Of the stage, with what the options change.
ExampleOptions exampleOf(const TrainOptions& options);

/// One example's pass as the model reads it: views of the batch's tensors.
Inputs inputsOf(const Batch& batch, std::int64_t pass, std::int64_t example);

/// The chains of a folder that holds features, or of structures and alignments whose features are
/// made in `cache` first; `tell` is told what is made and what is left out. Throws Error(missing,
/// input).
Dataset openDataset(const TrainOptions& options, const std::filesystem::path& folder,
                    const std::filesystem::path& cache,
                    const std::function<void(const std::string&)>& tell);

/// Batches that threads make ahead.
class TrainingData : public Source {
 public:
  /// Ranks have one part of a joined batch each, one behind the other.
  TrainingData(const TrainOptions& options, Dataset dataset, const dist::Place& place = {});
  std::vector<std::vector<Inputs>> batch(std::int64_t step) override;

  const Dataset& dataset() const { return chains; }
  /// Seconds that steps have waited for them so far.
  double waited() const { return loader ? waitedBefore + loader->waited() : waitedBefore; }

 private:
  Dataset chains;
  LoaderOptions options;
  std::unique_ptr<Loader> loader;
  double waitedBefore = 0; // by loaders of other steps
};

/// Each chain once, in order of names, with all passes and the same draws every time.
class ValidationData : public Source {
 public:
  ValidationData(const TrainOptions& options, Dataset dataset);
  std::vector<std::vector<Inputs>> batch(std::int64_t step) override;

  /// Proteins, at most as many as the options say.
  std::int64_t size() const { return count; }

 private:
  Dataset chains;
  ExampleOptions example;
  std::uint64_t seed;
  std::int64_t count;
};

} // namespace kiln::alphafold
