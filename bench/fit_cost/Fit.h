// Fits the constants of the cost model to timed schedules, by coordinate descent on their
// logarithms: each constant in turn is made a little larger or smaller where that helps, by smaller
// and smaller steps. A constant that the times say nothing about stays where it was, since to leave
// that place costs something.
#pragma once

#include "bench/fit_cost/Figures.h"

namespace kiln::bench {

/// The constants to fit: those of a part, or of these the named ones.
struct Chosen {
  Chosen(model::CostConstant::Part part, std::span<const std::string> names = {}) // NOLINT
      : part(part), names(names) {}
  bool has(const model::CostConstant& constant) const;
  model::CostConstant::Part part;
  std::span<const std::string> names;
};

/// The chosen ones that fit the keys best, rounded to what a file of them holds. Of the ranking:
/// the differences of measured times and costs within each key, those near the best above all. Of
/// the time: measured and predicted ones, all ranked by `start`.
model::CostConstants fit(const Chosen& chosen, std::span<const TunedKey> keys,
                         const model::CostConstants& start);

/// The figures of each group of keys by constants that were fitted to all others: `groups` has that
/// of each key.
Figures heldOut(const Chosen& chosen, std::span<const TunedKey> keys,
                std::span<const std::size_t> groups, const model::CostConstants& start);

/// `text` of cost_constants.def with the values of `k`, to three digits, where they differ. Throws
/// Error(input) if one of its lines names no constant or a constant has no line.
std::string withValues(std::string text, const model::CostConstants& k);

} // namespace kiln::bench
