// The kernels of a function as their families model them.
#pragma once

#include "codegen/model/KernelModel.h"

#include <memory>

namespace kiln::autotune {

struct NamedKernel {
  std::string name;
  std::shared_ptr<const model::KernelModel> model;
};

/// Of every kernel with schedules of a program's fused text, with the run-time sizes filled in.
std::vector<NamedKernel> kernelsOf(const std::string& text, const std::vector<std::int64_t>& sizes);

} // namespace kiln::autotune
