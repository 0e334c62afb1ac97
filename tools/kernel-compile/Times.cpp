// See Times.h.
#include "tools/kernel-compile/Times.h"

#include "tools/kernel-compile/Terminal.h"
#include "tools/kernel-compile/Words.h"

namespace kiln::tool {

using nlohmann::ordered_json;

std::string shortName(const std::string& digits) {
  return digits.substr(0, 12);
}

void addFilter(CLI::App& verb, cache::Filter& filter) {
  verb.add_option("--arch", filter.archs, "only these architectures, commas between them")
      ->type_name("NAMES")
      ->transform(oneOfArchs())
      ->delimiter(',')
      ->allow_extra_args(false);
  verb.add_option("--ops", filter.ops, "only these first words of labels, commas between them")
      ->type_name("NAMES")
      ->delimiter(',')
      ->allow_extra_args(false);
}

void warnOfOthers(const std::string& store) {
  if (const std::string others = cache::whoElseMayWrite(store); !others.empty())
    warn(others);
}

ordered_json figuresJson(const cache::Time& time) {
  return {{"schedule", time.schedule},
          {"microseconds", time.microseconds},
          {"low", time.low},
          {"high", time.high},
          {"ratio", time.ratio},
          {"ratio_low", time.ratioLow},
          {"ratio_high", time.ratioHigh}};
}

ordered_json toJson(const cache::Time& time) {
  ordered_json json = figuresJson(time);
  json.update({{"device", time.device}, {"driver", time.driver}, {"host", time.host}});
  return json;
}

} // namespace kiln::tool
