// See General.h.
#include "autotune/General.h"

#include "autotune/Carried.h"
#include "autotune/search/Points.h"
#include "autotune/store/Sha256.h"
#include "codegen/backend/Schedules.h"
#include "codegen/program/State.h"

#include <algorithm>
#include <fmt/format.h>

namespace kiln::autotune {
namespace {

/// The code alone: what the lines of comment say (schedule, launch plan, where in the text an
/// operation stands) is not compiled.
std::string withoutComments(std::string_view cuda) {
  std::string code;
  for (std::size_t at = 0; at < cuda.size();) {
    const std::size_t end = std::min(cuda.find('\n', at), cuda.size() - 1) + 1;
    const std::string_view line = cuda.substr(at, end - at);
    if (!line.substr(std::min(line.find_first_not_of(' '), line.size())).starts_with("//"))
      code += line;
    at = end;
  }
  return code;
}

/// Whether schedules that were chosen elsewhere break no rule here.
bool fitHere(const std::string& schedules, const Described& described) {
  const std::vector<Schedule> found = schedulesIn(described.spaces, schedules);
  const Target& target = findTarget(described.key.arch);
  for (std::size_t k = 0; k < found.size(); ++k)
    if (!described.spaces[k].model->check(found[k], target).empty())
      return false;
  return !found.empty();
}

/// The general function's key: what was measured stays, what was asked is another.
Key generalKey(const Task& task, const Key& known) {
  CompileOptions options;
  options.arch = task.arch;
  Key key = describe(Module::parse(task.general, "<general>"), options, task.generalSizes).key;
  key.nvrtc = known.nvrtc;
  return measuredAs(std::move(key), known);
}

/// What is carried over of the schedules whose code is the same in the general function, as the
/// choice's is known to be.
std::vector<std::string> sameInGeneral(const Task& task, const History& history) {
  std::vector<std::string> schedules;
  for (const auto& [schedule, cubin] : schedulesToCarry(history))
    if (schedule == history.choice->schedule || !generalPlan(task, schedule).empty())
      schedules.push_back(schedule);
  return schedules;
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
  const Choice& choice = *history.choice;
  const Key key = generalKey(*task, known.key);
  if (auto there = store.choice(key)) {
    if (there->schedule == choice.schedule && there->cubin == choice.cubin &&
        there->source == choice.source)
      return true;
    if (there->source == Source::pinned || choice.source == Source::model)
      return false;
  }
  if (!choice.cubin.empty()) {
    auto artifact = store.artifact(known.key, choice.schedule, choice.cubin);
    if (!artifact || (artifact->plan = generalPlan(*task, choice.schedule)).empty())
      return false;
    store.keep(key, choice.schedule, *artifact);
  } else if (choice.source != Source::vendor) {
    return false; // a schedule that nobody has compiled yet
  }
  store.describe(key, known.label + " at run time", task->general);
  store.keepTask(key, {task->general, task->arch, "", task->generalSizes, "", {}});
  store.carry(known.key, key, sameInGeneral(*task, history),
              fmt::format("; found for key {}, whose sizes are fixed and whose code is the same",
                          known.digest.substr(0, 12)));
  return true;
}

std::vector<Found> transferable(const Layers& layers, const Described& described) {
  if (!hasOpenSizes(described.open) || hasOpenSizes(described.key))
    return {};
  std::vector<Found> found = layers.near(described.key);
  std::erase_if(found, [&](const Found& one) {
    return !one.choice.schedule.empty() && !fitHere(one.choice.schedule, described);
  });
  return found;
}

} // namespace kiln::autotune
