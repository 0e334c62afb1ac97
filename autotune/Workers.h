// The devices of the public functions: "gpu", "gpu:N", "simulated", or "simulated:FILE.json" with a
// file that says how it behaves; each in a worker process.
#pragma once

#include "autotune/measure/Device.h"
#include "autotune/simulate/SimulatedDevice.h"

namespace kiln::autotune {

/// `command`: a program that calls serveTuning() with its last argument.
DeviceFactory workersOf(std::vector<std::string> command, const std::string& device);
bool isSimulated(std::string_view device);
/// Which GPU a device names, 0 for "gpu"; -1: none.
int gpuOf(std::string_view device);
/// How that one behaves. Throws Error(input) for a file that does not say it.
Simulation simulationFor(std::string_view device);
/// Throws Error(input) for what is no device, Error(unavailable) with `advice` without a GPU.
void requireDevice(const std::string& device, const std::vector<std::string>& worker,
                   std::string_view advice = "");

} // namespace kiln::autotune
