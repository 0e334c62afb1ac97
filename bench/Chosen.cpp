// See Chosen.h.
#include "bench/Chosen.h"

namespace kiln::bench {

Tuner openStore(const std::string& file) {
  TunerOptions options;
  options.layers = {.pinned = {}, .project = file, .user = {}, .system = {}};
  return Tuner::open(options);
}

std::string chosenSchedule(const Tuner& tuner, const Entry& entry, const CompileOptions& given) {
  TuningTask task{moduleOf(entry), entry.workload.options(given), {}, entry.label()};
  if (entry.workload.isFile)
    task.sizes = entry.sizes();
  const Tuned* tuned = tuner.find(task);
  if (!tuned || tuned->isVendor())
    throw Error(ErrorKind::missing, "the store has no choice:\n" + tuner.explain(task));
  return tuned->schedule();
}

} // namespace kiln::bench
