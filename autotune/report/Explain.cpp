// kiln::cache::explain: all that the layers know of one key, with what the cost model says now.
#include "autotune/report/Explain.h"

#include "autotune/General.h"
#include "autotune/Kernels.h"
#include "autotune/Public.h"
#include "autotune/Workers.h"
#include "autotune/report/Rejections.h"
#include "autotune/store/Names.h"
#include "codegen/backend/Fail.h"
#include "kiln/tuner.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <limits>

namespace kiln::cache {

using namespace autotune;

namespace {

std::string dateOf(std::int64_t microseconds) {
  std::time_t seconds = microseconds / 1'000'000;
  std::tm parts{};
  char text[32] = "";
  if (gmtime_r(&seconds, &parts))
    std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts);
  return text;
}

/// The last of a schedule.
const autotune::Measurement* lastOf(const History& history, std::string_view schedule) {
  const autotune::Measurement* found = nullptr;
  for (const auto& measurement : history.measurements)
    if (measurement.schedule == schedule)
      found = &measurement;
  return found;
}

std::optional<Time> optionalTimeOf(const autotune::Measurement* measurement) {
  return measurement ? std::optional(timeOf(*measurement)) : std::nullopt;
}

std::string whyNotVendor(const Explanation& e) {
  if (e.choice.source == "vendor")
    return "";
  if (!e.vendor)
    return "the vendor's kernel was not measured";
  const Time& vendor = *e.vendor;
  const std::string time = fmt::format("{} takes {:.2f} us ({:.2f}..{:.2f})", vendor.schedule,
                                       vendor.microseconds, vendor.low, vendor.high);
  if (e.choice.source == "pinned")
    return time + ", but the choice is pinned";
  if (!e.choice.time)
    return time + ", the choice was not measured";
  return time + (e.choice.time->high < vendor.low
                     ? ", more than the choice beyond the intervals"
                     : ", no more than the choice beyond the intervals; tuning again decides");
}

void addSearch(const History& history, Explanation& e) {
  if (history.searches.empty())
    return;
  const Search& search = history.searches.back();
  e.roofline = search.roofline;
  e.ended = search.reason;
  e.seconds = search.seconds;
  e.feasible = static_cast<std::int64_t>(search.feasible);
  e.tried = static_cast<std::int64_t>(search.tried);
  e.standard = optionalTimeOf(lastOf(history, search.standard));
  e.runnerUp = optionalTimeOf(lastOf(history, search.runnerUp));
  if (e.runnerUp) {
    e.runnerUp->ratio = search.ratio;
    e.runnerUp->ratioLow = search.ratioLow;
    e.runnerUp->ratioHigh = search.ratioHigh;
  }
}

void addHistory(const History& history, Explanation& e, RejectionsByRule& rejections) {
  addSearch(history, e);
  if (!history.copies.empty())
    e.copy = timeOf(history.copies.back());
  for (const auto& baseline : history.baselines)
    if (!e.vendor || baseline.median < e.vendor->microseconds)
      e.vendor = timeOf(baseline);
  for (const autotune::Rejection& rejection : history.rejections)
    rejections.add(rejection);
  for (const autotune::Failure& failure : history.failures)
    e.failures.push_back(fmt::format("{}: {} (driver {}) {}", nameIn(failureNames, failure.kind),
                                     failure.schedule, failure.driver, failure.log));
}

/// By today's model: what a search found was beside the roofline of its time.
void addRoofline(const Task& task, Explanation& e) {
  const model::RooflineOfAll roofline = rooflineOf(task);
  e.roofline = roofline.microseconds;
  e.rooflineLimit = roofline.limit;
}

/// What falls before anything is compiled, and what the chosen schedule should cost.
void addModel(const Task& task, Explanation& e, RejectionsByRule& rejections) {
  CompileOptions options;
  options.arch = task.arch;
  const RankOptions all{task.sizes, std::numeric_limits<int>::max()};
  std::vector<KernelPlan> plans;
  try {
    plans = plan(Module::parse(task.module, e.label), options, all);
    addRoofline(task, e);
  } catch (const Error&) {
    return; // a function of another version, which this one cannot plan
  }
  for (const KernelPlan& kernel : plans) {
    // A miss takes the model's best.
    auto taken = std::ranges::find_if(kernel.best, [&](const kiln::Candidate& candidate) {
      return e.layer.empty() || e.choice.schedule.find(candidate.schedule) != std::string::npos;
    });
    if (taken != kernel.best.end())
      e.model.emplace_back(kernel.name, *taken);
    for (const kiln::Rejection& rejection : kernel.rejections)
      rejections.add(rejection.reason, rejection.count, rejection.worst);
  }
}

void addChoice(const Found& found, const History& history, Explanation& e) {
  e.layer = found.layer;
  e.when = dateOf(found.choice.at);
  e.choice.source = nameIn(sourceNames, found.choice.source);
  e.choice.schedule = found.choice.schedule;
  e.choice.cubin = found.choice.cubin;
  e.choice.reason = found.choice.reason;
  e.choice.margin = found.choice.margin;
  e.choice.key = digest(found.key);
  e.choice.label = e.label;
  e.choice.arch = found.key.arch;
  e.choice.device = found.key.device;
  e.choice.tensors = found.key.tensors;
  e.choice.nvrtc = found.key.nvrtc;
  if (const auto* time = lastOf(history, found.choice.schedule)) {
    e.choice.time = timeOf(*time);
    e.place = time->place;
  }
}

/// A miss, unless near sizes help out.
void addTransfer(const Layers& layers, const Key& key, const Described* described, Explanation& e) {
  const std::vector<Found> near =
      described ? transferable(layers, *described) : std::vector<Found>();
  if (near.empty()) {
    e.miss = toText(layers.explainMiss(key));
    return;
  }
  const Found& found = near.front();
  addChoice(found, found.store->history(found.key), e);
  e.choice.reason = fmt::format("the nearest sizes that were tuned are {}, {} there: {}",
                                found.key.tensors, e.choice.source, e.choice.reason);
  e.choice.source = nameIn(sourceNames, Source::transferred);
  e.whyNotVendor = found.choice.source == Source::vendor ? "" : "as it was decided there";
}

} // namespace

Explanation explainKey(const Layers& layers, const Key& key, std::string label,
                       std::optional<Task> task, const Described* described) {
  Explanation e;
  RejectionsByRule rejections;
  e.label = std::move(label);
  std::vector<Found> found = layers.find(key, true);
  const Key& stored = found.empty() ? key : found.front().key;
  e.key = digest(stored);
  for (const auto& [name, value] : fields(stored))
    e.fields.emplace_back(name, value);
  std::shared_ptr<const Store> store;
  if (!found.empty()) {
    store = found.front().store;
    addChoice(found.front(), store->history(stored), e);
  }
  for (const auto& [name, layer] : layers.all())
    if (!store && !layer->history(key).searches.empty())
      store = layer; // it was searched, and nothing chosen
  if (store) {
    addHistory(store->history(stored), e, rejections);
    if (std::optional<Task> known = store->task(stored))
      task = std::move(known);
  }
  if (found.empty())
    addTransfer(layers, key, described, e);
  else
    e.whyNotVendor = whyNotVendor(e);
  if (task)
    addModel(*task, e, rejections);
  e.rejections = rejections.list();
  return e;
}

Explanation explain(const TunerLayers& files, std::string_view digits,
                    std::vector<std::string>* warnings) {
  std::vector<std::string> said;
  const Layers layers(files, Layers::Use::read, warnings ? *warnings : said);
  std::map<std::string, KnownKey> known;
  for (const auto& [name, store] : layers.all())
    for (KnownKey& key : store->keys(true))
      if (key.digest.starts_with(digits))
        known.emplace(key.digest, key);
  if (known.size() != 1)
    fail(ErrorKind::missing,
         "{} of the keys in {} layers start with '{}', one is needed; 'kernel-compile cache ls' "
         "lists those of a store, --store names one",
         known.size(), layers.all().size(), digits);
  const KnownKey& key = known.begin()->second;
  return explainKey(layers, key.key, key.label, std::nullopt, nullptr);
}

Explanation explain(const TunerLayers& files, const TuningTask& task, std::string_view device,
                    std::vector<std::string>* warnings) {
  std::vector<std::string> said;
  const Layers layers(files, Layers::Use::read, warnings ? *warnings : said);
  Described described = describe(task.module, task.options, task.sizes);
  if (isSimulated(device))
    described.key.device = "simulated";
  return explainKey(layers, described.key, task.label,
                    Task{described.text, described.key.arch, "", task.sizes, "", {}}, &described);
}

} // namespace kiln::cache
