// Trainers in several processes: what all of them are told on the command line, and the group that
// they train in. Each rank has a batch of its own; gradients are the mean over ranks.
#pragma once

#include "models/common/Flags.h"

#include <kiln/dist/data_parallel.h>

#include <filesystem>
#include <string>

namespace kiln::models {

struct RankOptions {
  std::int64_t nproc = 0; // ranks to start on this machine; 0: as a launcher's environment says
  std::string reduce = "overlapped", wire = "as-is", transport = "auto";
  double bucketMib = 0, peerLimit = 300; // 0: by the model; seconds
  std::int64_t peerKib = 0;

  std::vector<Flag> flags();
  /// Throws Error(input).
  void check() const;
};

/// Whether this process is to start ranks instead of being one. Throws Error(input) for numbers
/// that contradict a launcher's.
bool startsRanks(std::int64_t nproc);

/// By the environment, on `device`: "cuda" is the GPU of the rank's number on its machine. One
/// process that nobody launched is a group of its own. `kiln`: of --kiln; unless it is "off",
/// several ranks freeze their choices of kernels (kiln/dist/tuning.h). Throws Error(input,
/// unavailable).
std::shared_ptr<dist::Group> startGroup(const RankOptions& options, const std::string& device,
                                        const std::string& kiln = "off");

dist::DataParallelOptions dataParallelOptions(const RankOptions& options);

/// Of one of a step's losses, of which only the last sends gradients. `parallel`: none for one
/// process.
void backward(const at::Tensor& loss, dist::DataParallel* parallel, bool isLast);

/// work(). What it throws behind a failure of the group is thrown as that: what is aborted leaves
/// errors of the device that name no rank.
template <typename Work> void inGroup(dist::Group& group, Work work) try {
  work();
} catch (const std::exception&) {
  group.check();
  throw;
}

/// Where a run starts (Checkpoint.h), as rank 0 sees it.
std::filesystem::path startOfFirst(dist::Group& group, const std::string& resume,
                                   const std::filesystem::path& folder);

/// make() on rank 0, and then on the others: of what the first writes and the others read.
template <typename Make> auto firstThenOthers(dist::Group& group, Make make) {
  if (group.rank() > 0)
    group.barrier();
  auto made = make();
  if (group.rank() == 0)
    group.barrier();
  return made;
}

} // namespace kiln::models
