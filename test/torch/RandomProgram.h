// Programs of ATen's operations that nobody chose, for kiln::compile: values of one width with
// other leading dimensions, columns and scalars of rows, other strides, views, in-place updates and
// products among what becomes kernels.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <random>
#include <string>
#include <vector>

namespace kiln::test {

using Tensors = std::vector<at::Tensor>;

struct RandomProgram {
  struct Step {
    std::string text; // "mul"
    std::vector<std::size_t> operands;
    std::function<at::Tensor(const Tensors&)> apply;
  };
  /// A tensor of its own for leading dimensions, on the CPU.
  using Make = std::function<at::Tensor(at::IntArrayRef leading, std::mt19937_64& random)>;

  std::size_t leading = 1; // dimensions
  std::vector<Make> inputs;
  Tensors leaves; // weights, which the function reads without being given them
  std::vector<Step> steps;
  std::vector<std::size_t> results; // of values: inputs, leaves, steps, in this order
  at::ScalarType dtype = at::kFloat;
  bool autocast = false; // to bf16

  bool isExact() const { return dtype == at::kFloat && !autocast; }
  Tensors run(const Tensors& given, const Tensors& weights) const;
  std::string text() const;
  /// What one result needs.
  RandomProgram only(std::size_t result) const;
};

RandomProgram drawProgram(std::uint64_t seed);
/// Inputs of leading dimensions that are drawn, too, each of `least` or more.
Tensors drawInputs(const RandomProgram& program, std::mt19937_64& random, std::int64_t least = 1);

} // namespace kiln::test
