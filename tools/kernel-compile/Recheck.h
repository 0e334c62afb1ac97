// What bench, verify and regress share: a store, keys of it, a device, and how choices that could
// not be run are told.
#pragma once

#include "codegen/backend/FormatPrintable.h"
#include "kiln/tune.h"
#include "tools/kernel-compile/Progress.h"
#include "tools/kernel-compile/Table.h"
#include "tools/kernel-compile/Terminal.h"
#include "tools/kernel-compile/Times.h"
#include "tools/kernel-compile/Verbs.h"

namespace kiln::tool {

struct RecheckRequest {
  std::string store;
  bool json = false;
  RecheckOptions options;
};

/// Adds the verb with all that the three have in common; `example` is its command line.
std::pair<CLI::App*, std::shared_ptr<RecheckRequest>>
addRecheck(CLI::App& app, Outcome& outcome, const char* name, const char* what, const char* example,
           int (*work)(const RecheckRequest&));

/// Adds --rounds to a verb that times.
void addRounds(CLI::App& verb, RecheckRequest& request);

/// Adds --device to a verb that runs kernels in workers.
void addDevice(CLI::App& verb, std::string& device);

/// The options with a worker and a progress line, while `status` lives.
RecheckOptions optionsOf(const RecheckRequest& request, StatusLine& status);

nlohmann::ordered_json toJson(const Rechecked& result);
nlohmann::ordered_json timesJson(const BenchResult& result);

/// Times as bench and regress show them; `last`: titles of further columns.
Table timesTable(const std::vector<std::string>& last);
std::vector<std::string> timesCells(const BenchResult& result);

/// Prints the document or the text, and complains about every choice that was not run; 1 if there
/// is one, else `code`.
template <class Result>
int tell(const RecheckRequest& request, const std::vector<Result>& results,
         nlohmann::ordered_json (*jsonOf)(const Result&), const std::string& text, int code) {
  nlohmann::ordered_json json = {{"version", version()},
                                 {"store", request.store},
                                 {"device", request.options.device},
                                 {"choices", nlohmann::ordered_json::array()}};
  for (const Result& result : results)
    json["choices"].push_back(jsonOf(result));
  request.json ? printJson(json) : print(text);
  for (const Result& result : results)
    if (!result.trouble.empty()) {
      complain(formatPrintable("{} {}: {}", shortName(result.key), result.label, result.trouble));
      code = code == 0 ? 1 : code;
    }
  return code;
}

} // namespace kiln::tool
