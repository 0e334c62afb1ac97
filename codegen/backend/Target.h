// Limits of the GPUs that Kiln compiles for, and how many blocks of a kernel fit on one of their
// multiprocessors. Needs no GPU; pure functions of the architecture's name.
#pragma once

#include "kiln/kiln.h"

#include <array>

namespace kiln {

/// Instructions that not every target has.
struct Capabilities {
  bool asyncCopies = false;        // cp.async
  bool matrixLoads = false;        // ldmatrix
  bool warpMatrix = false;         // mma.sync of 2-byte types
  bool warpgroupMatrix = false;    // wgmma
  bool bulkCopies = false;         // cp.async.bulk, tensor maps too, and barriers that count bytes
  bool clusters = false;           // of up to Target::maxCluster blocks
  bool registersByRole = false;    // setmaxnreg
  bool programmaticLaunch = false; // griddepcontrol
};

/// Element types that tensor cores multiply at rates of their own; f16 stands for bf16 too.
enum class MatrixType { f16, tf32, fp8 };

struct Target {
  std::string_view arch;           // "sm_90a": what NVRTC is told
  std::string_view flagship;       // the part that the nominal numbers describe
  std::int64_t sharedPerBlock = 0; // most that one block may use, static and dynamic
  std::int64_t sharedPerSM = 0;
  std::int64_t sharedReserved = 1024; // taken by the driver from every block
  int registersPerSM = 65536;
  int registersPerThread = 255;
  int threadsPerBlock = 1024;
  int threadsPerSM = 2048;
  int warpsPerSM = 64;
  int blocksPerSM = 32;
  int maxCluster = 1;      // 1: no clusters
  int multiprocessors = 0; // nominal, of the flagship
  double memoryGBs = 0;    // nominal bandwidth in 10^9 bytes a second
  std::int64_t l2Bytes = 0;
  double clockGHz = 0; // that the nominal tensor rates hold for
  /// Dense operations of the tensor cores a clock and multiprocessor, additions and products, with
  /// sums in f32, by MatrixType; 0: none of this type.
  std::array<int, 3> matrixOps = {0, 0, 0};
  int exponentials = 16; // that the special-function units make a clock and multiprocessor
  Capabilities has = {};
};

/// The nominal rate of the whole part in 10^12 operations a second.
double matrixTflops(const Target& target, MatrixType type);

/// Accepts the names of the table and aliases ("sm_90", "compute_90a", "90a"). An alias without
/// the letter means the same part. Throws Error(input) listing what is known.
const Target& findTarget(std::string_view arch);

/// The target for a device of this compute capability. Throws Error(input).
const Target& targetOfCapability(int major, int minor);

std::span<const Target> allTargets();

/// Blocks of `threads` threads that fit on one multiprocessor at once; 0: the block does not fit
/// at all. `sharedBytes` is static plus dynamic, without the driver's reserve.
int residentBlocks(const Target& target, int threads, int registers, std::int64_t sharedBytes);

} // namespace kiln
