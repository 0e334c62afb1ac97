// kernel-compile regress: times a store's choices again. Exit code 6 if one became slower than its
// record, or if the default now beats it.
#include "tools/kernel-compile/Recheck.h"

#include <fmt/format.h>

namespace kiln::tool {

namespace {

nlohmann::ordered_json jsonOf(const RegressResult& result) {
  nlohmann::ordered_json json = timesJson(result);
  if (!result.trouble.empty())
    return json;
  json["regression"] = result.regression;
  if (result.recorded)
    json["recorded"] = {{"microseconds", result.recorded->microseconds},
                        {"low", result.recorded->low},
                        {"high", result.recorded->high},
                        {"device", result.recorded->device},
                        {"driver", result.recorded->driver}};
  return json;
}

int regressStore(const RecheckRequest& request) {
  constexpr int regression = 6;
  std::vector<RegressResult> results;
  {
    StatusLine status(!request.json);
    results = regress(request.store, optionsOf(request, status));
  }
  Table table = timesTable({"recorded us", "verdict"});
  int code = 0;
  for (const RegressResult& result : results) {
    if (!result.trouble.empty())
      continue;
    std::vector<std::string> cells = timesCells(result);
    cells.push_back(result.recorded ? fmt::format("{:.2f}", result.recorded->microseconds) : "-");
    cells.push_back(result.regression.empty() ? "holds" : "WORSE");
    table.row(std::move(cells));
    if (!result.regression.empty()) {
      complain(formatPrintable("{} {}: {}; 'kernel-compile tune --again' chooses anew",
                               shortName(result.key), result.label, result.regression));
      code = regression;
    }
  }
  return tell(request, results, jsonOf, table.empty() ? "" : table.text(), code);
}

} // namespace

void addRegress(CLI::App& app, Outcome& outcome) {
  auto [verb, request] =
      addRecheck(app, outcome, "regress", "time a store's choices again; exit code 6 if worse",
                 "regress tuned.db --tolerance=0.03", regressStore);
  addRounds(*verb, *request);
  verb->add_option("--tolerance", request->options.tolerance,
                   "share by which a time may exceed its record beyond the intervals")
      ->type_name("SHARE")
      ->check(CLI::Range(0.0, 10.0))
      ->capture_default_str();
}

} // namespace kiln::tool
