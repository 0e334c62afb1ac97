// The constants of the cost model as one value, so that a program that fits them can ask what
// others would say. What they are and what they are worth: cost_constants.def.
#pragma once

#include <array>
#include <string_view>

namespace kiln::model {

struct CostConstants {
#define KILN_RANKING(name, value, what) double name = (value);
#define KILN_TIME(name, value, what) double name = (value);
#define KILN_FIXED(name, value, what) double name = (value);
#include "codegen/model/cost_constants.def"
};

/// Those that everything but a fit uses.
inline constexpr CostConstants kCostConstants;

/// A constant for whoever changes it, and what it is of.
struct CostConstant {
  enum class Part { ranking, time, fixed };
  Part part;
  std::string_view name;
  double CostConstants::* member;
};
inline constexpr auto kAllCostConstants = std::to_array<CostConstant>({
#define KILN_RANKING(name, value, what) {CostConstant::Part::ranking, #name, &CostConstants::name},
#define KILN_TIME(name, value, what) {CostConstant::Part::time, #name, &CostConstants::name},
#define KILN_FIXED(name, value, what) {CostConstant::Part::fixed, #name, &CostConstants::name},
#include "codegen/model/cost_constants.def"
});

} // namespace kiln::model
