// The device that a run is told to use.
#pragma once

#include <c10/core/Device.h>

#include <string>

namespace kiln::models {

/// "cpu", "cuda", "cuda:1"; empty: a GPU if there is one. Throws Error(input) for other names, and
/// Error(unavailable) for a GPU that is not there.
at::Device deviceOf(const std::string& name);

} // namespace kiln::models
