// A function as its plan and its families describe it: how it is called, and its kernels.
#pragma once

#include "autotune/measure/Device.h"
#include "codegen/backend/LaunchPlan.h"
#include "codegen/model/Roofline.h"

#include <memory>
#include <optional>

namespace kiln::autotune {

struct NamedKernel {
  std::string name;
  std::shared_ptr<const model::KernelModel> model;
  std::optional<Schedule> schedule; // where the text gives it one
};

struct PlannedFunction {
  LaunchPlan launch;                // what it is called with; no kernels yet
  std::vector<NamedKernel> kernels; // those with schedules
};

/// Of a program's fused or scheduled text, with the run-time sizes filled in. Throws Error.
PlannedFunction plannedFunction(const std::string& text, std::span<const std::int64_t> sizes);

/// Of the kernels of a task's function. Throws Error.
model::RooflineOfAll rooflineOf(const Task& task);

} // namespace kiln::autotune
