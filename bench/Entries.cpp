// See Entries.h.
#include "bench/Entries.h"

#include "codegen/backend/Driver.h"
#include "kiln/files.h"

#include <algorithm>
#include <chrono>
#include <ctime>

#include <fmt/chrono.h>
#include <fmt/format.h>

namespace kiln::bench {

std::string commandText(std::span<char*> given) {
  std::string text;
  for (const char* word : given)
    text += (text.empty() ? "" : " ") + std::string(word);
  return text;
}

std::optional<std::string> takeOption(std::vector<char*>& words, std::string_view option) {
  std::optional<std::string> value;
  std::erase_if(words, [&](std::string_view word) {
    if (!word.starts_with(option))
      return false;
    value = word.substr(option.size());
    return true;
  });
  return value;
}

Arguments parseArguments(std::span<char*> given, std::string command, std::string workload) {
  Arguments arguments;
  arguments.workload = std::move(workload);
  arguments.command = std::move(command);
  for (std::string_view word : given.subspan(1)) {
    auto value = [&](std::string_view option) {
      return word.starts_with(option) ? std::string(word.substr(option.size())) : std::string();
    };
    if (auto named = value("--workload="); !named.empty())
      arguments.workload = named;
    else if (auto json = value("--json="); !json.empty())
      arguments.json = json;
    else if (auto arch = value("--arch="); !arch.empty())
      arguments.compile.arch = arch;
    else if (auto nvrtc = value("--nvrtc="); !nvrtc.empty())
      arguments.compile.nvrtc = nvrtc;
    else
      throw Error(ErrorKind::input,
                  fmt::format("argument '{}'; known are --workload=FILE, --json=FILE, "
                              "--arch=ARCH and --nvrtc=FILE",
                              word));
  }
  return arguments;
}

std::string Entry::shape() const {
  return shapeText(workload.shape);
}

std::string Entry::what() const {
  if (!workload.isFile)
    return workload.what;
  return workload.function.empty() ? std::filesystem::path(workload.what).stem().string()
                                   : workload.function;
}

std::string Entry::label() const {
  std::string settings;
  for (const auto& [name, value] : workload.settings)
    settings += fmt::format(",{}={}", name, value);
  return fmt::format("{}/{}/{}/{}{}{}", what(), shape(), workload.isFile ? "-" : dtype(),
                     direction(), workload.readAhead ? "" : ",no_read_ahead", settings);
}

std::vector<std::int64_t> Entry::sizes() const {
  return workload.isFile ? workload.shape : Module::opened(workload.op()).sizes;
}

Json Entry::key() const {
  Json key = {{"what", what()},
              {"shape", shape()},
              {"dtype", workload.isFile ? "-" : dtype()},
              {"direction", direction()}};
  for (const auto& [name, value] : workload.settings)
    key["settings"][name] = value;
  return key;
}

std::vector<Entry> readEntries(const std::string& path) {
  Workload workload = parseWorkload(readFile(path), path);
  if (!workload.errors.empty())
    throw Error(ErrorKind::input, workload.errors.front());
  std::vector<Entry> entries;
  for (const WorkloadEntry& line : workload.entries) {
    Entry entry{line, line.share};
    auto same = std::ranges::find(entries, entry.label(), &Entry::label);
    if (same != entries.end())
      same->share += line.share;
    else
      entries.push_back(std::move(entry));
  }
  return entries;
}

Module moduleOf(const Entry& entry) {
  const WorkloadEntry& workload = entry.workload;
  if (workload.isFile)
    return Module::parse(readFile(workload.what), workload.what);
  return Module::fromOp(workload.op());
}

Program compileEntry(const Entry& entry, const CompileOptions& given) {
  const WorkloadEntry& workload = entry.workload;
  CompileOptions options = workload.options(given);
  if (workload.isFile)
    return Program::compile(moduleOf(entry), options);
  // The schedule that these very sizes get; then a kernel for any number of rows. Several kernels
  // have one each, as any number of rows gets them.
  if (options.schedule.empty()) {
    const Program exact = Program::compile(moduleOf(entry), options);
    const auto hasSchedule = [](const auto& kernel) { return !kernel.schedule.empty(); };
    if (std::ranges::count_if(exact.kernels(), hasSchedule) == 1)
      options.schedule = exact.kernels()[0].schedule;
  }
  return Program::compile(Module::fromOp(Module::opened(workload.op()).spec), options);
}

std::string whatIsWrong(const Verification& verification) {
  if (verification.passed)
    return "";
  std::string wrong = verification.problems.empty() ? "wrong" : verification.problems.front();
  for (const OutputCheck& output : verification.outputs)
    if (!output.passed)
      wrong = fmt::format("output '{}' is {:.9g}, fp64 says {:.9g}", output.name, output.result,
                          output.reference);
  return wrong;
}

Json reportHeader(const Arguments& arguments, const std::string& source) {
  std::string device = "none";
  if (whyNoGpu().empty())
    device = Driver::get().currentDevice().name;
  std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  return {{"source", source},
          {"version", fmt::format("kiln {}", version())},
          {"device", device},
          {"date", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(now))},
          {"command", arguments.command},
          {"workload", arguments.workload}};
}

void writeReport(const Arguments& arguments, const Json& report) {
  if (!arguments.json.empty())
    writeFile(arguments.json, std::string_view(report.dump(2) + "\n"));
}

} // namespace kiln::bench
