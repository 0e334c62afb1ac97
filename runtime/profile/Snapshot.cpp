// The caching allocator's own record of a GPU's memory, as torch's page memory_viz draws it.
#include "kiln/files.h"
#include "kiln/profile.h"
#include "runtime/profile/Device.h"

#include <fmt/format.h>
#if KILN_TORCH_CUDA
#include <torch/csrc/cuda/memory_snapshot.h>
#endif

namespace kiln::profile {

static void requireDevices() {
  if (!hasDevices())
    throw Error(ErrorKind::unavailable,
                "memory snapshots are of a GPU's caching allocator, and this LibTorch sees no GPU; "
                "ProfilerOptions::memory records the CPU's allocations");
}

void recordMemoryHistory(std::size_t entries) {
  requireDevices();
#if KILN_TORCH_CUDA
  if (entries > 0)
    torch::cuda::_record_memory_history("all", "all", "all", entries);
  else
    torch::cuda::_record_memory_history(std::optional<std::string>());
#endif
}

std::filesystem::path exportMemorySnapshot(const std::filesystem::path& file) {
  requireDevices();
#if KILN_TORCH_CUDA
  writeFile(file, torch::cuda::_memory_snapshot_pickled());
#endif
  return file;
}

} // namespace kiln::profile
