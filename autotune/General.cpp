// See General.h.
#include "autotune/General.h"

#include "autotune/search/Points.h"
#include "autotune/store/Sha256.h"
#include "codegen/backend/Schedules.h"
#include "codegen/program/State.h"

#include <algorithm>
#include <fmt/format.h>

namespace kiln::autotune {
namespace {

/// The code alone: what the lines of comment say (schedule, launch plan) is not compiled.
std::string withoutComments(std::string_view cuda) {
  std::string code;
  for (std::size_t at = 0; at < cuda.size();) {
    std::size_t end = std::min(cuda.find('\n', at), cuda.size() - 1) + 1;
    if (std::string_view line = cuda.substr(at, end - at); !line.starts_with("//"))
      code += line;
    at = end;
  }
  return code;
}

/// The general function's key: what was measured stays, what was asked is another.
Key generalKey(const Task& task, const Key& known) {
  CompileOptions options;
  options.arch = task.arch;
  Key key = describe(Module::parse(task.general, "<general>"), options, task.generalSizes).key;
  key.device = known.device;
  key.nvrtc = known.nvrtc;
  key.regime = known.regime;
  return key;
}

/// The last measurement of each schedule that a reader of the choice asks for.
void copyTimes(Store& store, const Key& key, const History& history) {
  const Search* search = history.searches.empty() ? nullptr : &history.searches.back();
  const std::string* wanted[] = {&history.choice->schedule, search ? &search->standard : nullptr,
                                 search ? &search->runnerUp : nullptr};
  std::map<std::string_view, const Measurement*> last;
  for (const Measurement& measurement : history.measurements)
    if (std::ranges::any_of(wanted, [&](const std::string* schedule) {
          return schedule && *schedule == measurement.schedule;
        }))
      last[measurement.schedule] = &measurement;
  for (const auto& [schedule, measurement] : last)
    store.measure(key, *measurement);
  for (const Measurement& baseline : history.baselines)
    store.baseline(key, baseline);
  if (!history.copies.empty())
    store.copied(key, history.copies.back());
  if (search)
    store.searched(key, *search);
}

} // namespace

std::string generalPlan(const Task& task, CompileOptions options, std::string_view cuda) {
  if (task.general.empty())
    return "";
  options.until = Stage::cuda;
  try {
    Program program = Program::compile(Module::parse(task.general, "<task>"), options);
    const std::string& text = program.text(Stage::cuda);
    return withoutComments(text) == withoutComments(cuda) ? toJson(launchPlanOfCuda(text)) : "";
  } catch (const Error&) {
    return ""; // a schedule may need to know the sizes
  }
}

std::string generalPlan(const Task& task, const std::string& schedules) {
  CompileOptions options;
  options.arch = task.arch;
  options.nvrtc = task.nvrtc;
  options.schedule = schedules;
  options.until = Stage::cuda;
  return generalPlan(
      task, options,
      Program::compile(Module::parse(task.module, "<task>"), options).text(Stage::cuda));
}

bool chooseForGeneral(Store& store, const KnownKey& known) {
  const std::optional<Task> task = store.task(known.key);
  const History history = store.history(known.key);
  if (!task || task->general.empty() || !history.choice || known.key.emitter != emitterHash())
    return false;
  Choice choice = *history.choice;
  const Key key = generalKey(*task, known.key);
  if (auto there = store.choice(key); there && there->schedule == choice.schedule &&
                                      there->cubin == choice.cubin &&
                                      there->source == choice.source)
    return true;
  if (!choice.cubin.empty()) {
    auto artifact = store.artifact(known.key, choice.schedule, choice.cubin);
    if (!artifact || (artifact->plan = generalPlan(*task, choice.schedule)).empty())
      return false;
    store.keep(key, choice.schedule, *artifact);
    for (const Verdict& verdict : history.verdicts)
      if (verdict.schedule == choice.schedule && verdict.cubin == choice.cubin)
        store.judge(key, verdict);
  } else if (choice.source != Source::vendor) {
    return false; // a schedule that nobody has compiled yet
  }
  copyTimes(store, key, history);
  store.describe(key, known.label + " at run time", task->general);
  store.keepTask(key, {task->general, task->arch, "", task->generalSizes, "", {}});
  choice.reason +=
      fmt::format("; found for key {}, whose sizes are fixed and whose code is the same",
                  known.digest.substr(0, 12));
  store.choose(key, choice);
  return true;
}

std::vector<Found> transferable(const Layers& layers, const Described& described) {
  if (!hasOpenSizes(described.open) || hasOpenSizes(described.key))
    return {};
  std::vector<Found> found = layers.near(described.key);
  Points points(described.spaces);
  std::erase_if(found, [&](const Found& one) {
    return !one.choice.schedule.empty() && !points.find(one.choice.schedule);
  });
  return found;
}

} // namespace kiln::autotune
