// A routed op: one of ATen's for which Kiln has a kernel. Everything that is special about it is
// written in one file of runtime/ops/; the rest of the runtime knows routes only.
#pragma once

#include "kiln/torch.h"
#include "runtime/Key.h"

#include <optional>
#include <span>
#include <string>

namespace torch {
class Library;
}

namespace kiln::runtime {

class Site;
class Tally;
struct Rows;
struct Trial;

/// Where calls are taken: in place of ATen's kernel; above autograd, where an op that ATen composes
/// of others is still one, so that its result is given a gradient here; where autocast would cast
/// its operands; or from within another route alone, mostly by such a gradient.
enum class Layer : std::uint8_t { kernel, autograd, autocast, gradient };

/// MLIR text of functions whose only run-time size is the number of rows, and the one that a
/// route's kernels come from; no name: the only one.
struct RouteText {
  RouteText(std::string module, std::string function = {})
      : module(std::move(module)), function(std::move(function)) {}
  std::string module, function;
};

struct Route {
  const char* name;                      // ATen's
  const char* family;                    // for people: "layer_norm" is forward and backward
  std::span<const char* const> operands; // arguments of the function, all that there may be
  std::span<const char* const> results;
  bool backward = false; // whether the function's derived backward is what is called
  RouteText (*text)(const Key& key) = nullptr;
  void (*install)(torch::Library& library, Site& site) = nullptr;
  Layer layer = Layer::kernel;
  /// ATen's kernel for tensors of that place, with arguments made up: see baseline/Trial.h. Null:
  /// ATen has several.
  Trial (*trial)(const Rows& rows, Place place) = nullptr;
  /// ATen's kernel moves its bytes about as fast as memory does: only what a store has chosen takes
  /// its place, not what the cost model would choose.
  bool onlyChosen = false;
  /// Of a call's run-time sizes, those that the cost model chooses schedules for, the same for all
  /// calls of a key; null: one choice serves all sizes.
  std::vector<std::int64_t> (*usual)(const Key& key, std::span<const std::int64_t> sizes) = nullptr;
  /// What a user should know of its results, said in the report of who has called it.
  const char* note = nullptr;
  /// What its kernels count, said in the report as soon as it is more than nothing.
  Tally& (*tally)() = nullptr;
  /// Of a key and the run-time sizes of a call, for people; null: "65536x128 bf16".
  std::string (*label)(const Key& key, std::span<const std::int64_t> sizes) = nullptr;
  unsigned index = 0; // among all
};

/// Tensors that a route can have, operands and results together.
inline constexpr std::size_t maxSlots = 14;

/// All routes; runtime/Routes.cpp lists them.
std::span<Route* const> routes();

/// "65536x128 bf16"
std::string labelOf(const Route& route, const Key& key, std::span<const std::int64_t> sizes);

} // namespace kiln::runtime
