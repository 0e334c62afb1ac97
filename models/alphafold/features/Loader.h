// Batches for the steps of training, made ahead by threads. What a step gets follows from the seed,
// the step and the rank alone: whatever the number of threads, and after a resume.
#pragma once

#include "models/alphafold/features/Batch.h"
#include "models/alphafold/features/Dataset.h"
#include "models/alphafold/features/Example.h"

#include <memory>

namespace kiln::alphafold {

struct LoaderOptions {
  ExampleOptions example; // `passes` is the most; each step draws 1 to that many
  std::uint64_t seed = 1;
  std::int64_t batch = 1;           // examples of a step on this rank
  std::int64_t rank = 0, ranks = 1; // ranks see different examples of the same step
  std::int64_t workers = 2;         // threads
  std::int64_t prefetch = 4;        // batches that are made ahead, at most
  std::int64_t firstStep = 0;
  bool drawPasses = true; // false: always example.passes
  bool pinned = true;     // memory that a GPU reads without waiting, where there is one
};

/// Forward passes of a step, 1 to `most`, each as likely; the same on all ranks (supplement 1.10).
std::int64_t passesOf(std::uint64_t seed, std::int64_t step, std::int64_t most);

/// The batch of a step, made here and now: what a Loader would give.
Batch makeBatch(const Dataset& dataset, const LoaderOptions& options, std::int64_t step);

class Loader {
 public:
  /// The dataset must live as long. Throws Error(input) for options that do not fit.
  Loader(const Dataset& dataset, const LoaderOptions& options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// The batch of the next step, waiting until it is made. What went wrong in a thread is thrown
  /// here, at the step that it concerns, and again at every further call.
  Batch next();
  std::int64_t step() const; // of what next() will give
  /// Seconds that next() has waited so far.
  double waited() const;

 private:
  struct State;
  std::unique_ptr<State> state;
};

} // namespace kiln::alphafold
