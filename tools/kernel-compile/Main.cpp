// kernel-compile: Kiln's compiler as a command. Only reads options, calls libkiln through its
// public headers and prints. Exit codes: Exits.h.
#include "tools/kernel-compile/Arguments.h"
#include "tools/kernel-compile/Exits.h"
#include "tools/kernel-compile/Help.h"
#include "tools/kernel-compile/Terminal.h"
#include "tools/kernel-compile/Verbs.h"

#include <csignal>
#include <fmt/format.h>
#include <sstream>

namespace {

using namespace kiln;

/// As JSON too, if that was asked for. An output that cannot be written is most likely what has
/// been complained of.
int fail(bool json, std::string_view kind, const std::string& text, int code,
         const std::string& advice = "") {
  tool::complain(text);
  if (!advice.empty())
    tool::advise(advice);
  if (json)
    try {
      tool::printJson(nlohmann::ordered_json{{"error", {{"kind", kind}, {"message", text}}}});
    } catch (const Error&) {
    }
  return code;
}

int fail(bool json, const Error& error) {
  return fail(json, tool::kindName(error.kind()), error.what(), tool::exitCode(error.kind()));
}

/// Help and versions are answers, everything else is wrong usage.
int answer(const CLI::App& app, const CLI::ParseError& error,
           const std::vector<std::string>& arguments) {
  if (error.get_exit_code() != 0)
    return fail(tool::wantsJson(arguments), "usage", error.what(), tool::kUsage,
                fmt::format("'{} --help' tells what it takes", tool::verbOf(app, arguments)));
  std::ostringstream text;
  app.exit(error, text, text);
  tool::print(text.str());
  return 0;
}

void addVerbs(CLI::App& app, tool::Outcome& outcome) {
  tool::addCompile(app, outcome);
  tool::addPlan(app, outcome);
  tool::addInspect(app, outcome);
  tool::addRun(app, outcome);
  tool::addTune(app, outcome);
  tool::addBench(app, outcome);
  tool::addVerify(app, outcome);
  tool::addRegress(app, outcome);
  tool::addExplain(app, outcome);
  tool::addReport(app, outcome);
  tool::addCache(app, outcome);
  tool::addDoctor(app, outcome);
  tool::addGenerate(app);
}

int run(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  CLI::App app("Kiln compiles tensor programs in MLIR to GPU kernels.", "kernel-compile");
  app.formatter(std::make_shared<tool::Help>());
  app.set_version_flag("--version", std::string(version()), "print the version");
  app.set_help_flag("-h,--help", "print this");
  app.require_subcommand(1);
  app.footer("kernel-compile VERB --help tells a verb's options and an example.");
  tool::Outcome outcome;
  addVerbs(app, outcome);
  try {
    tool::checkArguments(app, arguments);
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return answer(app, error, arguments);
  } catch (const Error& error) {
    return fail(outcome.json, error);
  } catch (const std::exception& error) {
    return fail(outcome.json, tool::kindName(ErrorKind::input), error.what(), 1);
  }
  return outcome.code;
}

} // namespace

int main(int argc, char** argv) {
  // A closed pipe or a file-size limit is an error that can be told, not the end of the process.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    return run(argc, argv);
  } catch (const tool::ClosedPipe&) {
    return tool::kClosedPipe;
  } catch (const Error& error) { // of an answer that could not be printed
    return fail(false, error);
  }
}
