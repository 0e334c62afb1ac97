// The constants of the cost model as one value, so that a program that fits them can ask what
// others would say. What they are and what they are worth: cost_constants.def.
#pragma once

#include <array>
#include <string_view>

namespace kiln::autotune {

struct CostConstants {
#define KILN_FITTED(name, value, what) double name = (value);
#include "autotune/cost_constants.def"
};

/// Those that everything but a fit uses.
inline constexpr CostConstants kCostConstants;

/// A constant for whoever changes it.
struct CostConstant {
  std::string_view name;
  double CostConstants::* member;
  bool isFitted;
};
inline constexpr auto kAllCostConstants = std::to_array<CostConstant>({
#define KILN_FIXED(name, value, what) {#name, &CostConstants::name, false},
#define KILN_FITTED(name, value, what) {#name, &CostConstants::name, true},
#include "autotune/cost_constants.def"
});

} // namespace kiln::autotune
