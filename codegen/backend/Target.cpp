// The table of targets: per-SM limits from NVIDIA's compute capability tables; bandwidth, cache
// and SM count of the data-centre or largest part of each generation.
#include "codegen/backend/Target.h"

#include "codegen/backend/Fail.h"
#include "dialect/DidYouMean.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace kiln {

namespace {

constexpr std::int64_t MiB = 1 << 20;

// What a compute capability has, once for those that have the same: Ada is as Ampere here.
constexpr Capabilities ampere = {.asyncCopies = true, .matrixLoads = true, .warpMatrix = true};
constexpr Capabilities hopper = {.asyncCopies = true,
                                 .matrixLoads = true,
                                 .warpMatrix = true,
                                 .warpgroupMatrix = true,
                                 .bulkCopies = true,
                                 .clusters = true,
                                 .registersByRole = true,
                                 .programmaticLaunch = true};
constexpr Capabilities without(Capabilities all, bool Capabilities::* what) {
  all.*what = false;
  return all;
}
constexpr Capabilities blackwell = without(hopper, &Capabilities::warpgroupMatrix);
// The letter in sm_120a, with which this is not compiled, would add it.
constexpr Capabilities blackwellWorkstation = without(blackwell, &Capabilities::registersByRole);

constexpr Target targets[] = {
    {.arch = "sm_80",
     .flagship = "A100 SXM 80 GB",
     .sharedPerBlock = 166912,
     .sharedPerSM = 167936,
     .multiprocessors = 108,
     .memoryGBs = 2039,
     .l2Bytes = 40 * MiB,
     .clockGHz = 1.41,
     .matrixOps = {2048, 1024, 0},
     .has = ampere},
    {.arch = "sm_86",
     .flagship = "RTX A6000",
     .sharedPerBlock = 101376,
     .sharedPerSM = 102400,
     .threadsPerSM = 1536,
     .warpsPerSM = 48,
     .blocksPerSM = 16,
     .multiprocessors = 84,
     .memoryGBs = 768,
     .l2Bytes = 6 * MiB,
     .clockGHz = 1.80,
     .matrixOps = {1024, 512, 0},
     .has = ampere},
    {.arch = "sm_89",
     .flagship = "L40S",
     .sharedPerBlock = 101376,
     .sharedPerSM = 102400,
     .threadsPerSM = 1536,
     .warpsPerSM = 48,
     .blocksPerSM = 24,
     .multiprocessors = 142,
     .memoryGBs = 864,
     .l2Bytes = 96 * MiB,
     .clockGHz = 2.52,
     .matrixOps = {1024, 512, 2048},
     .has = ampere},
    {.arch = "sm_90a",
     .flagship = "H200 SXM",
     .sharedPerBlock = 232448,
     .sharedPerSM = 233472,
     .maxCluster = 16,
     .multiprocessors = 132,
     .memoryGBs = 4800,
     .l2Bytes = 50 * MiB,
     .clockGHz = 1.83,
     .matrixOps = {4096, 2048, 8192},
     .has = hopper},
    {.arch = "sm_100a",
     .flagship = "B200",
     .sharedPerBlock = 232448,
     .sharedPerSM = 233472,
     .maxCluster = 16,
     .multiprocessors = 148,
     .memoryGBs = 8000,
     .l2Bytes = 126 * MiB,
     .clockGHz = 1.86,
     .matrixOps = {8192, 4096, 16384},
     .has = blackwell},
    {.arch = "sm_120",
     .flagship = "RTX PRO 6000 Blackwell",
     .sharedPerBlock = 101376,
     .sharedPerSM = 102400,
     .threadsPerSM = 1536,
     .warpsPerSM = 48,
     .blocksPerSM = 24,
     .maxCluster = 8,
     .multiprocessors = 188,
     .memoryGBs = 1792,
     .l2Bytes = 128 * MiB,
     .clockGHz = 2.62,
     .matrixOps = {1024, 512, 2048},
     .has = blackwellWorkstation},
};

/// "sm_90a", "compute_90", "90" -> "90": the letter picks instructions, not limits.
std::string_view digitsOf(std::string_view arch) {
  for (std::string_view prefix : {"sm_", "compute_"})
    if (arch.substr(0, prefix.size()) == prefix) {
      arch.remove_prefix(prefix.size());
      break;
    }
  if (!arch.empty() && arch.back() == 'a')
    arch.remove_suffix(1);
  return arch;
}

constexpr std::int64_t roundUp(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

} // namespace

std::span<const Target> allTargets() {
  return targets;
}

const Target& findTarget(std::string_view arch) {
  std::vector<std::string_view> known;
  for (const Target& target : targets) {
    if (digitsOf(arch) == digitsOf(target.arch))
      return target;
    known.push_back(target.arch);
  }
  fail(ErrorKind::input, "'{}' is no known target; known are {}{}", arch, fmt::join(known, ", "),
       didYouMean(arch, known));
}

std::vector<std::string> archNames() {
  std::vector<std::string> names;
  for (const Target& target : targets)
    names.emplace_back(target.arch);
  return names;
}

std::string parseArch(std::string_view text) {
  return std::string(findTarget(text).arch);
}

const Target& targetOfCapability(int major, int minor) {
  return findTarget(fmt::format("sm_{}{}", major, minor));
}

double matrixTflops(const Target& target, MatrixType type) {
  return target.matrixOps[static_cast<std::size_t>(type)] * target.clockGHz *
         target.multiprocessors / 1e3;
}

int residentBlocks(const Target& target, int threads, int registers, std::int64_t sharedBytes) {
  if (threads < 1 || registers < 0 || sharedBytes < 0)
    fail(ErrorKind::input,
         "a block of {} threads, {} registers each and {} bytes of shared memory cannot exist; "
         "at least 1 thread and no negative number are needed",
         threads, registers, sharedBytes);
  if (threads > target.threadsPerBlock || registers > target.registersPerThread ||
      sharedBytes > target.sharedPerBlock)
    return 0;
  std::int64_t warps = roundUp(threads, 32) / 32;
  std::int64_t blocks = std::min<std::int64_t>(target.blocksPerSM, target.warpsPerSM / warps);
  if (registers > 0) {
    // Registers are given out per warp in units of 256, and every quarter of the SM, which runs
    // a quarter of its warps, owns a quarter of them.
    std::int64_t perWarp = roundUp(registers * std::int64_t(32), 256);
    std::int64_t warpsThatFit = target.registersPerSM / 4 / perWarp * 4;
    blocks = std::min(blocks, warpsThatFit / warps);
  }
  std::int64_t shared = roundUp(sharedBytes + target.sharedReserved, 128);
  return static_cast<int>(std::min(blocks, target.sharedPerSM / shared));
}

} // namespace kiln
