// The CUDA text of a program, and its cubin with what the kernels use.
#include "codegen/emit/Cuda.h"
#include "codegen/backend/CheckLaunchPlan.h"
#include "codegen/backend/Cubin.h"
#include "codegen/backend/Nvrtc.h"
#include "codegen/family/Buffers.h"
#include "codegen/program/State.h"

#include <fmt/format.h>

#include <set>

using namespace mlir;

extern "C" const struct {
  const char *name, *text;
} kiln_device_files[];

namespace kiln::program {

FailureOr<std::string> emitCuda(ModuleOp module, std::string_view title) {
  if (!module->getAttrOfType<StringAttr>(cu::kLaunchAttr))
    throw Error(ErrorKind::input,
                "the module has no launch plan (attribute kiln.launch of the module); resume from "
                "the text that --save-temps wrote, or from an earlier stage");
  std::string text;
  llvm::raw_string_ostream out(text);
  if (failed(printCuda(module, fmt::format("{}, compiled by kiln {}", title, version()), out)))
    return failure();
  return text;
}

/// Takes seconds each time.
static bool isLong(const Program::State& state) {
  return state.texts[static_cast<int>(Stage::cuda)].size() > 32768;
}

/// A kernel that spills, or of which fewer blocks fit than its schedule says, is refused: what
/// the cost model and the tuner believe of it would be wrong. Only where every schedule of a
/// function spills one of them is taken all the same.
static void checkPromises(const Program::State& state) {
  std::string broken;
  std::map<std::string, int> registers;
  std::int64_t spillBytes = 0;
  bool launchable = true;
  for (const KernelInfo& kernel : state.kernels) {
    const Usage& usage = kernel.usage;
    launchable &= kernel.residentBlocks > 0;
    spillBytes += usage.spillStoreBytes + usage.spillLoadBytes;
    if (usage.spillStoreBytes || usage.spillLoadBytes || usage.serializedProducts ||
        kernel.residentBlocks < kernel.promisedBlocks)
      registers[kernel.name] = usage.registers;
    if (usage.spillStoreBytes || usage.spillLoadBytes)
      broken += fmt::format("\nkernel '{}' spills {} bytes of registers to memory and loads {} "
                            "back ({} registers a thread, {} blocks of {} threads asked); take "
                            "fewer blocks, fewer rows or more lanes",
                            kernel.name, usage.spillStoreBytes, usage.spillLoadBytes,
                            usage.registers, kernel.promisedBlocks, kernel.threads);
    if (usage.serializedProducts)
      broken +=
          fmt::format("\nkernel '{}': the assembler makes its products of warpgroups wait for "
                      "one another; take smaller tiles or fewer blocks",
                      kernel.name);
    if (kernel.residentBlocks < kernel.promisedBlocks)
      broken += fmt::format("\nkernel '{}': {} blocks a multiprocessor promised, {} fit with {} "
                            "registers a thread and {} bytes of shared memory; take fewer blocks",
                            kernel.name, kernel.promisedBlocks, kernel.residentBlocks,
                            usage.registers, usage.sharedBytes);
  }
  const int attempts = isLong(state) ? 4 : 24;
  if (!broken.empty() && !(launchable && state.lessons.lastResort))
    throw BrokenPromise("schedule refused:" + broken, std::move(registers), spillBytes, attempts,
                        launchable);
}

static CudaJob jobOf(const Program::State& state) {
  constexpr int kThreads = 4; // a number of its own: the order of the cubin's sections has it
  CudaJob job;
  job.source = state.texts[static_cast<int>(Stage::cuda)];
  job.name = family::entryName(state.function).substr(5) + ".cu"; // which messages show
  job.arch = state.options.arch;
  job.nvrtc = state.options.nvrtc;
  if (isLong(state) && state.plan.kernels.size() > 1)
    job.threads = kThreads;
  for (const auto* file = kiln_device_files; file->name; ++file)
    job.headers.push_back({file->name, file->text});
  return job;
}

/// Of each kernel of the plan: what it is launched with, and what `usage` says that it uses.
template <class UsageOf>
static std::vector<KernelInfo> kernelsOf(const LaunchPlan& plan, const Target& target,
                                         UsageOf usage) {
  std::vector<KernelInfo> kernels;
  for (const KernelLaunch& launch : plan.kernels) {
    KernelInfo info;
    info.name = launch.name;
    info.schedule = launch.schedule;
    info.threads = launch.threads;
    info.promisedBlocks = launch.promisedBlocks;
    info.programmatic = launch.programmatic;
    info.usage = usage(launch);
    info.roles = launch.roles;
    checkTargetHas(launch, target);
    checkRoles(launch, info.usage.registers);
    info.residentBlocks =
        residentBlocks(target, info.threads, info.usage.registers, info.usage.sharedBytes);
    kernels.push_back(info);
  }
  return kernels;
}

void assemble(Program::State& state) {
  CudaResult result = compileCuda(jobOf(state));
  state.cubin = std::move(result.cubin);
  state.log = std::move(result.log);
  Cubin cubin = readCubin(state.cubin);
  state.kernels =
      kernelsOf(state.plan, findTarget(state.options.arch), [&](const KernelLaunch& launch) {
        return usageOf(cubin, launch.name, state.log, launch.sharedBytes);
      });
  checkPromises(state);
}

} // namespace kiln::program

kiln::Program kiln::Program::load(std::string_view launchPlan, std::span<const std::byte> bytes) {
  auto state = std::make_shared<State>();
  state->plan = parseLaunchPlan(launchPlan);
  state->function = state->plan.function;
  state->cubin.assign(bytes.begin(), bytes.end());
  Cubin cubin = readCubin(bytes);
  const Target& target = targetOfCapability(cubin.capability / 10, cubin.capability % 10);
  state->options.arch = target.arch;
  state->kernels = program::kernelsOf(state->plan, target, [&](const KernelLaunch& launch) {
    const CubinKernel& kernel = cubin.kernel(launch.name);
    return Usage{kernel.registers,
                 kernel.sharedBytes + launch.sharedBytes,
                 kernel.stackBytes,
                 -1,
                 -1,
                 kernel.barriers,
                 kernel.codeBytes};
  });
  Program result;
  result.state_ = state;
  return result;
}

std::string kiln::Program::launchPlan() const {
  return toJson(state().plan);
}

std::string kiln::Program::ptx() const {
  CudaJob job = program::jobOf(state());
  job.wantPtx = true;
  return compileCuda(job).ptx;
}
