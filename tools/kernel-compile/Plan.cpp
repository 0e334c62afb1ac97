// kernel-compile plan: which schedules fit, why the others do not, and which should be fastest.
#include "kiln/plan.h"

#include "tools/kernel-compile/Table.h"
#include "tools/kernel-compile/Terminal.h"
#include "tools/kernel-compile/Verbs.h"

#include <algorithm>
#include <fmt/format.h>

namespace kiln::tool {

namespace {

struct PlanRequest : Request {
  int keep = 5;
};

std::string bar(std::int64_t count, std::int64_t most) {
  constexpr std::int64_t width = 24;
  return std::string(most > 0 ? std::max<std::int64_t>(1, count * width / most) : 0, '#');
}

std::string textOf(const KernelPlan& plan) {
  std::string out =
      fmt::format("{}  {} family, {} of {} schedules feasible\n", styled(Style::bold, plan.name),
                  plan.family, grouped(plan.feasible), grouped(plan.considered));
  if (!plan.best.empty()) // it is the same for all schedules
    out += fmt::format("  roofline by {}\n", plan.best.front().prediction.rooflineLimit);
  Table fell;
  fell.column("  fell for", Table::Align::left);
  fell.column("schedules");
  fell.column("", Table::Align::left);
  fell.column("worst", Table::Align::left);
  std::int64_t most = 0;
  for (const Rejection& rejection : plan.rejections)
    most = std::max(most, rejection.count);
  for (const Rejection& rejection : plan.rejections)
    fell.row({"  " + rejection.reason, grouped(rejection.count), bar(rejection.count, most),
              rejection.worst});
  if (!fell.empty())
    out += fell.text();

  Table best;
  best.column("  predicted us");
  best.column("% of roofline");
  best.column("occupancy");
  best.column("schedule", Table::Align::left);
  for (const Candidate& candidate : plan.best) {
    const Prediction& p = candidate.prediction;
    double part = p.microseconds > 0 ? p.rooflineMicroseconds / p.microseconds : 0;
    best.row({fmt::format("{:.1f}", p.microseconds), fmt::format("{:.0f}%", part * 100),
              fmt::format("{:.0f}%", p.occupancy * 100), candidate.schedule});
  }
  if (!best.empty())
    out += best.text();
  return out;
}

nlohmann::ordered_json jsonOf(const KernelPlan& plan) {
  nlohmann::ordered_json json = {{"name", plan.name},
                                 {"family", plan.family},
                                 {"considered", plan.considered},
                                 {"feasible", plan.feasible},
                                 {"rejections", nlohmann::ordered_json::array()},
                                 {"best", nlohmann::ordered_json::array()}};
  for (const Rejection& rejection : plan.rejections)
    json["rejections"].push_back(
        {{"reason", rejection.reason}, {"count", rejection.count}, {"worst", rejection.worst}});
  for (const Candidate& candidate : plan.best)
    json["best"].push_back({{"schedule", candidate.schedule},
                            {"microseconds", candidate.prediction.microseconds},
                            {"roofline_microseconds", candidate.prediction.rooflineMicroseconds},
                            {"roofline_limit", candidate.prediction.rooflineLimit},
                            {"occupancy", candidate.prediction.occupancy},
                            {"bytes_read", candidate.prediction.bytesRead},
                            {"bytes_written", candidate.prediction.bytesWritten}});
  return json;
}

int planJobs(const PlanRequest& request) {
  JobList list = jobsOf(request);
  std::vector<std::vector<KernelPlan>> plans(list.jobs.size());
  auto failures = runJobs(list.jobs, request.jobs, request.json, [&](std::size_t i) {
    const Job& job = list.jobs[i];
    if (job.from)
      throw Error(ErrorKind::input, "plan starts from a module; leave out --from");
    plans[i] = plan(job.module(), job.options, {job.sizes, request.keep});
    for (const KernelPlan& kernel : plans[i])
      if (kernel.feasible == 0)
        throw Error(ErrorKind::infeasible,
                    fmt::format("no schedule of '{}' fits {}: {}", kernel.name, request.arch,
                                kernel.rejections.empty() ? "none was considered"
                                                          : kernel.rejections[0].worst));
  });

  nlohmann::ordered_json jobs = nlohmann::ordered_json::array();
  std::string text;
  for (std::size_t i = 0; i < list.jobs.size(); ++i) {
    nlohmann::ordered_json job = {{"label", list.jobs[i].label},
                                  {"kernels", nlohmann::ordered_json::array()}};
    if (list.jobs.size() > 1)
      text += list.jobs[i].label + "\n";
    for (const KernelPlan& kernel : plans[i]) {
      job["kernels"].push_back(jsonOf(kernel));
      text += textOf(kernel);
    }
    if (failures[i])
      job["error"] = toJson(*failures[i]);
    jobs.push_back(std::move(job));
  }
  nlohmann::ordered_json json = {
      {"version", version()}, {"arch", request.arch}, {"jobs", jobs}, {"errors", list.errors}};
  request.json ? printJson(json) : print(text);
  return report(list.jobs, failures, list.errors);
}

} // namespace

void addPlan(CLI::App& app, Outcome& outcome) {
  auto request = std::make_shared<PlanRequest>();
  CLI::App* verb =
      app.add_subcommand("plan", "which schedules fit, why others fell; no GPU needed");
  addSourceOptions(*verb, *request, true);
  addSizes(*verb, *request);
  verb->add_option("--keep", request->keep, "how many of the best to show, 1 to 1000")
      ->type_name("N")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  verb->footer("Example:\n"
               "  kernel-compile plan --op=softmax --shape=8192x10000 --dtype=bf16 --arch=sm_86\n"
               "  kernel-compile plan --op=attention --shape=8x16x4096x64 --set causal=last");
  verb->callback([request, &outcome] {
    outcome.json = request->json;
    outcome.code = planJobs(*request);
  });
}

} // namespace kiln::tool
