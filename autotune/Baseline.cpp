// kiln::cache::recordBaseline: times that others took become rows of a key.
#include "autotune/Key.h"
#include "autotune/Public.h"
#include "autotune/Workers.h"
#include "autotune/measure/Nvml.h"
#include "autotune/search/Statistics.h"
#include "autotune/store/Store.h"
#include "codegen/backend/Driver.h"
#include "codegen/backend/Fail.h"
#include "kiln/cache.h"

namespace kiln::cache {

using namespace autotune;

Time recordBaseline(const std::filesystem::path& path, const TuningTask& task,
                    const Baseline& baseline, std::string_view device) {
  if (baseline.provider.empty() || baseline.microseconds.size() < kLooks[0])
    fail(ErrorKind::input, "a baseline needs a provider and at least {} samples; '{}' has {}",
         kLooks[0], baseline.provider, baseline.microseconds.size());
  Described described = describe(task.module, task.options, task.sizes);
  if (hasOpenSizes(described.key))
    fail(ErrorKind::input, "'{}' has sizes that are known at run time only; give them values",
         task.label);
  autotune::Measurement measurement;
  measurement.schedule = baseline.provider;
  setTimes(measurement, baseline.microseconds, baseline.microseconds);
  if (isSimulated(device)) {
    described.key.device = "simulated"; // never a real one's
    measurement.conditions = {
        .uuid = "simulated", .driver = simulationFor(device).driver, .host = "simulated"};
  } else {
    measurement.conditions = conditionsOf(Driver::get().currentDevice());
  }
  if (measurement.conditions.throttled)
    fail(ErrorKind::device, "the device throttles ({} MHz, {} C): the times of '{}' are void",
         measurement.conditions.smClockMHz, measurement.conditions.temperatureC, task.label);
  auto store = Store::open(path, Store::Access::write);
  store->describe(described.key, task.label, described.text);
  store->baseline(described.key, measurement);
  return timeOf(measurement);
}

} // namespace kiln::cache
