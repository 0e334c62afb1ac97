// What a launch of a kernel takes, lists among it: for verifying and timing every list is one
// tensor, in which its entries lie one after another.
#pragma once

#include "codegen/backend/Driver.h"
#include "codegen/backend/LaunchPlan.h"
#include "codegen/program/Tensors.h"
#include "kiln/lists.h"

#include <optional>

namespace kiln::program {

/// The tensors of a plan, then its lists as tensors of so many elements.
struct Operands {
  Operands(const LaunchPlan& plan, std::span<const std::int64_t> lengths);
  std::vector<TensorInfo> inputs, outputs;
};

/// Inputs of a plan that are not the table of its lists.
std::size_t tensorsBefore(const LaunchPlan& plan);

/// The lists of a plan that has some, made of a tensor each: consecutive parts of these lengths.
std::optional<TensorLists> listsOf(const LaunchPlan& plan, std::span<const std::int64_t> lengths,
                                   std::span<const Buffer> inputs, std::span<const Buffer> outputs);

/// From buffers of all operands to what the launch takes: the same, or with the table of the lists
/// in place of these.
struct LaunchBuffers {
  LaunchBuffers(const LaunchPlan& plan, std::span<const std::int64_t> lengths,
                std::vector<Buffer> inputs, std::vector<Buffer> outputs);
  std::vector<Buffer> inputs, outputs;

 private:
  std::optional<DeviceBuffer> table;
};

} // namespace kiln::program
