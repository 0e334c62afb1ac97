// See Ranks.h.
#include "models/common/Ranks.h"

#include "models/common/Checkpoint.h"
#include "models/common/Device.h"
#include "models/common/Fail.h"

#include <kiln/dist/tuning.h>

#include <algorithm>

namespace kiln::models {

namespace {

constexpr std::pair<const char*, dist::Mode> kModes[] = {
    {"per-parameter", dist::Mode::perParameter},
    {"flat", dist::Mode::flat},
    {"bucketed", dist::Mode::bucketed},
    {"overlapped", dist::Mode::overlapped}};

std::vector<std::string> modeNames() {
  std::vector<std::string> names;
  for (const auto& [name, mode] : kModes)
    names.emplace_back(name);
  return names;
}

dist::Mode modeOf(const std::string& name) {
  return std::ranges::find(kModes, name, [](const auto& one) { return one.first; })->second;
}

at::Device deviceOfRank(const dist::Place& place, const std::string& name) {
  if (place.localSize == 1 || name == "cpu")
    return deviceOf(name);
  const at::Device first = deviceOf(name == "cuda" ? "" : name);
  if (first.is_cpu())
    return first;
  if (!name.empty() && name != "cuda")
    fail(ErrorKind::input,
         "--device={} names one GPU for {} ranks of this machine; --device=cuda gives each its own",
         name, place.localSize);
  return deviceOf(fmt::format("cuda:{}", place.localRank));
}

} // namespace

std::vector<Flag> RankOptions::flags() {
  const char* group = "Several processes";
  return {
      {group, "nproc", &nproc,
       "ranks to start on this machine, each with --batch of its own; 0: as torchrun, Slurm or "
       "Open MPI says"},
      {group, "reduce", &reduce,
       "how gradients are sent: overlapped with the backward, bucketed, flat, per-parameter"},
      {group, "bucket-mib", &bucketMib,
       "MiB of gradients that are sent at a time; 0: a sixteenth of all, from 25 to 100, and less "
       "at the end"},
      {group, "wire", &wire, "as-is, or bf16: fp32 gradients are sent in it"},
      {group, "transport", &transport,
       "of gradients between GPUs: nccl, copy-engines, which leave multiprocessors to the backward "
       "and need all ranks on one machine, or auto: those where GPUs reach each other's memory"},
      {group, "peer-kib", &peerKib,
       "KiB up to which sums of GPUs of one machine may go through memory that all of them see, "
       "where "
       "that measures faster than NCCL; 0: none do"},
      {group, "peer-limit", &peerLimit,
       "seconds to wait for a rank before the run ends with an error"},
  };
}

void RankOptions::check() const {
  inside("nproc", double(nproc), 0, 1024);
  oneOf("reduce", reduce, modeNames());
  oneOf("wire", wire, {"as-is", "bf16"});
  oneOf("transport", transport, {"auto", "nccl", "copy-engines"});
  inside("bucket-mib", bucketMib, 0, 1 << 20);
  inside("peer-kib", double(peerKib), 0, 1 << 20);
  inside("peer-limit", peerLimit, 0.1, 1e6);
}

bool startsRanks(std::int64_t nproc) {
  const dist::Place place = dist::Place::fromEnvironment();
  if (place.launcher.empty())
    return nproc > 1;
  if (nproc > 0 && nproc != place.localSize)
    fail(ErrorKind::input,
         "--nproc={}, and {} has started {} ranks on this machine: leave one of the two out", nproc,
         place.launcher, place.localSize);
  return false;
}

std::shared_ptr<dist::Group> startGroup(const RankOptions& options, const std::string& device,
                                        const std::string& kiln) {
  const dist::Place place = dist::Place::fromEnvironment();
  auto group = dist::Group::start(
      place, {.device = deviceOfRank(place, device),
              .limit = std::chrono::milliseconds(std::int64_t(options.peerLimit * 1e3)),
              .peerBytes = options.peerKib << 10,
              .copyEngines = options.transport == "auto"
                                 ? std::nullopt
                                 : std::optional(options.transport == "copy-engines")});
  if (kiln != "off" && group->size() > 1)
    dist::freezeChoices(*group);
  return group;
}

dist::DataParallelOptions dataParallelOptions(const RankOptions& options) {
  dist::DataParallelOptions chosen{.mode = modeOf(options.reduce)};
  if (options.bucketMib > 0)
    chosen.bucketBytes = std::int64_t(options.bucketMib * 0x1p20);
  if (options.wire == "bf16")
    chosen.wire = at::kBFloat16;
  return chosen;
}

void backward(const at::Tensor& loss, dist::DataParallel* parallel, bool isLast) {
  if (!parallel || isLast)
    return loss.backward();
  const auto quiet = parallel->noSync();
  loss.backward();
}

std::filesystem::path startOfFirst(dist::Group& group, const std::string& resume,
                                   const std::filesystem::path& folder) {
  return group.gather(group.rank() == 0 ? startOf(resume, folder).string() : "")[0];
}

} // namespace kiln::models
