// What train_lm does, as functions of its options. Plain C++: no header of Torch.
#pragma once

#include "models/lm/Config.h"

namespace kiln::lm {

/// Trains on `options.data`, from a checkpoint if `options.resume` names one.
void train(const Options& options);

/// Makes `options.trainTokenizer` of `options.data`; a line that says what became of it.
std::string makeTokenizer(const Options& options);

/// What the model of a checkpoint writes behind `options.prompt`.
std::string write(const Options& options);

/// `options.bench` whole steps on random tokens, data, clipping and update included, after a
/// warm-up; a line of JSON, on rank 0. bench/peers_lm.py prints the same of Python's.
std::string bench(const Options& options);

} // namespace kiln::lm
