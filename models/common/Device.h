// The device that a run is told to use: whether it is there, when it is done, what it holds.
#pragma once

#include <c10/core/Device.h>

#include <string>

namespace kiln::models {

/// "cpu", "cuda", "cuda:1"; empty: a GPU if there is one. Throws Error(input) for other names, and
/// Error(unavailable) for a GPU that is not there.
at::Device deviceOf(const std::string& name);

/// Waits until a GPU has done what it was told.
void synchronize(at::Device device);

/// Largest number of bytes that tensors took on a GPU since the start or the last reset, or that
/// the process took on a CPU, where nothing is reset.
double peakMemory(at::Device device);
void resetPeakMemory(at::Device device);
/// Gives back what is cached of tensors and graphs that are gone.
void releaseFreedMemory(at::Device device);

} // namespace kiln::models
