// See GpuDevice.h.
#include "autotune/measure/GpuDevice.h"

#include "autotune/General.h"
#include "autotune/measure/GpuTimer.h"
#include "autotune/measure/GpuVerifier.h"
#include "autotune/measure/Nvml.h"
#include "autotune/store/Sha256.h"
#include "codegen/backend/Schedules.h"
#include "codegen/program/State.h"

#include <algorithm>
#include <optional>

namespace kiln::autotune {
namespace {

constexpr std::pair<std::string_view, FailureKind> kDriverErrors[] = {
    {"CUDA_ERROR_ILLEGAL_ADDRESS", FailureKind::illegalAccess},
    {"CUDA_ERROR_INVALID_ADDRESS_SPACE", FailureKind::illegalAccess},
    {"CUDA_ERROR_MISALIGNED_ADDRESS", FailureKind::misaligned},
    {"CUDA_ERROR_LAUNCH_TIMEOUT", FailureKind::hang},
    {"CUDA_ERROR_OUT_OF_MEMORY", FailureKind::outOfMemory},
    {"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", FailureKind::launch},
    {"CUDA_ERROR_LAUNCH_FAILED", FailureKind::launch},
    {"CUDA_ERROR_ILLEGAL_INSTRUCTION", FailureKind::launch},
    {"CUDA_ERROR_INVALID_PC", FailureKind::launch},
    {"CUDA_ERROR_HARDWARE_STACK_ERROR", FailureKind::launch},
    {"CUDA_ERROR_ASSERT", FailureKind::launch}};

/// An error of the driver that a kernel caused is the loss of the device.
template <class Work> auto blaming(Work work) {
  try {
    return work();
  } catch (const Error& error) {
    const std::string_view text = error.what();
    for (auto [name, kind] : kDriverErrors)
      if (error.kind() == ErrorKind::device && text.find(name) != std::string_view::npos)
        throw Lost(kind, error.what());
    throw;
  }
}

class GpuDevice final : public Device {
 public:
  explicit GpuDevice(int ordinal) : ordinal(ordinal) {}

  void begin(const Task& next) override {
    kernels.clear();
    generalPlans.clear();
    timer.reset();
    own.reset();
    general.reset();
    task = next;
    module.reset();
  }

  Compiled compile(const Proposal& proposal) override {
    CompileOptions options = optionsFor(proposal.schedule);
    if (!module)
      module = Module::parse(task.module, "<task>");
    try {
      Program program = Program::compile(*module, options);
      Artifact artifact = artifactOf(program);
      artifact.general = autotune::generalPlan(task, options, program.text(Stage::cuda));
      return artifact;
    } catch (const program::BrokenPromise& broken) {
      if (broken.spillBytes > 0)
        return Failure{proposal.schedule, "", "", FailureKind::spill, broken.what()};
      return Rejection{proposal.schedule, "resources", broken.what()};
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::unavailable || error.kind() == ErrorKind::io)
        throw;
      return Rejection{proposal.schedule, "compile", error.what()};
    }
  }

  void prepare(const Artifact& artifact, std::uint64_t seed) override {
    useDevice();
    const std::string plan = generalPlan(artifact);
    verifier(plan).prepare(parseLaunchPlan(plan.empty() ? artifact.plan : plan), seed);
  }

  Check verify(const Artifact& artifact, std::uint64_t seed) override {
    useDevice();
    return blaming([&] {
      const std::string plan = generalPlan(artifact);
      Check check = plan.empty()
                        ? verifier(plan).verify(kernel(artifact), seed)
                        : verifier(plan).verify({parseLaunchPlan(plan), artifact.cubin}, seed);
      check.verdict.cubin = artifact.sha256;
      return check;
    });
  }

  Batch time(std::span<const Artifact* const> artifacts, std::size_t rounds) override {
    useDevice();
    return blaming([&] {
      std::vector<GpuKernel*> list;
      for (const Artifact* artifact : artifacts)
        list.push_back(artifact ? &kernel(*artifact) : nullptr);
      if (!timer)
        timer.emplace(task, (*std::ranges::find_if(list, std::identity()))->plan);
      Conditions before = conditions();
      Batch batch{timer->time(list, rounds), conditions()};
      batch.conditions.throttled |= before.throttled;
      batch.conditions.foreignProcesses =
          std::max(batch.conditions.foreignProcesses, before.foreignProcesses);
      return batch;
    });
  }

  Conditions conditions() override {
    useDevice();
    return conditionsOf(Driver::get().device(ordinal));
  }

 private:
  void useDevice() { Driver::get().setDevice(ordinal); }

  CompileOptions optionsFor(const std::string& schedule) const {
    CompileOptions options;
    options.arch = task.arch;
    options.nvrtc = task.nvrtc;
    options.schedule = schedule;
    return options;
  }

  /// At other sizes than the task's too, if the general function comes out as the same code.
  GpuVerifier& verifier(const std::string& plan) {
    if (!plan.empty())
      return general ? *general : general.emplace(task.general, task.generalSizes);
    return own ? *own : own.emplace(task.module, task.sizes);
  }

  /// Whoever compiled it has done this, and found none where the code is another; what comes from a
  /// store has not. Of either it is looked for once.
  std::string generalPlan(const Artifact& artifact) {
    if (task.general.empty() || !artifact.general.empty())
      return artifact.general;
    auto known = generalPlans.find(artifact.plan);
    if (known == generalPlans.end()) {
      std::string plan = autotune::generalPlan(task, schedulesOf(parseLaunchPlan(artifact.plan)));
      known = generalPlans.emplace(artifact.plan, std::move(plan)).first;
    }
    return known->second;
  }

  GpuKernel& kernel(const Artifact& artifact) {
    auto& entry = kernels[artifact.sha256 + artifact.plan];
    if (!entry)
      entry = std::make_unique<GpuKernel>(parseLaunchPlan(artifact.plan), artifact.cubin);
    return *entry;
  }

  int ordinal;
  Task task;
  std::optional<Module> module;
  std::map<std::string, std::unique_ptr<GpuKernel>> kernels;
  std::map<std::string, std::string> generalPlans; // by an artifact's, of those that bring none
  std::optional<GpuVerifier> own, general;
  std::optional<GpuTimer> timer;
};

} // namespace

std::unique_ptr<Device> gpuDevice(int ordinal) {
  return std::make_unique<GpuDevice>(ordinal);
}

Artifact artifactOf(const Program& program) {
  Artifact artifact;
  artifact.cubin.assign(program.cubin().begin(), program.cubin().end());
  artifact.sha256 = sha256(artifact.cubin);
  artifact.plan = toJson(program.state().plan);
  for (const KernelInfo& kernel : program.kernels()) {
    artifact.registers = std::max(artifact.registers, kernel.usage.registers);
    artifact.sharedBytes = std::max(artifact.sharedBytes, kernel.usage.sharedBytes);
    artifact.stackBytes = std::max(artifact.stackBytes, kernel.usage.stackBytes);
    artifact.spillBytes += kernel.usage.spillStoreBytes + kernel.usage.spillLoadBytes;
  }
  return artifact;
}

} // namespace kiln::autotune
