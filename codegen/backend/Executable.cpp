// Loading and launching. All that can be wrong is checked when a program is loaded; a launch only
// fills in sizes and hands values to the driver.
#include "codegen/backend/Executable.h"

#include "codegen/backend/CheckLaunchPlan.h"
#include "codegen/backend/Cubin.h"
#include "codegen/backend/Fail.h"

#include <algorithm>
#include <utility>

namespace kiln {

namespace {

LaunchShape shapeOf(const KernelLaunch& kernel, const std::array<std::int64_t, 3>& grid) {
  return {.blocks = static_cast<unsigned>(grid[0]),
          .blocksY = static_cast<unsigned>(grid[1]),
          .blocksZ = static_cast<unsigned>(grid[2]),
          .threads = static_cast<unsigned>(kernel.threads),
          .sharedBytes = static_cast<unsigned>(kernel.sharedBytes),
          .cluster = static_cast<unsigned>(kernel.cluster),
          .programmatic = kernel.programmatic};
}

/// A plan that disagrees with the code would make the kernel read arguments that are not there.
void checkKernel(const KernelLaunch& launch, const CubinKernel& kernel) {
  checkParameters(launch, kernel);
  if (kernel.maxThreads[0] > 0 && launch.threads > kernel.maxThreads[0])
    fail(ErrorKind::input,
         "kernel '{}' was compiled for at most {} threads per block, its launch plan asks for {}",
         launch.name, kernel.maxThreads[0], launch.threads);
  checkRoles(launch, kernel.registers);
}

/// The addresses of a kernel's parameters. Tensor maps live in `maps` until the launch has copied
/// them.
void collectParameters(const KernelLaunch& kernel, ResolvedKernel& resolved,
                       std::vector<void*>& parameters, std::vector<EncodedTensorMap>& maps) {
  parameters.clear();
  for (std::uint64_t& argument : resolved.arguments)
    parameters.push_back(&argument);
  if (kernel.tensorMaps.empty())
    return;
  maps.resize(resolved.maps.size());
  for (std::size_t a = 0; a < parameters.size(); ++a)
    if (kernel.arguments[a].kind == KernelArgument::Kind::tensorMap) {
      const auto index = static_cast<std::size_t>(kernel.arguments[a].map);
      const TensorMapView& view = resolved.maps[index];
      maps[index] = view.rank == 0 ? EncodedTensorMap{} : encodedTensorMap(view);
      parameters[a] = &maps[index];
    }
}

/// Index of the first of the kernels at the end that get no input of the plan: they can be launched
/// apart. A plan never consists of such alone.
std::size_t epilogueOf(const LaunchPlan& plan) {
  auto readsInput = [&](const KernelLaunch& kernel) {
    return std::ranges::any_of(kernel.arguments, [&](const KernelArgument& argument) {
      return (argument.kind == KernelArgument::Kind::buffer ||
              argument.kind == KernelArgument::Kind::tensorMap) &&
             std::ranges::find(plan.inputs, argument.name, &TensorInfo::name) != plan.inputs.end();
    });
  };
  std::size_t first = plan.kernels.size();
  while (first > 0 && !readsInput(plan.kernels[first - 1]))
    --first;
  return first > 0 ? first : plan.kernels.size();
}

} // namespace

LoadedProgram::LoadedProgram(const LaunchPlan& plan, std::span<const std::byte> bytes)
    : resolver(plan), epilogue(epilogueOf(plan)) {
  Cubin cubin = readCubin(bytes);
  capability = cubin.capability;
  const Target& target = targetOfCapability(capability / 10, capability % 10);
  for (const KernelLaunch& launch : resolver.plan().kernels) {
    const CubinKernel& kernel = cubin.kernel(launch.name);
    checkKernel(launch, kernel);
    checkTargetHas(launch, target);
    staticShared.push_back(kernel.sharedBytes);
  }
  const Driver& driver = Driver::get();
  const DeviceInfo& device = driver.currentDevice();
  checkDevice(device);
  prepared = std::make_unique<std::once_flag[]>(driver.devices().size());
  code = std::make_unique<LoadedCubin>(bytes);
  for (const KernelLaunch& launch : resolver.plan().kernels)
    kernels.push_back(code->kernel(launch.name));
  prepare(device);
}

void LoadedProgram::checkDevice(const DeviceInfo& device) const {
  int has = device.major * 10 + device.minor;
  if (device.major != capability / 10 || has < capability)
    fail(ErrorKind::unavailable,
         "'{}' was compiled for sm_{}, GPU {} ({}) is sm_{}; compile with --arch=sm_{}",
         plan().function, capability, device.ordinal, device.name, has, has);
  for (std::size_t k = 0; k < staticShared.size(); ++k) {
    const KernelLaunch& launch = plan().kernels[k];
    std::int64_t bytes = staticShared[k] + launch.sharedBytes;
    if (bytes > device.sharedPerBlock)
      fail(ErrorKind::infeasible,
           "kernel '{}' needs {} bytes of shared memory per block, GPU {} ({}) allows {}; take a "
           "schedule with fewer rows per block or stages",
           launch.name, bytes, device.ordinal, device.name, device.sharedPerBlock);
  }
}

void LoadedProgram::prepare(const DeviceInfo& device) const {
  std::call_once(prepared[static_cast<std::size_t>(device.ordinal)], [&] {
    checkDevice(device);
    for (std::size_t k = 0; k < kernels.size(); ++k)
      prepareKernel(kernels[k], shapeOf(plan().kernels[k], {}), device);
  });
}

std::size_t LoadedProgram::workspaceBytes(std::span<const Buffer> inputs,
                                          std::span<const Buffer> outputs) const {
  return resolver.workspaceBytes(inputs, outputs, Driver::get().currentDevice().multiprocessors);
}

std::size_t LoadedProgram::workspaceBytes(std::span<const std::int64_t> sizes) const {
  if (plan().workspaces.empty())
    return 0; // without a question to the driver
  return resolver.workspaceBytes(sizes, Driver::get().currentDevice().multiprocessors);
}

void LoadedProgram::launch(std::span<const Buffer> inputs, std::span<const Buffer> outputs,
                           void* workspace, void* stream, const LaunchOptions& options) const {
  launchResolved(
      [&](int multiprocessors, ResolvedLaunch& resolved) {
        resolver.resolve(inputs, outputs, multiprocessors, workspace, resolved);
      },
      stream, options);
}

void LoadedProgram::launch(std::span<const std::int64_t> sizes, std::span<void* const> pointers,
                           void* workspace, void* stream, const LaunchOptions& options) const {
  launchResolved(
      [&](int multiprocessors, ResolvedLaunch& resolved) {
        resolver.resolve(sizes, pointers, multiprocessors, workspace, resolved);
      },
      stream, options);
}

template <typename Resolve>
void LoadedProgram::launchResolved(const Resolve& resolve, void* stream,
                                   const LaunchOptions& options) const {
  const DeviceInfo& device = Driver::get().currentDevice();
  prepare(device);
  thread_local ResolvedLaunch resolved; // kept for its memory
  thread_local std::vector<void*> parameters;
  thread_local std::vector<EncodedTensorMap> maps;
  resolve(device.multiprocessors, resolved);
  using Part = LaunchOptions::Part;
  const std::size_t begin = options.part == Part::epilogue ? epilogue : 0;
  const std::size_t end = options.part == Part::main ? epilogue : kernels.size();
  // What a kernel reads ahead is older than the kernel that the plan has before it. Where that one
  // is left out, it would follow another: it waits for all.
  bool overlap = options.overlap && begin == 0;
  for (std::size_t k = begin; k < end; ++k) {
    ResolvedKernel& kernel = resolved.kernels[k];
    const bool mayOverlap = std::exchange(overlap, kernel.blocks > 0);
    if (kernel.blocks == 0)
      continue;
    collectParameters(plan().kernels[k], kernel, parameters, maps);
    LaunchShape shape = shapeOf(plan().kernels[k], kernel.grid);
    shape.programmatic &= mayOverlap;
    launchKernel(kernels[k], shape, parameters.data(), static_cast<CuStream>(stream));
  }
}

} // namespace kiln
