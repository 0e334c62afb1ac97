// kernel-compile: Kiln's compiler as a command. Only reads options, calls libkiln through its
// public headers and prints. Exit codes: 0 ok, 1 error, 2 usage, 3 nothing feasible,
// 4 verification failed, 5 nothing stored where it was demanded, 6 a choice became worse,
// 7 a damaged store.
#include "tools/kernel-compile/Terminal.h"
#include "tools/kernel-compile/Verbs.h"

#include <csignal>

namespace {

using namespace kiln;

int fail(const tool::Outcome& outcome, ErrorKind kind, const std::string& text) {
  tool::complain(text);
  if (outcome.json)
    try {
      tool::printJson(nlohmann::ordered_json{{"error", tool::toJson(tool::Failure{kind, text})}});
    } catch (const Error&) {
      // The output that cannot be written is most likely what has been complained of.
    }
  return tool::exitCode(kind);
}

} // namespace

int main(int argc, char** argv) {
  // A closed pipe or a file-size limit is an error that can be told, not the end of the process.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);

  CLI::App app("Kiln compiles tensor programs in MLIR to GPU kernels.", "kernel-compile");
  app.set_version_flag("--version", std::string(version()));
  app.require_subcommand(1);
  app.get_formatter()->column_width(28);
  app.footer("kernel-compile VERB --help tells a verb's options and an example.");
  tool::Outcome outcome;
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
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    constexpr int usage = 2;
    return app.exit(error) == 0 ? 0 : usage;
  } catch (const Error& error) {
    return fail(outcome, error.kind(), error.what());
  } catch (const std::exception& error) {
    return fail(outcome, ErrorKind::input, error.what());
  }
  return outcome.code;
}
