// kernel-compile inspect: resources, occupancy, bytes, predicted time and share of the roofline;
// the machine code where a disassembler is there. A .cubin file is read as it is.
#include "kiln/files.h"
#include "kiln/plan.h"
#include "tools/kernel-compile/Kernels.h"
#include "tools/kernel-compile/Verbs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kiln::tool {

namespace {

struct InspectRequest : Request {
  bool sass = false;
};

nlohmann::ordered_json costJson(const Prediction& p) {
  return {{"bytes_read", p.bytesRead},
          {"bytes_written", p.bytesWritten},
          {"predicted_microseconds", p.microseconds},
          {"roofline_microseconds", p.rooflineMicroseconds},
          {"roofline_limit", p.rooflineLimit},
          {"occupancy", p.occupancy},
          {"limited_by", p.limitedBy}};
}

std::string textOf(const std::vector<KernelInfo>& kernels) {
  Table usage = usageTable({}, {});
  for (const KernelInfo& kernel : kernels)
    usage.row(usageCells(kernel));
  return usage.text();
}

/// Inputs that are read before what precedes the program on its stream has ended.
std::vector<std::string> olderInputs(const Program& program) {
  std::vector<std::string> names;
  for (const TensorInfo& input : program.inputs())
    if (input.older)
      names.push_back(input.name);
  return names;
}

std::string textOf(const Program& program, const std::vector<Prediction>& predictions) {
  Table cost;
  cost.column("kernel", Table::Align::left);
  for (const char* title :
       {"occupancy", "bytes read", "bytes written", "predicted us", "% of roofline"})
    cost.column(title);
  cost.column("roofline by", Table::Align::left);
  cost.column("limited by", Table::Align::left);
  for (std::size_t i = 0; i < predictions.size() && i < program.kernels().size(); ++i) {
    const Prediction& p = predictions[i];
    double part = p.microseconds > 0 ? p.rooflineMicroseconds / p.microseconds : 0;
    cost.row({program.kernels()[i].name, fmt::format("{:.0f}%", p.occupancy * 100),
              grouped(p.bytesRead), grouped(p.bytesWritten), fmt::format("{:.1f}", p.microseconds),
              fmt::format("{:.0f}%", part * 100), p.rooflineLimit, p.limitedBy});
  }
  std::string text = textOf(program.kernels()) + "\n" + cost.text();
  if (auto older = olderInputs(program); !older.empty())
    text += fmt::format("\nRead before the predecessor in the stream has ended: {}. They must be "
                        "complete before it begins,\nor the program be launched without overlap.\n",
                        fmt::join(older, ", "));
  return text;
}

int inspectCubin(const InspectRequest& request) {
  std::string bytes = readFile(request.file);
  auto kernels = kernelsOfCubin(std::as_bytes(std::span(bytes.data(), bytes.size())), request.file);
  nlohmann::ordered_json json = {{"version", version()},
                                 {"kernels", nlohmann::ordered_json::array()}};
  for (const KernelInfo& kernel : kernels)
    json["kernels"].push_back(toJson(kernel));
  request.json ? printJson(json) : print(textOf(kernels));
  return 0;
}

int inspect(const InspectRequest& request) {
  if (request.file.ends_with(".cubin"))
    return inspectCubin(request);
  JobList list = jobsOf(request);
  const Job& job = list.jobs.front();
  Program program = job.program();
  auto predictions = predict(program, {.sizes = job.sizes});
  std::string sass = request.sass ? disassemble(program) : "";
  if (!request.json) {
    print(textOf(program, predictions) + (sass.empty() ? "" : "\n" + sass));
    return 0;
  }
  nlohmann::ordered_json json = {{"version", version()},
                                 {"arch", program.arch()},
                                 {"label", job.label},
                                 {"older_inputs", olderInputs(program)},
                                 {"kernels", nlohmann::ordered_json::array()}};
  for (std::size_t i = 0; i < program.kernels().size(); ++i) {
    auto kernel = toJson(program.kernels()[i]);
    if (i < predictions.size())
      kernel.update(costJson(predictions[i]));
    json["kernels"].push_back(std::move(kernel));
  }
  if (request.sass)
    json["sass"] = sass;
  printJson(json);
  return 0;
}

} // namespace

void addInspect(CLI::App& app, Outcome& outcome) {
  auto request = std::make_shared<InspectRequest>();
  CLI::App* verb = app.add_subcommand("inspect", "resources, occupancy, predicted time, SASS");
  addSourceOptions(*verb, *request, false);
  addSizes(*verb, *request);
  verb->add_flag("--sass", request->sass, "print the machine code; needs the toolkit's cuobjdump");
  verb->footer("Example:\n"
               "  kernel-compile inspect gate.mlir --sizes=65536\n"
               "  kernel-compile inspect layer_norm.cubin");
  verb->callback([request, &outcome] {
    outcome.json = request->json;
    outcome.code = inspect(*request);
  });
}

} // namespace kiln::tool
