// kernel-compile doctor: what of the surroundings is there, and what each absence costs.
#include "kiln/doctor.h"

#include "tools/kernel-compile/Findings.h"
#include "tools/kernel-compile/Terminal.h"
#include "tools/kernel-compile/Verbs.h"

namespace kiln::tool {

namespace {

struct DoctorRequest {
  std::string nvrtc;
  bool json = false;
};

/// A missing GPU is no fault; something that is there and does not work is.
int doctorReport(const DoctorRequest& request) {
  auto findings = kiln::doctor(request.nvrtc);
  nlohmann::ordered_json json = {{"version", version()}, {"findings", toJson(findings)}};
  request.json ? printJson(json) : print(tool::textOf(findings));
  return hasBroken(findings) ? 1 : 0;
}

} // namespace

void addDoctor(CLI::App& app, Outcome& outcome) {
  auto request = std::make_shared<DoctorRequest>();
  CLI::App* verb = app.add_subcommand("doctor", "what is there, and what each absence costs");
  verb->add_option("--nvrtc", request->nvrtc, "the NVRTC library to use")->type_name("FILE");
  verb->add_flag("--json", request->json, "print JSON");
  verb->footer("Example:\n  kernel-compile doctor --json");
  verb->callback([request, &outcome] {
    outcome.json = request->json;
    outcome.code = doctorReport(*request);
  });
}

} // namespace kiln::tool
