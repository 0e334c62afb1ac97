// kiln::plan and kiln::predict: the search space and the cost model, for people.
#include "kiln/plan.h"
#include "autotune/Kernels.h"
#include "codegen/backend/Cubin.h"
#include "codegen/family/Buffers.h"
#include "codegen/model/Roofline.h"

#include <algorithm>

namespace kiln {

namespace {

using autotune::NamedKernel;

std::string tightest(const model::Resources& asked, const Target& target) {
  struct Use {
    const char* what;
    double share;
  } uses[] = {
      {"threads", double(asked.threads * asked.blocks) / target.threadsPerSM},
      {"shared memory", double((asked.sharedBytes + target.sharedReserved) * asked.blocks) /
                            double(target.sharedPerSM)},
      {"registers", double(asked.registers * asked.threads * asked.blocks) / target.registersPerSM},
      {"blocks", double(asked.blocks) / target.blocksPerSM}};
  return std::ranges::max_element(uses, {}, &Use::share)->what;
}

/// The terms of a cost are told as shares of the time.
Prediction predictionOf(const model::Candidate& candidate, const model::KernelModel& kernel,
                        const Target& target) {
  const model::Cost& cost = candidate.cost;
  const model::Resources asked = kernel.resources(candidate.schedule);
  const double timeOfCost = candidate.microseconds / cost.total;
  Prediction result;
  result.bytesRead = static_cast<std::int64_t>(kernel.bytesRead());
  result.bytesWritten = static_cast<std::int64_t>(kernel.bytesWritten());
  result.microseconds = candidate.microseconds;
  const model::Roofline roofline = model::rooflineOf(kernel, target);
  result.rooflineMicroseconds = roofline.microseconds();
  result.rooflineLimit = roofline.limit();
  result.moving = cost.moving * timeOfCost;
  result.waiting = cost.waiting * timeOfCost;
  result.starting = cost.starting * timeOfCost;
  result.summing = cost.summing * timeOfCost;
  result.waves = cost.waves;
  result.bytesInFlight = cost.bytesInFlight;
  result.occupancy = static_cast<double>(asked.threads * asked.blocks) / target.threadsPerSM;
  result.limitedBy = tightest(asked, target);
  return result;
}

} // namespace

std::vector<KernelPlan> plan(const Module& module, const CompileOptions& options,
                             const RankOptions& rank) {
  CompileOptions until = options;
  until.until = Stage::fused;
  Program program = Program::compile(module, until);
  const Target& target = findTarget(options.arch);
  std::vector<KernelPlan> plans;
  const auto planned = autotune::plannedFunction(program.text(Stage::fused), rank.sizes);
  for (const NamedKernel& kernel : planned.kernels) {
    model::Space space = kernel.model->space(target);
    KernelPlan result;
    result.name = kernel.name;
    result.family = kernel.model->form().family;
    result.considered = space.tuples;
    result.feasible = static_cast<std::int64_t>(space.feasible.size());
    for (const auto& [rule, refused] : space.refused)
      result.rejections.push_back({rule, refused.count, refused.worst});
    std::ranges::stable_sort(result.rejections, std::greater{}, &Rejection::count);
    for (std::size_t i = 0; i < space.feasible.size() && i < std::size_t(rank.keep); ++i) {
      const model::Candidate& candidate = space.feasible[i];
      result.best.push_back(
          {toText(candidate.schedule), predictionOf(candidate, *kernel.model, target)});
    }
    plans.push_back(std::move(result));
  }
  return plans;
}

std::vector<Prediction> predict(const Program& program, const RankOptions& rank) {
  const std::string& text = program.text(Stage::scheduled);
  if (text.empty())
    throw Error(ErrorKind::input, "a program that was resumed after the stage 'scheduled' has no "
                                  "schedules to predict from");
  const Target& target = findTarget(program.arch());
  std::vector<Prediction> predictions(program.kernels().size());
  for (const NamedKernel& kernel : autotune::plannedFunction(text, rank.sizes).kernels) {
    const auto entry =
        std::ranges::find(program.kernels(), family::entryName(kernel.name), &KernelInfo::name);
    if (entry == program.kernels().end() || !kernel.schedule)
      continue;
    const auto candidate = model::candidateOf(*kernel.schedule, *kernel.model, target);
    predictions[static_cast<std::size_t>(entry - program.kernels().begin())] =
        predictionOf(candidate, *kernel.model, target);
  }
  return predictions;
}

std::vector<KernelInfo> kernelsOfCubin(std::span<const std::byte> bytes, std::string_view origin) {
  try {
    std::vector<KernelInfo> kernels;
    for (const CubinKernel& kernel : readCubin(bytes).kernels) {
      KernelInfo info;
      info.name = kernel.name;
      info.threads = kernel.maxThreads[0];
      info.usage = {kernel.registers, kernel.sharedBytes, kernel.stackBytes, -1, -1,
                    kernel.barriers,  kernel.codeBytes};
      kernels.push_back(info);
    }
    return kernels;
  } catch (const Error& error) {
    throw Error(error.kind(), std::string(origin) + ": " + error.what());
  }
}

} // namespace kiln
