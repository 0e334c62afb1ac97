// Times many schedules of each kernel of a workload file beside the default one and a copy:
// how far is the default from the best? Of a function of several kernels each is varied while the
// others keep their defaults, and times are the function's. Prints one CSV line a schedule, and a
// summary.
//   sweep WORKLOAD [schedules a kernel, default 60] [text that their schedules have in them]
//   sweep WORKLOAD 0 @FILE     those of a file instead, one a line
#include "bench/Operands.h"
#include "bench/SideBySide.h"
#include "codegen/backend/Timer.h"
#include "kiln/files.h"
#include "kiln/plan.h"
#include "kiln/workload.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <random>
#include <sstream>
#include <thread>

#include <fmt/format.h>

using namespace kiln;
using kiln::bench::Operands;

namespace {

struct Timed {
  std::string schedule;
  double predicted = 0;
  std::optional<Program> program;
  double measured = 0;
};

/// The default, the cheapest by the model, and a random sample of the rest, with a fixed seed.
std::vector<Timed> pick(std::vector<Candidate> all, std::size_t count, const std::string& wanted) {
  const std::string chosen = all.front().schedule;
  if (wanted.starts_with("@")) { // a file of schedules, one a line, beside the default
    std::vector<Timed> named{{chosen, all.front().prediction.microseconds, {}, 0}};
    std::istringstream lines(readFile(wanted.substr(1)));
    for (std::string line; std::getline(lines, line);) {
      auto known = std::ranges::find(all, line, &Candidate::schedule);
      if (line != chosen)
        named.push_back({line, known == all.end() ? 0 : known->prediction.microseconds, {}, 0});
    }
    return named;
  }
  std::erase_if(all, [&](const Candidate& candidate) {
    return candidate.schedule != chosen && candidate.schedule.find(wanted) == std::string::npos;
  });
  std::vector<std::size_t> order(all.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  std::size_t head = std::min(count / 2, order.size());
  std::mt19937 random(7);
  std::shuffle(order.begin() + head, order.begin() + std::min(order.size(), 20 * count), random);
  std::vector<Timed> picked;
  for (std::size_t i = 0; i < order.size() && i < count; ++i)
    picked.push_back({all[order[i]].schedule, all[order[i]].prediction.microseconds, {}, 0});
  return picked;
}

void compileAll(const Module& module, const CompileOptions& options, std::vector<Timed>& list) {
  bench::sideBySide(list.size(), std::thread::hardware_concurrency(), [&](std::size_t i) {
    try {
      CompileOptions one = options;
      one.schedule = list[i].schedule;
      list[i].program = Program::compile(module, one);
    } catch (const Error&) { // spills or a broken promise: never timed
    }
  });
}

/// The kernel's schedules, each as what CompileOptions take.
std::vector<Candidate> schedulesOf(const KernelPlan& kernel, bool alone) {
  std::vector<Candidate> all = kernel.best;
  if (!alone)
    for (Candidate& candidate : all)
      candidate.schedule = fmt::format("{{kiln_{} = {}}}", kernel.name, candidate.schedule);
  return all;
}

void sweep(const WorkloadEntry& entry, const std::string& label, const Module& module,
           const std::vector<Candidate>& all, std::size_t count, const std::string& wanted) {
  const CompileOptions options = entry.options();
  std::vector<Timed> list = pick(all, count, wanted);
  compileAll(module, options, list);
  std::size_t tried = list.size();
  const std::string chosen = all.front().schedule;
  std::erase_if(list, [](const Timed& timed) { return !timed.program; });
  if (list.empty())
    throw Error(ErrorKind::infeasible, label + ": nothing compiled");
  Operands operands(*list.front().program, entry.shape);
  std::vector<std::unique_ptr<Executable>> loaded;
  std::vector<DeviceBuffer> workspaces;
  std::vector<Enqueue> work;
  for (Timed& timed : list) {
    Executable& executable = *loaded.emplace_back(new Executable(*timed.program));
    std::size_t bytes = executable.workspaceBytes(operands.inputs(0));
    void* workspace = workspaces.emplace_back(std::max<std::size_t>(bytes, 256)).data();
    work.push_back([&, workspace](CuStream stream, int i) {
      executable.launch(operands.inputs(i), operands.outputs(i), workspace, stream);
    });
  }
  work.push_back([&](CuStream stream, int i) { operands.copy().kernel(stream, i); });
  TimerOptions timing;
  timing.launches = static_cast<int>(std::max<std::size_t>(operands.sets(), 4));
  timing.replays = 7;
  auto times = timeGraph(work, timing);
  for (std::size_t i = 0; i < list.size(); ++i) {
    list[i].measured = times[i].medianMicros;
    fmt::print("{},\"{}\",{:.2f},{:.2f},{}\n", label, list[i].schedule, list[i].predicted,
               list[i].measured, list[i].program->kernels()[0].usage.registers);
  }
  auto best = std::ranges::min_element(list, {}, &Timed::measured);
  auto own = std::ranges::find(list, chosen, &Timed::schedule);
  fmt::print("# {}: default {}, best {:.2f} us, copy {:.2f} us; {} of {} compiled\n#   default {}\n"
             "#   best    {}\n",
             label, own == list.end() ? "refused" : fmt::format("{:.2f} us", own->measured),
             best->measured, times.back().medianMicros, list.size(), tried, chosen, best->schedule);
  std::fflush(stdout);
}

void sweep(const WorkloadEntry& entry, std::size_t count, const std::string& wanted) {
  const std::string label =
      fmt::format("{} {} {}{} {}", entry.what, shapeText(entry.shape), name(entry.dtype),
                  settingsLabel(entry.settings), entry.backward ? "backward" : "forward");
  const Module module =
      entry.isFile ? Module::parse(readFile(entry.what), entry.what) : Module::fromOp(entry.op());
  const auto plans = plan(module, entry.options(), {.sizes = {}, .keep = 1 << 20});
  for (const KernelPlan& kernel : plans)
    if (!kernel.best.empty())
      sweep(entry, plans.size() == 1 ? label : label + " " + kernel.name, module,
            schedulesOf(kernel, plans.size() == 1), count, wanted);
}

} // namespace

int main(int count, char** arguments) try {
  if (count < 2) {
    fmt::print(stderr, "usage: sweep WORKLOAD [schedules a kernel] [text, or @FILE]\n");
    return 2;
  }
  Workload workload = parseWorkload(readFile(arguments[1]), arguments[1]);
  std::vector<std::string> seen;
  for (const WorkloadEntry& entry : workload.entries) {
    std::string key = fmt::format("{}{}{}{}{}", entry.what, shapeText(entry.shape),
                                  name(entry.dtype), settingsLabel(entry.settings), entry.backward);
    if (std::ranges::find(seen, key) == seen.end())
      sweep(entry, count > 2 ? std::stoul(arguments[2]) : 60, count > 3 ? arguments[3] : "");
    seen.push_back(key);
  }
  return 0;
} catch (const Error& error) {
  fmt::print(stderr, "sweep: {}\n", error.what());
  return 1;
}
