// See Samples.h.
#include "bench/fit_cost/Samples.h"

#include "autotune/Label.h"
#include "autotune/search/Points.h"
#include "autotune/store/Store.h"
#include "codegen/family/Buffers.h"

#include <algorithm>
#include <fmt/format.h>

namespace kiln::bench {

using namespace autotune;

namespace {

std::vector<KernelSpace> spacesOf(const TunedKey& key) {
  std::vector<KernelSpace> spaces;
  for (const NamedKernel& kernel : key.kernels)
    spaces.push_back({family::entryName(kernel.name),
                      kernel.model,
                      kernel.model->space(*key.target, key.listing).feasible,
                      0,
                      {}});
  return spaces;
}

/// The last time of each schedule.
std::map<std::string, double> timesOf(const History& history) {
  std::map<std::string, double> times;
  for (const Measurement& measurement : history.measurements) // in the order in which they came
    if (!measurement.conditions.throttled)
      times[measurement.schedule] = measurement.median;
  return times;
}

/// `isComplete`: whether all that was timed is in the spaces as they are listed.
std::vector<Sample> samplesOf(const TunedKey& key, const History& history, bool& isComplete) {
  const std::vector<KernelSpace> spaces = spacesOf(key);
  Points points(spaces);
  const std::string standard = history.searches.empty() ? "" : history.searches.back().standard;
  std::vector<Sample> samples;
  isComplete = true;
  for (const auto& [schedules, microseconds] : timesOf(history)) {
    const std::optional<std::size_t> point = points.find(schedules);
    isComplete &= point.has_value();
    if (!point)
      continue;
    Sample sample{
        schedules, {}, microseconds, schedules == history.choice->schedule, schedules == standard};
    for (std::size_t k = 0; k < spaces.size(); ++k)
      sample.ofKernel.push_back(spaces[k].feasible[points[*point].at[k]].schedule);
    samples.push_back(std::move(sample));
  }
  return samples;
}

std::optional<TunedKey> tunedKey(const Store& store, const KnownKey& known) {
  const std::optional<Task> task = store.task(known.key);
  const History history = store.history(known.key);
  if (!task || !history.choice)
    return std::nullopt;
  TunedKey key;
  key.label = known.label;
  key.op = opOfLabel(known.label);
  key.twin = known.digest;
  key.target = &findTarget(task->arch);
  CompileOptions options;
  options.arch = task->arch;
  options.until = Stage::fused;
  const Program program = Program::compile(Module::parse(task->module, known.label), options);
  key.kernels = plannedFunction(program.text(Stage::fused), task->sizes).kernels;
  bool isComplete = false;
  key.samples = samplesOf(key, history, isComplete);
  if (!isComplete) {
    key.listing = model::Listing::all;
    key.samples = samplesOf(key, history, isComplete);
  }
  return key;
}

} // namespace

std::vector<TunedKey> tunedKeys(std::span<const std::filesystem::path> stores,
                                std::vector<std::string>& skipped) {
  std::vector<TunedKey> keys;
  for (const std::filesystem::path& path : stores) {
    const std::unique_ptr<Store> store = Store::open(path, Store::Access::read);
    const std::map<std::string, std::string> generals = store->generals();
    for (const KnownKey& known : store->keys())
      try {
        std::optional<TunedKey> key = tunedKey(*store, known);
        if (!key || key->samples.empty()) {
          skipped.push_back(known.label + ": no time of a schedule that is in its space");
          continue;
        }
        if (auto general = generals.find(known.digest); general != generals.end())
          key->twin = general->second;
        keys.push_back(std::move(*key));
      } catch (const Error& error) {
        skipped.push_back(fmt::format("{}: {}", known.label, error.what()));
      }
  }
  std::ranges::stable_sort(keys, {}, &TunedKey::label);
  return keys;
}

} // namespace kiln::bench
