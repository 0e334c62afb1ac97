// See Recheck.h.
#include "tools/kernel-compile/Recheck.h"

#include "tools/kernel-compile/Kernels.h"
#include "tools/kernel-compile/Words.h"

#include <fmt/format.h>

namespace kiln::tool {

using nlohmann::ordered_json;

void addDevice(CLI::App& verb, std::string& device) {
  const OneOf words({"gpu", "simulated"});
  auto check = [words](std::string& text) {
    return text.starts_with("simulated:") || text.starts_with("gpu:") ? "" : words(text);
  };
  verb.add_option("--device", device, "what runs it (gpu:N and simulated:FILE.json too)")
      ->type_name("NAME")
      ->check(OneOf([] { return std::vector<std::string>{"gpu", "simulated"}; }, check))
      ->capture_default_str();
}

std::pair<CLI::App*, std::shared_ptr<RecheckRequest>>
addRecheck(CLI::App& app, Outcome& outcome, const char* name, const char* what, const char* example,
           int (*work)(const RecheckRequest&)) {
  auto request = std::make_shared<RecheckRequest>();
  RecheckOptions& options = request->options;
  CLI::App* verb = app.add_subcommand(name, what);
  verb->add_option("STORE", request->store, "the store's file")->required();
  verb->add_option("KEY", options.keys, "first digits of names; none: all of the device at hand");
  addDevice(*verb, options.device);
  verb->add_flag("--record", options.record, "write what was found into the store");
  verb->add_flag("--json", request->json, "print JSON");
  verb->footer(std::string("Example:\n  kernel-compile ") + example);
  verb->callback([request, work, &outcome] {
    outcome.json = request->json;
    warnOfOthers(request->store);
    outcome.code = work(*request);
  });
  return {verb, request};
}

void addRounds(CLI::App& verb, RecheckRequest& request) {
  verb.add_option("--rounds", request.options.rounds, "in which kernels take turns")
      ->type_name("N")
      ->check(OneOf({"8", "16", "32", "64", "128"}))
      ->capture_default_str();
}

RecheckOptions optionsOf(const RecheckRequest& request, StatusLine& status) {
  RecheckOptions options = request.options;
  options.worker = {std::filesystem::read_symlink("/proc/self/exe").string(), "worker"};
  options.progress = [&status](std::size_t done, std::size_t total, const std::string& label) {
    status.show(done, total, label);
  };
  return options;
}

ordered_json toJson(const Rechecked& result) {
  ordered_json json = {{"key", result.key},
                       {"label", result.label},
                       {"source", result.source},
                       {"schedule", result.schedule}};
  if (!result.trouble.empty())
    json["trouble"] = result.trouble;
  return json;
}

ordered_json timesJson(const BenchResult& result) {
  ordered_json json = toJson(static_cast<const Rechecked&>(result));
  if (!result.trouble.empty())
    return json;
  json.update({{"chosen", figuresJson(result.chosen)},
               {"default", figuresJson(result.standard)},
               {"copy", figuresJson(result.copy)},
               {"roofline_microseconds", result.roofline}});
  if (result.vendor)
    json["vendor"] = figuresJson(*result.vendor);
  return json;
}

Table timesTable(const std::vector<std::string>& last) {
  Table table;
  table.column("key", Table::Align::left);
  table.column("label", Table::Align::left);
  for (const char* title : {"us", "95 %", "default us", "of default", "95 %", "copy us", "of copy",
                            "vendor us", "roofline"})
    table.column(title);
  for (const std::string& title : last)
    table.column(title, Table::Align::left);
  return table;
}

std::vector<std::string> timesCells(const BenchResult& result) {
  const cache::Time& chosen = result.chosen;
  return {shortName(result.key),
          result.label,
          fmt::format("{:.2f}", chosen.microseconds),
          fmt::format("{:.2f}..{:.2f}", chosen.low, chosen.high),
          fmt::format("{:.2f}", result.standard.microseconds),
          fmt::format("{:.3f}", chosen.ratio),
          fmt::format("{:.3f}..{:.3f}", chosen.ratioLow, chosen.ratioHigh),
          fmt::format("{:.2f}", result.copy.microseconds),
          fmt::format("{:.2f}", chosen.microseconds / result.copy.microseconds),
          result.vendor ? fmt::format("{:.2f}", result.vendor->microseconds) : "-",
          result.roofline > 0 ? fmt::format("{:.0f}%", 100 * result.roofline / chosen.microseconds)
                              : "-"};
}

} // namespace kiln::tool
