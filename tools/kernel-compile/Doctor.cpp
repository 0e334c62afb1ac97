// kernel-compile doctor: what of the surroundings is there, and what each absence costs.
#include "kiln/doctor.h"

#include "tools/kernel-compile/Terminal.h"
#include "tools/kernel-compile/Verbs.h"

#include <algorithm>
#include <fmt/format.h>

namespace kiln::tool {

namespace {

struct DoctorRequest {
  std::string nvrtc;
  bool json = false;
};

const char* word(Finding::State state) {
  switch (state) {
  case Finding::State::found:
    return "found";
  case Finding::State::missing:
    return "missing";
  case Finding::State::broken:
    return "broken";
  }
  return "";
}

Style styleOf(Finding::State state) {
  return state == Finding::State::found     ? Style::good
         : state == Finding::State::missing ? Style::warn
                                            : Style::bad;
}

std::string textOf(const std::vector<Finding>& findings) {
  std::size_t width = 0;
  for (const Finding& finding : findings)
    width = std::max(width, finding.name.size());
  std::string out;
  for (const Finding& finding : findings) {
    out += fmt::format("{:<{}}  {}  {}\n", finding.name, width,
                       styled(styleOf(finding.state), fmt::format("{:<7}", word(finding.state))),
                       finding.detail);
    if (!finding.cost.empty())
      out += fmt::format("{:<{}}           {}\n", "", width, styled(Style::dim, finding.cost));
  }
  return out;
}

/// A missing GPU is no fault; something that is there and does not work is.
int doctorReport(const DoctorRequest& request) {
  auto findings = doctor(request.nvrtc);
  nlohmann::ordered_json json = {{"version", version()},
                                 {"findings", nlohmann::ordered_json::array()}};
  bool broken = false;
  for (const Finding& finding : findings) {
    broken |= finding.state == Finding::State::broken;
    json["findings"].push_back({{"name", finding.name},
                                {"state", word(finding.state)},
                                {"detail", finding.detail},
                                {"cost", finding.cost}});
  }
  print(request.json ? json.dump(2) + "\n" : textOf(findings));
  return broken ? 1 : 0;
}

} // namespace

void addDoctor(CLI::App& app, Outcome& outcome) {
  auto request = std::make_shared<DoctorRequest>();
  CLI::App* verb = app.add_subcommand("doctor", "what is there, and what each absence costs");
  verb->add_option("--nvrtc", request->nvrtc, "the NVRTC library to use");
  verb->add_flag("--json", request->json, "print JSON");
  verb->footer("Example:\n  kernel-compile doctor --json");
  verb->callback([request, &outcome] {
    outcome.json = request->json;
    outcome.code = doctorReport(*request);
  });
}

} // namespace kiln::tool
