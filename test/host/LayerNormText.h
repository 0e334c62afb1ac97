// LayerNorm forward and backward in the form in which kernels are generated, with their launch
// plans, for any width and schedule.
#pragma once

#include "codegen/backend/LaunchPlan.h"

namespace kiln::test {

struct LayerNormSchedule {
  int columns = 128;
  int lanes = 16;
  int vector = 8;
  int rows = 4;
  int threads = 128;
  DType dtype = DType::bf16;
  bool sharedTile = false;  // keep x in shared memory, not in registers
  bool sameScratch = false; // forward: both reductions in one place (a race if warps share rows)
  bool loopBarrier = true;  // backward: between the uses of the scratch by two iterations
};

struct KernelText {
  std::string cuda;
  LaunchPlan plan;
};

/// x, gamma, beta -> y, mean, rstd; one tile a block.
KernelText layerNormForward(const LayerNormSchedule& schedule);
/// dy, x, gamma, mean, rstd -> dx, dgamma, dbeta; resident blocks and a finishing kernel.
KernelText layerNormBackward(const LayerNormSchedule& schedule);

} // namespace kiln::test
