// See Checkpoint.h.
#include "models/common/Checkpoint.h"

#include "models/common/Folder.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <charconv>

namespace kiln::models {

namespace fs = std::filesystem;
using at::Tensor;

namespace {

/// Steps in the name of a checkpoint, or -1.
std::int64_t stepOf(const fs::path& path) {
  const std::string name = path.filename().string(), prefix = "step-", suffix = ".safetensors";
  if (!name.starts_with(prefix) || !name.ends_with(suffix))
    return -1;
  std::int64_t step = -1;
  const char* end = name.data() + name.size() - suffix.size();
  const auto parsed = std::from_chars(name.data() + prefix.size(), end, step);
  return parsed.ec == std::errc() && parsed.ptr == end ? step : -1;
}

/// By step, the newest last.
std::map<std::int64_t, fs::path> checkpointsIn(const fs::path& folder) {
  std::map<std::int64_t, fs::path> all;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none))
    if (const std::int64_t step = stepOf(entry.path()); step >= 0)
      all.emplace(step, entry.path());
  return all;
}

std::string randomName(at::Device device) {
  return std::string("random.") + at::DeviceTypeName(device.type(), /*lower_case=*/true);
}

template <typename Each> void forEachGenerator(at::Device device, Each each) {
  for (const at::Device one : {at::Device(at::kCPU), device}) {
    each(one, at::globalContext().defaultGenerator(one));
    if (device.is_cpu())
      return;
  }
}

std::int64_t stepIn(const Safetensors& file, const fs::path& path) {
  const std::string& text = file.text("step");
  std::int64_t step = -1;
  std::from_chars(text.data(), text.data() + text.size(), step);
  if (step < 0)
    fail(ErrorKind::corrupt, "{}: its 'step' is '{}', no count", path.string(), text);
  return step;
}

} // namespace

Checkpoint::Checkpoint(const fs::path& path) : file(path), stepsDone(stepIn(file, path)) {}

void Checkpoint::loadRandom(at::Device device) const {
  forEachGenerator(device, [&](at::Device one, at::Generator generator) {
    if (file.contains(randomName(one))) // else the run was on another kind of device
      generator.set_state(file.tensor(randomName(one)).clone());
  });
}

std::vector<NamedTensor> stateOf(Updater& updater, at::Device device) {
  std::vector<NamedTensor> tensors = updater.state();
  forEachGenerator(device, [&](at::Device one, const at::Generator& generator) {
    tensors.push_back({randomName(one), generator.get_state()});
  });
  return tensors;
}

fs::path writeCheckpoint(const fs::path& folder, std::int64_t step, std::int64_t keep,
                         const std::vector<NamedTensor>& tensors, Metadata metadata) {
  makeFolder(folder);
  const fs::path path = folder / fmt::format("step-{:06}.safetensors", step);
  metadata.insert({{"format", "pt"}, {"step", std::to_string(step)}});
  writeSafetensors(path, tensors, metadata);
  auto all = checkpointsIn(folder);
  all.erase(all.upper_bound(step), all.end()); // of a run that went on from an earlier one
  while (std::int64_t(all.size()) > keep) {
    fs::remove(all.begin()->second);
    all.erase(all.begin());
  }
  return path;
}

fs::path latestCheckpoint(const fs::path& folder) {
  const auto all = checkpointsIn(folder);
  if (all.empty())
    fail(ErrorKind::missing, "{} holds no checkpoint (step-NNNNNN.safetensors)", folder.string());
  return all.rbegin()->second;
}

fs::path checkpointOf(const std::string& resume, const fs::path& folder) {
  if (resume == "auto" && checkpointsIn(folder).empty())
    return {};
  return resume.empty() || resume == "latest" || resume == "auto" ? latestCheckpoint(folder)
                                                                  : fs::path(resume);
}

fs::path startOf(const std::string& resume, const fs::path& folder) {
  if (!resume.empty())
    return checkpointOf(resume, folder);
  if (const auto all = checkpointsIn(folder); !all.empty())
    fail(ErrorKind::input,
         "{} holds checkpoints of a run, up to {}: go on with --resume=latest, or give another "
         "--out to begin anew",
         folder.string(), all.rbegin()->second.filename().string());
  return {};
}

} // namespace kiln::models
