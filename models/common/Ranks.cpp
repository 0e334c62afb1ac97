// See Ranks.h.
#include "models/common/Ranks.h"

#include "models/common/Device.h"
#include "models/common/Fail.h"

namespace kiln::models {

namespace {

constexpr std::pair<const char*, dist::Mode> kModes[] = {
    {"per-parameter", dist::Mode::perParameter},
    {"flat", dist::Mode::flat},
    {"bucketed", dist::Mode::bucketed},
    {"overlapped", dist::Mode::overlapped}};

const dist::Mode* modeOf(const std::string& name) {
  for (const auto& [known, mode] : kModes)
    if (name == known)
      return &mode;
  return nullptr;
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

void RankOptions::check() const {
  if (nproc < 0 || nproc > 1024)
    fail(ErrorKind::input, "--nproc={}: must lie in 0 to 1024", nproc);
  if (!modeOf(reduce))
    fail(ErrorKind::input, "--reduce={}: allowed are per-parameter, flat, bucketed and overlapped",
         reduce);
  if (wire != "as-is" && wire != "bf16")
    fail(ErrorKind::input, "--wire={}: allowed are as-is and bf16", wire);
  if (!(bucketMib >= 0 && bucketMib <= 1 << 20))
    fail(ErrorKind::input, "--bucket-mib={}: must lie in 0 to {}", bucketMib, 1 << 20);
  if (!(peerLimit >= 0.1 && peerLimit <= 1e6))
    fail(ErrorKind::input, "--peer-limit={}: must lie in 0.1 to 1e6 seconds", peerLimit);
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

std::shared_ptr<dist::Group> startGroup(const RankOptions& options, const std::string& device) {
  const dist::Place place = dist::Place::fromEnvironment();
  return dist::Group::start(
      place, {.device = deviceOfRank(place, device),
              .limit = std::chrono::milliseconds(std::int64_t(options.peerLimit * 1e3))});
}

dist::DataParallelOptions dataParallelOptions(const RankOptions& options) {
  dist::DataParallelOptions chosen{.mode = *modeOf(options.reduce),
                                   .bucketBytes = std::int64_t(options.bucketMib * 0x1p20)};
  if (options.wire == "bf16")
    chosen.wire = at::kBFloat16;
  return chosen;
}

} // namespace kiln::models
