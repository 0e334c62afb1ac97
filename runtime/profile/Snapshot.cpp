// The caching allocator's own record of a GPU's memory, as torch's page memory_viz draws it.
#include "kiln/profile.h"
#include "runtime/profile/Device.h"

#include <fmt/format.h>
#include <fstream>
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
  const std::string pickled = torch::cuda::_memory_snapshot_pickled();
  std::ofstream out(file, std::ios::binary);
  out.write(pickled.data(), static_cast<std::streamsize>(pickled.size()));
  if (!out.flush())
    throw Error(ErrorKind::io,
                fmt::format("memory snapshot '{}': could not be written; name a file "
                            "in a folder that may be written",
                            file.string()));
#endif
  return file;
}

} // namespace kiln::profile
