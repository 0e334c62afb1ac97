// The table of what kernels use, and the same as JSON; compile and inspect share it.
#pragma once

#include "kiln/kiln.h"
#include "tools/kernel-compile/Table.h"
#include "tools/kernel-compile/Terminal.h"

#include <nlohmann/json.hpp>

namespace kiln::tool {

/// A table whose columns are all figures of Usage. `leading`: titles of columns before them.
Table usageTable(const std::vector<std::string>& leading, const std::vector<std::string>& trailing);
std::vector<std::string> usageCells(const KernelInfo& kernel);

/// The bare parameters, where a title says that they are a schedule's.
std::string shortSchedule(const std::string& text);

nlohmann::ordered_json toJson(const KernelInfo& kernel);
nlohmann::ordered_json toJson(const TensorInfo& tensor);

} // namespace kiln::tool
