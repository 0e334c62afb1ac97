// kernel-compile verify: compares a store's cubins with fp64 once more. Exit code 4 if one is
// wrong.
#include "tools/kernel-compile/Recheck.h"

#include <algorithm>
#include <fmt/format.h>

namespace kiln::tool {

namespace {

struct VerifyFlags {
  bool all = false;
};

nlohmann::ordered_json jsonOf(const VerifyResult& result) {
  nlohmann::ordered_json json = toJson(static_cast<const Rechecked&>(result));
  if (result.trouble.empty())
    json.update({{"passed", result.passed},
                 {"reference", result.reference},
                 {"worst_error", result.worstError},
                 {"problem", result.problem}});
  return json;
}

int verifyStore(const RecheckRequest& request) {
  std::vector<VerifyResult> results;
  {
    StatusLine status(!request.json);
    results = verifyChoices(request.store, optionsOf(request, status));
  }
  Table table;
  for (const char* title : {"key", "label", "verdict"})
    table.column(title, Table::Align::left);
  table.column("of allowed");
  table.column("compared with", Table::Align::left);
  int code = 0;
  for (const VerifyResult& result : results) {
    if (!result.trouble.empty())
      continue;
    table.row({shortName(result.key), result.label, result.passed ? "passes" : "WRONG",
               fmt::format("{:.3f}", result.worstError), result.reference});
    if (!result.passed) {
      complain(formatPrintable("{} {}: {}", shortName(result.key), result.label, result.problem));
      code = exitCode(ErrorKind::verification);
    }
  }
  return tell(request, results, jsonOf, table.empty() ? "" : table.text(), code);
}

} // namespace

void addVerify(CLI::App& app, Outcome& outcome) {
  auto [verb, request] = addRecheck(app, outcome, "verify", "compare a store's cubins with fp64",
                                    "verify tuned.db --all", verifyStore);
  auto flags = std::make_shared<VerifyFlags>();
  verb->add_flag("--all", flags->all, "every choice for the device at hand");
  verb->add_option("--seed", request->options.seed, "of the inputs")
      ->type_name("N")
      ->capture_default_str();
  verb->get_option("KEY")->description("first digits of names");
  verb->get_option("--record")
      ->description("write the verdicts into the store; a failing one withdraws a measured choice");
  verb->parse_complete_callback([flags, request = request] {
    if (flags->all == !request->options.keys.empty())
      throw CLI::ValidationError("verify", "give KEYs or --all, one of them");
  });
}

} // namespace kiln::tool
