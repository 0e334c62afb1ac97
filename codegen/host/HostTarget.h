// The host target: runs the generated CUDA text on a machine without a GPU, checking every access
// to memory, every barrier and every shuffle. What is wrong is an Error(verification) that names
// kernel, block, thread and buffer. Plain C++; any thread may call.
#pragma once

#include "codegen/backend/LaunchPlan.h"
#include "codegen/host/GlobalMemory.h"
#include "codegen/host/HostLibrary.h"

namespace kiln {

/// Blocks of a kernel, or clusters, are independent: no order may change a result.
enum class BlockOrder { forward, reversed, shuffled };

struct HostRunOptions {
  int multiprocessors = 2; // that resident grids are sized for
  BlockOrder order = BlockOrder::forward;
  std::uint64_t seed = 0; // of the shuffled order
};

/// One launch of one kernel, with everything filled in.
struct HostLaunch {
  std::string name;
  std::int64_t blocks = 0, blocksY = 1, blocksZ = 1;
  int threads = 0;
  int cluster = 1; // blocks
  std::int64_t sharedBytes = 0;
  std::vector<std::uint64_t> arguments = {}; // pointers, also to HostTensorMap, and i64 values
  std::vector<MemoryRegion> regions = {};    // all that the kernel may touch
  std::vector<WarpRole> roles = {};
};

/// Throws Error(input) for an impossible launch, Error(verification) for what the kernel did.
void runKernel(const HostLibrary& library, const HostLaunch& launch,
               const HostRunOptions& options = {});

/// A compiled function on the host.
class HostProgram {
 public:
  HostProgram(const LaunchPlan& plan, std::string_view cudaText,
              const HostCompileOptions& options = {});

  /// Checks the buffers, allocates workspaces (all bytes 0xff: NaN in every type) and runs the
  /// kernels in order.
  void run(std::span<const Buffer> inputs, std::span<const Buffer> outputs,
           const HostRunOptions& options = {}) const;

 private:
  LaunchPlan plan;
  std::shared_ptr<HostLibrary> library;
};

} // namespace kiln
