// What the profiler asks of GPUs, through the functions that LibTorch registers if it has CUDA.
#pragma once

namespace kiln::profile {

bool hasDevices();
void waitForDevices(); // all of the process; nothing without one

} // namespace kiln::profile
