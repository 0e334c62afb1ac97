// One call of a routed op on rows made up for it, as ATen's own kernel computes it, and the
// function that Kiln would have put in its place: what a baseline is taken of, and of what it is
// one.
#pragma once

#include "kiln/cache.h"
#include "kiln/torch.h"

#include <ATen/core/Tensor.h>
#include <array>
#include <functional>
#include <string>
#include <vector>

namespace kiln::runtime {

/// What an op's example makes its arguments from. Numbers are drawn anew for every tensor.
struct Rows {
  std::int64_t rows = 0, width = 0;
  at::TensorOptions options; // dtype and device

  at::Tensor full() const; // rows x width
  at::Tensor row() const;  // width: what all rows share
  at::Tensor each() const; // fp32, rows x 1: a statistic, positive
  std::array<std::int64_t, 1> shape() const { return {width}; } // of a row
  at::ScalarType dtype() const { return c10::typeMetaToScalarType(options.dtype()); }
};

struct Trial {
  std::string module;                            // as the route writes it; empty: it is not taken
  std::function<std::vector<at::Tensor>()> call; // null: ATen has no kernel for these tensors
  std::int64_t bytes = 0;                        // of the arguments
};

/// As canonical text: how it was written does not matter, names of arguments and results do.
std::string canonical(const Module& module, CompileOptions options);

/// What a task is to be compared with.
struct Trials {
  const char* name = nullptr; // of a route; null: nothing
  std::function<Trial()> make;
};
/// If the task, compiled to `program`, is an attention as routers write it, or its backward:
/// without dropout, its tensors without gaps.
Trials attentionTrials(const TuningTask& task, const Program& program, Place place);

} // namespace kiln::runtime
