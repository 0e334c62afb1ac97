// See Carried.h.
#include "autotune/Carried.h"

namespace kiln::autotune {

std::map<std::string, std::string> schedulesToCarry(const History& history) {
  std::map<std::string, std::string> cubins;
  auto add = [&](const std::string& schedule) {
    for (const Measurement& measurement : history.measurements)
      if (measurement.schedule == schedule && !measurement.cubin.empty())
        cubins[schedule] = measurement.cubin;
  };
  for (const Search& search : history.searches)
    for (const std::string& schedule : {search.standard, search.runnerUp})
      add(schedule);
  if (!history.choice->cubin.empty())
    cubins[history.choice->schedule] = history.choice->cubin;
  return cubins;
}

Key measuredAs(Key key, const Key& known) {
  key.device = known.device;
  key.regime = known.regime;
  return key;
}

} // namespace kiln::autotune
