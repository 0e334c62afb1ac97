// See Tune.h.
#include "runtime/Tune.h"

#include "runtime/Compiler.h"
#include "runtime/Log.h"

#include <cstdlib>
#include <dlfcn.h>

namespace kiln::runtime {

/// $KILN_COMMAND, or what is installed or built beside this library.
static std::filesystem::path commandPath() {
  if (const char* named = std::getenv("KILN_COMMAND"))
    return named;
  Dl_info info{};
  dladdr(reinterpret_cast<void*>(&commandPath), &info);
  auto folder = std::filesystem::path(info.dli_fname ? info.dli_fname : "").parent_path();
  return folder.parent_path() / "bin" / "kernel-compile";
}

void tuneInto(const std::filesystem::path& store, const TuningTask& task, int device) {
  if (store.empty())
    throw Error(ErrorKind::input,
                "KILN_MODE=tune needs a store to write: name one with KILN_CACHE=FILE");
  const auto command = commandPath();
  if (!std::filesystem::exists(command))
    throw Error(ErrorKind::unavailable,
                fmt::format("tuning needs the command kernel-compile, which is not at '{}'; name "
                            "it with KILN_COMMAND",
                            command.string()));
  TuneTask tuned;
  static_cast<TuningTask&>(tuned) = task;
  TuneOptions options;
  options.effort = "quick";
  options.device = fmt::format("gpu:{}", device);
  options.worker = {command.string(), "worker"};
  options.isStopped = isEnding; // the program's end does not wait for it
  std::vector<std::string> warnings;
  for (const TuneResult& result : tune(std::span(&tuned, 1), store, options, &warnings))
    log("tuned {}: {}, {}", result.label, result.source, result.reason);
  for (const std::string& warning : warnings)
    log("{}", warning);
}

} // namespace kiln::runtime
