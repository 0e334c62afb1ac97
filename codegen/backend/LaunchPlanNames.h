// The words by which a launch plan's choices are written in JSON, for its writer and its reader.
#pragma once

#include "codegen/backend/LaunchPlan.h"

#include <array>

namespace kiln {

inline constexpr std::array<std::pair<KernelArgument::Kind, std::string_view>, 6> kindNames = {
    {{KernelArgument::Kind::buffer, "buffer"},
     {KernelArgument::Kind::rows, "rows"},
     {KernelArgument::Kind::size, "size"},
     {KernelArgument::Kind::stride, "stride"},
     {KernelArgument::Kind::blocks, "blocks"},
     {KernelArgument::Kind::tensorMap, "tensorMap"}}};
inline constexpr std::array<std::pair<KernelLaunch::Grid, std::string_view>, 4> gridNames = {
    {{KernelLaunch::Grid::oneShot, "oneShot"},
     {KernelLaunch::Grid::resident, "resident"},
     {KernelLaunch::Grid::fixed, "fixed"},
     {KernelLaunch::Grid::tiles, "tiles"}}};

template <typename Table, typename Value> std::string_view nameIn(const Table& table, Value value) {
  for (const auto& [known, text] : table)
    if (known == value)
      return text;
  return "?";
}

} // namespace kiln
