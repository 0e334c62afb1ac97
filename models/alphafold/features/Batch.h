// What a step of training takes: the features of Fields.h as tensors, with the number of examples B
// before an example's sizes (behind the passes P). float32 and int64. A loader's tensors are on the
// CPU, in pinned memory where there is CUDA.
#pragma once

#include "models/alphafold/features/Fields.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <string>
#include <vector>

namespace kiln::alphafold {

struct Example;

template <typename> using TensorOf = at::Tensor;

struct Batch : Fields<TensorOf> {
  std::int64_t passes = 0;         // P: forward passes of this step, the last with a gradient
  std::vector<std::string> chains; // [B] names such as 1k1a_A

  std::int64_t size() const { return static_cast<std::int64_t>(chains.size()); }
  /// The features of one pass: tensors with P lose it, [B, S, R, 49]; the others stay. Views.
  /// Throws Error(input) unless 0 <= index < passes.
  Batch pass(std::int64_t index) const;
  /// One example's features of one pass: tensors without P and B, views. Throws Error(input) unless
  /// both are there.
  Fields<TensorOf> one(std::int64_t pass, std::int64_t example) const;
  /// On another device; copies from pinned memory do not wait, so that this one must live until
  /// they are done.
  Batch to(at::Device device) const;
};

/// Examples of the same sizes, one behind the other. Throws Error(input) naming the feature, the
/// chains and both shapes where they differ, and if there is none.
Batch collate(const std::vector<Example>& examples, bool pinned = false);

} // namespace kiln::alphafold
