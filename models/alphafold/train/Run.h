// What train_alphafold does, as functions of its options. Plain C++: no header of Torch.
#pragma once

#include "models/alphafold/train/Options.h"

namespace kiln::alphafold {

/// Trains on `options.data`, from a checkpoint if `options.resume` names one.
void train(const TrainOptions& options);

/// `options.bench` whole steps on made-up proteins for each number of passes up to
/// `options.passes`, loss, clipping and update included, after a warm-up; then forward and backward
/// of each part of the model, unless there are several ranks. A line of JSON each on the standard
/// output of rank 0; times in milliseconds.
void bench(const TrainOptions& options);

} // namespace kiln::alphafold
