// See Stores.h.
#include "runtime/Stores.h"

#include "kiln/verify.h"
#include "runtime/Backend.h"
#include "runtime/Log.h"
#include "runtime/Tune.h"

#include <utility>

namespace kiln::runtime {

namespace {

/// Nobody has compared the cost model's choice with fp64 yet: here, before it is launched for
/// anybody.
void check(const Program& program, const Backend& backend) {
  if (!isFirstCheckWanted())
    return;
  const Where where = backend.until() == Stage::cubin ? Where::gpu : Where::host;
  if (const std::string wrong = firstCheck(program, where); !wrong.empty())
    throw Error(
        ErrorKind::verification,
        fmt::format("the kernel that the cost model chose is wrong and is not used: {}", wrong));
}

} // namespace

Stores::Stores(const Options& given, bool isForked, bool isFrozen)
    : wanted(given), isFrozen(isFrozen) {
  TunerOptions tunerOptions;
  tunerOptions.snapshot = isFrozen;
  tunerOptions.onWarning = [](const std::string& text) { log("{}", text); };
  if (isForked) {
    wanted.mode = wanted.mode == Mode::tune ? Mode::use : wanted.mode;
    tunerOptions.layers.project = tunerOptions.layers.user = "";
    if (!wanted.cache.empty())
      tunerOptions.layers.pinned = wanted.cache;
  } else if (!wanted.cache.empty()) {
    cache.emplace(Cache::open(wanted.cache));
    for (const std::string& warning : cache->warnings())
      log("{}", warning);
    tunerOptions.layers.project = wanted.cache;
  }
  tuner.emplace(Tuner::open(tunerOptions));
}

const Tuned* Stores::find(TuningTask& task, const Backend& backend, int device) const {
  if (backend.until() != Stage::cubin && !cache && wanted.mode != Mode::record)
    return nullptr;
  if (backend.until() == Stage::cubin && wanted.mode == Mode::tune)
    tuneInto(wanted.cache, task, device);
  const Tuned* tuned = tuner->find(task);
  if (!task.options.backward || (tuned && tuned->source() != "model"))
    return tuned;
  task.options.readAhead = true;
  const Tuned* ahead = tuner->find(task);
  if (ahead && (!tuned || ahead->source() != "model"))
    return ahead;
  task.options.readAhead = false;
  return tuned;
}

Cache::Result Stores::compile(const TuningTask& task, const Backend& backend) const {
  if (cache && backend.until() == Stage::cubin)
    return isFrozen ? Cache::Result{cache->compileByModel(task), true} : cache->compile(task);
  Cache::Result made{Program::compile(task.module, task.options), true};
  check(made.program, backend);
  return made;
}

std::string Stores::describe() const {
  const TunerChoices choices = tuner->choices();
  return fmt::format("{}\nmode {}, ops {}\n{} tuned choices, SHA-256 {}\n", choices.compiler,
                     nameOf(wanted.mode), wanted.ops.empty() ? "all" : wanted.ops, choices.count,
                     choices.sha256);
}

Program programOf(const Tuned& tuned, TuningTask task, const Backend& backend) {
  if (backend.until() == Stage::cubin)
    return tuned.program();
  task.options.schedule = tuned.schedule();
  Program program = Program::compile(task.module, task.options);
  check(program, backend); // the store's verdict is on a cubin
  return program;
}

} // namespace kiln::runtime
