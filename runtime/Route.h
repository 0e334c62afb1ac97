// A routed op: one of ATen's for which Kiln has a kernel. Everything that is special about it is
// written in one file of runtime/ops/; the rest of the runtime knows routes only.
#pragma once

#include "kiln/torch.h"
#include "runtime/Key.h"

#include <span>
#include <string>

namespace torch {
class Library;
}

namespace kiln::runtime {

class Site;
struct Rows;
struct Trial;

struct Route {
  const char* name;                      // ATen's
  const char* family;                    // for people: "layer_norm" is forward and backward
  std::span<const char* const> operands; // arguments of the function, all that there may be
  std::span<const char* const> results;
  bool backward = false; // whether the function's derived backward is what is called
  /// MLIR text of one function whose only run-time size is the number of rows.
  std::string (*module)(const Key& key) = nullptr;
  void (*install)(torch::Library& library, Site& site) = nullptr;
  /// ATen's kernel for tensors of that place, with arguments made up: see baseline/Trial.h.
  Trial (*trial)(const Rows& rows, Place place) = nullptr;
  /// ATen's kernel moves its bytes about as fast as memory does: only what a store has chosen takes
  /// its place, not what the cost model would choose.
  bool onlyChosen = false;
  unsigned index = 0; // among all
};

/// Tensors that a route can have, operands and results together.
inline constexpr std::size_t maxSlots = 12;

/// All routes; runtime/Routes.cpp lists them.
std::span<Route* const> routes();

/// "65536x128 bf16"
std::string labelOf(const Key& key, std::int64_t rows);

} // namespace kiln::runtime
