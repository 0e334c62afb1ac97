// kernel-compile explain: why a key has the choice that it has. Exit code 5 for a miss.
#include "kiln/tune.h"
#include "kiln/tuner.h"
#include "tools/kernel-compile/Terminal.h"
#include "tools/kernel-compile/Times.h"
#include "tools/kernel-compile/Verbs.h"
#include "tools/kernel-compile/Words.h"

#include <algorithm>
#include <fmt/format.h>

namespace kiln::tool {

namespace {

using nlohmann::ordered_json;

struct ExplainRequest : Request {
  std::string store, device = "gpu";
};

/// What is given in the place of a file may be the name of a key.
bool isKey(const std::string& text) {
  std::error_code ignored;
  return !text.empty() && text.find_first_not_of("0123456789abcdef") == std::string::npos &&
         !std::filesystem::exists(text, ignored);
}

TunerLayers layersOf(const ExplainRequest& request) {
  TunerLayers layers = TunerLayers::standard();
  if (!request.store.empty()) {
    layers = {};
    layers.project = request.store;
    cache::list(request.store); // one that is asked for must be there and whole
  }
  return layers;
}

ordered_json jsonOf(const std::optional<cache::Time>& time) {
  return time ? toJson(*time) : ordered_json();
}

ordered_json jsonOf(const std::string& kernel, const Candidate& taken) {
  const Prediction& p = taken.prediction;
  return {{"kernel", kernel},
          {"schedule", taken.schedule},
          {"microseconds", p.microseconds},
          {"moving", p.moving},
          {"waiting", p.waiting},
          {"starting", p.starting},
          {"summing", p.summing},
          {"waves", p.waves},
          {"bytes_in_flight", p.bytesInFlight},
          {"bytes_read", p.bytesRead},
          {"bytes_written", p.bytesWritten},
          {"occupancy", p.occupancy},
          {"limited_by", p.limitedBy}};
}

ordered_json jsonOf(const cache::Explanation& e) {
  ordered_json json = {{"key", e.key}, {"label", e.label}, {"fields", ordered_json::object()}};
  for (const auto& [name, value] : e.fields)
    json["fields"][name] = value;
  if (e.layer.empty())
    json["miss"] = e.miss;
  else
    json["choice"] = {{"layer", e.layer},
                      {"source", e.choice.source},
                      {"schedule", e.choice.schedule},
                      {"cubin", e.choice.cubin},
                      {"reason", e.choice.reason},
                      {"margin", e.choice.margin},
                      {"when", e.when},
                      {"time", jsonOf(e.choice.time)},
                      {"why_not_vendor", e.whyNotVendor}};
  json.update({{"roofline_microseconds", e.roofline},
               {"roofline_limit", e.rooflineLimit},
               {"default", jsonOf(e.standard)},
               {"runner_up", jsonOf(e.runnerUp)},
               {"copy", jsonOf(e.copy)},
               {"vendor", jsonOf(e.vendor)},
               {"search",
                {{"ended", e.ended},
                 {"seconds", e.seconds},
                 {"feasible", e.feasible},
                 {"tried", e.tried},
                 {"place_by_model", e.place < 0 ? ordered_json() : ordered_json(e.place)}}},
               {"model", ordered_json::array()},
               {"rejections", ordered_json::array()},
               {"failures", e.failures}});
  for (const auto& [kernel, taken] : e.model)
    json["model"].push_back(jsonOf(kernel, taken));
  for (const Rejection& r : e.rejections)
    json["rejections"].push_back({{"reason", r.reason}, {"count", r.count}, {"worst", r.worst}});
  return json;
}

int explainJobs(const ExplainRequest& request) {
  std::vector<std::string> warnings, errors;
  std::vector<cache::Explanation> all;
  const TunerLayers layers = layersOf(request);
  if (isKey(request.file)) {
    all.push_back(cache::explain(layers, request.file, &warnings));
  } else {
    JobList list = jobsOf(request);
    errors = list.errors;
    for (const Job& job : list.jobs)
      all.push_back(cache::explain(layers, {job.module(), job.options, job.sizes, job.label},
                                   request.device, &warnings));
  }
  std::ranges::sort(warnings);
  warnings.erase(std::unique(warnings.begin(), warnings.end()), warnings.end());
  for (const std::string& warning : warnings)
    warn(warning);
  ordered_json json = {{"version", version()}, {"keys", ordered_json::array()}, {"errors", errors}};
  std::string text;
  for (const cache::Explanation& explanation : all) {
    json["keys"].push_back(jsonOf(explanation));
    text += (text.empty() ? "" : "\n") + toText(explanation);
  }
  request.json ? printJson(json) : print(text);
  for (const std::string& error : errors)
    complain(error);
  const bool misses = std::ranges::any_of(all, [](const auto& e) { return e.layer.empty(); });
  return !errors.empty() ? 1 : misses ? exitCode(ErrorKind::missing) : 0;
}

} // namespace

void addExplain(CLI::App& app, Outcome& outcome) {
  auto request = std::make_shared<ExplainRequest>();
  CLI::App* verb = app.add_subcommand("explain", "why a key has its choice, or has none");
  addSourceOptions(*verb, *request, true);
  verb->get_option("FILE")->description(
      "first digits of a key, as 'cache ls' shows it; or an .mlir file");
  addSizes(*verb, *request);
  verb->add_option("--store", request->store,
                   "ask this file alone; else the layers that a program asks")
      ->type_name("FILE");
  verb->add_option("--device", request->device, "where it was tuned")
      ->type_name("NAME")
      ->check(OneOf({"gpu", "simulated"}))
      ->capture_default_str();
  verb->footer("Example:\n"
               "  kernel-compile explain 3f2a91 --store=tuned.db\n"
               "  kernel-compile explain --op=softmax --shape=8192x10000 --dtype=bf16");
  verb->callback([request, &outcome] {
    outcome.json = request->json;
    outcome.code = explainJobs(*request);
  });
}

} // namespace kiln::tool
