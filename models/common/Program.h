// What the commands of all models do in the same way: how they begin and end, whose kernels they
// run on, and where the time of their steps is told to go.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <string>

namespace kiln::models {

/// Tensors of the CPU are malloc's, which gives the pages of large ones back when they are freed
/// and gets zeroed ones for the next step's: from here on the process keeps them, which made a step
/// of a small model a third faster. Of glibc; elsewhere nothing is done.
void keepFreedMemory();

/// What `work` returns, or 1 after what it threw was told on the error stream. Keeps freed memory.
int guarded(const char* name, const std::function<int()>& work);

/// "off": LibTorch's own kernels. Else kiln::enable() as the environment says (KILN_PLACE=cpu,
/// ...), with "verify" comparing each result with ATen's.
void startKiln(const std::string& mode);

/// Of a process that is to repeat results bit by bit: what cuBLAS reads when it is loaded.
void startDeterministic();

/// Whether something that is done every `period` steps, 0 never, is done behind step `step`.
bool isEvery(std::int64_t step, std::int64_t period);

/// Tables of ops and kernels of a few steps, as many rows each, on the error stream.
void profileSteps(const std::function<void()>& step, at::Device device, std::int64_t rows);

} // namespace kiln::models
