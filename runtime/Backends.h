// The backends of this build; see backendOf in Backend.h.
#pragma once

#include "runtime/Backend.h"

namespace kiln::runtime {

Backend& hostBackend();
Backend& gpuBackend(); // with a LibTorch without CUDA, one that can run nothing

} // namespace kiln::runtime
