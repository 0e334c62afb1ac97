// Fits the constants of the cost model to timed schedules, by coordinate descent on their
// logarithms: each constant in turn is made a little larger or smaller where that helps. A constant
// that the times say nothing about stays where it was, since to leave that place costs something.
//
// Those of the ranking can be fitted to two ends: that costs are proportional to times, which few
// keys tell well, and least regret (Figures.h), which is what they are for. It is a step function
// with many valleys, so that its descent tries large steps, and begins twice: where the constants
// were, and where costs are most nearly proportional.
#pragma once

#include "bench/fit_cost/Figures.h"

#include <functional>

namespace kiln::bench {

/// The constants to fit: those of a part, or of these the named ones.
struct Chosen {
  Chosen(model::CostConstant::Part part, std::span<const std::string> names = {}) // NOLINT
      : part(part), names(names) {}
  bool has(const model::CostConstant& constant) const;
  model::CostConstant::Part part;
  std::span<const std::string> names;
};

/// Told how far a long fit has come, by two threads.
using Progress = std::function<void(const std::string&)>;

/// The chosen ones that fit the keys best, rounded to what a file of them holds. Of the ranking:
/// the differences of measured times and costs within each key, those near the best above all. Of
/// the time: measured and predicted ones, all ranked by `start`.
model::CostConstants fit(const Chosen& chosen, std::span<const TunedKey> keys,
                         const model::CostConstants& start);

/// Of the ranking: those of the least regret, which is never more than by `start`.
model::CostConstants fitToRegret(const Chosen& chosen, std::span<const TunedKey> keys,
                                 const model::CostConstants& start, const Progress& progress = {});

/// The figures of each group of keys by constants that were fitted to all others: `groups` has that
/// of each key.
using Fitter = std::function<model::CostConstants(std::span<const TunedKey>)>;
Figures heldOut(std::span<const TunedKey> keys, std::span<const std::size_t> groups,
                const Fitter& fitted);

/// `text` of cost_constants.def with the values of `k`, to three digits, where they differ. Throws
/// Error(input) if one of its lines names no constant or a constant has no line.
std::string withValues(std::string text, const model::CostConstants& k);

} // namespace kiln::bench
