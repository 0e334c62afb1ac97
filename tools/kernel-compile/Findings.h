// What doctors found, as a table and as JSON; `doctor` and `cache doctor` share it.
#pragma once

#include "kiln/doctor.h"

#include <nlohmann/json.hpp>

namespace kiln::tool {

std::string textOf(const std::vector<Finding>& findings);
nlohmann::ordered_json toJson(const std::vector<Finding>& findings);
bool hasBroken(const std::vector<Finding>& findings);

} // namespace kiln::tool
