// See Samples.h.
#include "bench/fit_cost/Samples.h"

#include "autotune/Label.h"
#include "autotune/search/Points.h"
#include "autotune/store/Store.h"
#include "codegen/family/Buffers.h"
#include "kiln/files.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace kiln::bench {

using namespace autotune;
using Json = nlohmann::ordered_json;

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
std::vector<Sample> samplesOf(const TunedKey& key, const TimedKey& timed, bool& isComplete) {
  const std::vector<KernelSpace> spaces = spacesOf(key);
  Points points(spaces);
  std::vector<Sample> samples;
  isComplete = true;
  for (const auto& [schedules, microseconds] : timed.times) {
    const std::optional<std::size_t> point = points.find(schedules);
    isComplete &= point.has_value();
    if (!point)
      continue;
    Sample sample{
        schedules, {}, microseconds, schedules == timed.chosen, schedules == timed.standard};
    for (std::size_t k = 0; k < spaces.size(); ++k)
      sample.ofKernel.push_back(spaces[k].feasible[points[*point].at[k]].schedule);
    samples.push_back(std::move(sample));
  }
  return samples;
}

TunedKey tunedKey(const TimedKey& timed) {
  TunedKey key;
  key.label = timed.label;
  key.op = opOfLabel(timed.label);
  key.twin = timed.twin;
  key.target = &findTarget(timed.arch);
  CompileOptions options;
  options.arch = timed.arch;
  options.until = Stage::fused;
  const Program program = Program::compile(Module::parse(timed.module, timed.label), options);
  key.kernels = plannedFunction(program.text(Stage::fused), timed.sizes).kernels;
  bool isComplete = false;
  key.samples = samplesOf(key, timed, isComplete);
  if (!isComplete) {
    key.listing = model::Listing::all;
    key.samples = samplesOf(key, timed, isComplete);
  }
  return key;
}

void addStore(const std::filesystem::path& path, std::vector<TimedKey>& keys,
              std::vector<std::string>& skipped) {
  const std::unique_ptr<Store> store = Store::open(path, Store::Access::read);
  const std::map<std::string, std::string> generals = store->generals();
  for (const KnownKey& known : store->keys()) {
    const std::optional<Task> task = store->task(known.key);
    const History history = store->history(known.key);
    if (!task || !history.choice) {
      skipped.push_back(known.label + ": no choice of a schedule");
      continue;
    }
    const auto general = generals.find(known.digest);
    keys.push_back({known.label, general == generals.end() ? known.digest : general->second,
                    task->arch, task->module, task->sizes, history.choice->schedule,
                    history.searches.empty() ? "" : history.searches.back().standard,
                    timesOf(history)});
  }
}

void addSweep(const std::string& text, std::vector<TimedKey>& keys) {
  const Json sweep = Json::parse(text);
  for (const Json& line : sweep.at("keys"))
    keys.push_back({line.at("label"), line.at("twin"), line.at("arch"), line.at("module"),
                    line.at("sizes"), line.at("chosen"), line.at("standard"), line.at("times")});
}

} // namespace

std::vector<TimedKey> timedKeys(std::span<const std::filesystem::path> files,
                                std::vector<std::string>& skipped) {
  std::vector<TimedKey> keys;
  for (const std::filesystem::path& path : files)
    if (path.extension() != ".json")
      addStore(path, keys, skipped);
    else
      try {
        addSweep(readFile(path), keys);
      } catch (const nlohmann::json::exception& error) {
        throw Error(ErrorKind::input,
                    fmt::format("{} is no sweep: {}", path.string(), error.what()));
      }
  return keys;
}

void writeSweep(const std::filesystem::path& file, std::span<const TimedKey> keys) {
  std::string text = "{\"keys\": [";
  for (const TimedKey& key : keys) {
    Json times = Json::object();
    for (const auto& [schedule, microseconds] : key.times)
      times[schedule] = std::round(microseconds * 1e3) / 1e3;
    const Json line = {{"label", key.label},        {"twin", key.twin},
                       {"arch", key.arch},          {"sizes", key.sizes},
                       {"chosen", key.chosen},      {"standard", key.standard},
                       {"times", std::move(times)}, {"module", key.module}};
    text += fmt::format("{}\n{}", &key == keys.data() ? "" : ",", line.dump());
  }
  writeFile(file, text + "\n]}\n");
}

std::vector<TunedKey> tunedKeys(std::span<const std::filesystem::path> files,
                                std::vector<std::string>& skipped) {
  std::vector<TunedKey> keys;
  for (const TimedKey& timed : timedKeys(files, skipped))
    try {
      TunedKey key = tunedKey(timed);
      if (!key.samples.empty())
        keys.push_back(std::move(key));
      else
        skipped.push_back(timed.label + ": no time of a schedule that is in its space");
    } catch (const Error& error) {
      skipped.push_back(fmt::format("{}: {}", timed.label, error.what()));
    }
  std::ranges::stable_sort(keys, {}, &TunedKey::label);
  return keys;
}

} // namespace kiln::bench
