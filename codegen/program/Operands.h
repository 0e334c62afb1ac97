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

/// Parts of lists. To verify with: around vectors and chunks, and one that fills many blocks; they
/// begin anywhere. To time with, 2^24 elements: a layer of a transformer, 1024 wide, and a piece of
/// its embedding.
std::span<const std::int64_t> oddLengths();
std::span<const std::int64_t> typicalLengths();

/// Lists made of a tensor each: consecutive parts of these lengths.
TensorLists listsOf(const LaunchPlan& plan, std::span<const std::int64_t> lengths,
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

inline bool isOverLists(const LaunchPlan& plan) {
  return plan.lists.chunk > 0;
}

} // namespace kiln::program
