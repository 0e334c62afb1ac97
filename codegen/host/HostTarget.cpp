// From launch plan and buffers to kernels run block by block.
#include "codegen/host/HostTarget.h"

#include "codegen/backend/Fail.h"
#include "codegen/backend/ListTable.h"
#include "codegen/host/BlockRunner.h"
#include "codegen/host/HostTensorMap.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <random>

namespace kiln {

namespace {

using Role = MemoryRegion::Role;

constexpr std::align_val_t workspaceAlignment{256};

struct Workspace {
  explicit Workspace(std::size_t bytes)
      : data(bytes == 0 ? nullptr : ::operator new(bytes, workspaceAlignment)) {
    if (data)
      std::memset(data, 0xff, bytes);
  }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace() { ::operator delete(data, workspaceAlignment); }
  void* data;
};

/// From the first byte to the last that the sizes and strides reach.
std::size_t bytesOf(const TensorInfo& tensor, const Buffer& buffer) {
  std::int64_t last = 0, contiguous = 1;
  for (std::size_t d = buffer.sizes.size(); d-- > 0;) {
    if (buffer.sizes[d] == 0)
      return 0;
    std::int64_t stride = buffer.strides.empty() ? contiguous : buffer.strides[d];
    last += (buffer.sizes[d] - 1) * stride;
    contiguous *= buffer.sizes[d];
  }
  return static_cast<std::size_t>(last + 1) * sizeInBytes(tensor.dtype);
}

void addTensors(const std::vector<TensorInfo>& tensors, std::span<const Buffer> buffers, Role role,
                std::vector<MemoryRegion>& regions) {
  for (std::size_t i = 0; i < tensors.size(); ++i)
    regions.push_back({tensors[i].name, buffers[i].data, bytesOf(tensors[i], buffers[i]), role});
}

/// The tensors of lists, found as a kernel finds them: through the table.
void addLists(const LaunchPlan& plan, int part, const Buffer& records,
              std::vector<MemoryRegion>& regions) {
  for (const ListedTensor& tensor : tensorsOfTable(plan.lists, part, records))
    regions.push_back({fmt::format("{}[{}]", tensor.list->name, tensor.entry), tensor.data,
                       tensor.bytes, tensor.isOutput ? Role::output : Role::input});
}

/// Value of a run-time size: that of any dimension bound to it; resolve() saw that they agree.
std::int64_t valueOf(const Extent& extent, const LaunchPlan& plan, std::span<const Buffer> inputs,
                     std::span<const Buffer> outputs) {
  if (extent.isStatic())
    return extent.size;
  for (const auto& [tensors, buffers] :
       {std::pair(&plan.inputs, inputs), std::pair(&plan.outputs, outputs)})
    for (std::size_t i = 0; i < tensors->size(); ++i)
      for (std::size_t d = 0; d < (*tensors)[i].shape.size(); ++d)
        if ((*tensors)[i].shape[d].symbol == extent.symbol)
          return buffers[i].sizes[d];
  fail(ErrorKind::input, "'{}': the run-time size s{} is no dimension of any tensor", plan.function,
       extent.symbol);
}

/// Where the arguments that name the workspace point to; null if there are none.
void* placeOf(const WorkspaceInfo& workspace, const LaunchPlan& plan,
              const ResolvedLaunch& resolved) {
  for (std::size_t k = 0; k < plan.kernels.size(); ++k)
    for (std::size_t a = 0; a < plan.kernels[k].arguments.size(); ++a) {
      const KernelArgument& argument = plan.kernels[k].arguments[a];
      if ((argument.kind == KernelArgument::Kind::buffer ||
           argument.kind == KernelArgument::Kind::tensorMap) &&
          argument.name == workspace.name)
        return reinterpret_cast<void*>(resolved.kernels[k].arguments[a]);
    }
  return nullptr;
}

void addWorkspaces(const LaunchPlan& plan, const ResolvedLaunch& resolved,
                   std::span<const Buffer> inputs, std::span<const Buffer> outputs,
                   std::vector<MemoryRegion>& regions) {
  for (const WorkspaceInfo& workspace : plan.workspaces) {
    std::int64_t elements = workspace.elements;
    if (workspace.blocksOf >= 0)
      elements *= resolved.kernels[workspace.blocksOf].blocks;
    for (const Extent& extent : workspace.sizes.factors)
      elements *= valueOf(extent, plan, inputs, outputs);
    if (void* data = placeOf(workspace, plan, resolved); data && elements > 0)
      regions.push_back({workspace.name, data,
                         static_cast<std::size_t>(elements) * sizeInBytes(workspace.dtype),
                         Role::workspace});
  }
}

/// Pointers to maps in place of those that they show.
std::vector<std::uint64_t> argumentsOf(const KernelLaunch& kernel, const ResolvedKernel& resolved,
                                       std::vector<HostTensorMap>& maps) {
  maps.clear();
  for (const TensorMapView& view : resolved.maps)
    maps.emplace_back(view);
  std::vector<std::uint64_t> arguments = resolved.arguments;
  for (std::size_t a = 0; a < arguments.size(); ++a)
    if (kernel.arguments[a].kind == KernelArgument::Kind::tensorMap)
      arguments[a] = reinterpret_cast<std::uintptr_t>(&maps[kernel.arguments[a].map]);
  return arguments;
}

} // namespace

void runKernel(const HostLibrary& library, const HostLaunch& launch,
               const HostRunOptions& options) {
  std::vector<std::int64_t> order; // first blocks of clusters
  const std::int64_t blocks = launch.blocks * launch.blocksY * launch.blocksZ;
  for (std::int64_t block = 0; block < blocks; block += std::max(launch.cluster, 1))
    order.push_back(block);
  if (options.order == BlockOrder::reversed)
    std::reverse(order.begin(), order.end());
  else if (options.order == BlockOrder::shuffled)
    std::shuffle(order.begin(), order.end(), std::mt19937_64(options.seed));
  std::lock_guard lock(library.mutex());
  BlockRunner runner({.name = launch.name,
                      .entry = library.kernel(launch.name),
                      .blocks = launch.blocks,
                      .blocksY = launch.blocksY,
                      .blocksZ = launch.blocksZ,
                      .threads = launch.threads,
                      .cluster = launch.cluster,
                      .sharedBytes = launch.sharedBytes,
                      .arguments = launch.arguments,
                      .regions = launch.regions,
                      .roles = launch.roles},
                     library.runtime());
  for (std::int64_t block : order)
    runner.run(block);
}

HostProgram::HostProgram(const LaunchPlan& launchPlan, std::string_view cudaText,
                         const HostCompileOptions& options)
    : plan(launchPlan), library(HostLibrary::compile(cudaText, options)) {
  for (const KernelLaunch& kernel : plan.kernels)
    library->kernel(kernel.name);
}

void HostProgram::run(std::span<const Buffer> inputs, std::span<const Buffer> outputs,
                      const HostRunOptions& options) const {
  ResolvedLaunch sizes = resolve(plan, inputs, outputs, options.multiprocessors, nullptr);
  Workspace workspace(sizes.workspaceBytes);
  ResolvedLaunch resolved = resolve(plan, inputs, outputs, options.multiprocessors, workspace.data);
  std::vector<MemoryRegion> regions;
  addTensors(plan.inputs, inputs, Role::input, regions);
  if (plan.lists.counts)
    regions.back().role = Role::counter; // the last input
  addTensors(plan.outputs, outputs, Role::output, regions);
  std::size_t table = inputs.size() - static_cast<std::size_t>(plan.lists.tableInputs());
  for (int part = 0; part < plan.lists.parts(); ++part, table += 2)
    addLists(plan, part, inputs[table + 1], regions);
  addWorkspaces(plan, resolved, inputs, outputs, regions);
  std::vector<HostTensorMap> maps;
  for (std::size_t k = 0; k < plan.kernels.size(); ++k)
    if (const ResolvedKernel& kernel = resolved.kernels[k]; kernel.blocks > 0)
      runKernel(*library,
                {.name = plan.kernels[k].name,
                 .blocks = kernel.grid[0],
                 .blocksY = kernel.grid[1],
                 .blocksZ = kernel.grid[2],
                 .threads = plan.kernels[k].threads,
                 .cluster = plan.kernels[k].cluster,
                 .sharedBytes = plan.kernels[k].sharedBytes,
                 .arguments = argumentsOf(plan.kernels[k], kernel, maps),
                 .regions = regions,
                 .roles = plan.kernels[k].roles},
                options);
}

} // namespace kiln
