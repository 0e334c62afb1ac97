// See CheckLaunchPlan.h.
#include "codegen/backend/CheckLaunchPlan.h"

#include "codegen/backend/Fail.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>

namespace kiln {

namespace {

using Kind = KernelArgument::Kind;

constexpr std::int64_t warpgroup = 4; // warps that set their registers together

std::vector<std::pair<std::string_view, std::size_t>> buffersOf(const LaunchPlan& plan) {
  std::vector<std::pair<std::string_view, std::size_t>> buffers; // name and rank
  for (const TensorInfo& tensor : plan.inputs)
    buffers.emplace_back(tensor.name, tensor.shape.size());
  for (const TensorInfo& tensor : plan.outputs)
    buffers.emplace_back(tensor.name, tensor.shape.size());
  for (const WorkspaceInfo& workspace : plan.workspaces)
    buffers.emplace_back(workspace.name, 0);
  return buffers;
}

using Buffers = std::map<std::string_view, std::size_t>;

void checkArgument(const LaunchPlan& plan, const Buffers& buffers, const KernelArgument& argument,
                   const std::string& place) {
  if (argument.kind == Kind::blocks &&
      static_cast<std::size_t>(argument.kernel) >= plan.kernels.size())
    fail(ErrorKind::input, "launch plan: {}.kernel is {}; the plan has {} kernels, from 0", place,
         argument.kernel, plan.kernels.size());
  if (argument.kind == Kind::blocks) {
    const KernelLaunch& kernel = plan.kernels[std::size_t(argument.kernel)];
    const std::size_t parts = kernel.tiles.empty() ? 1 + kernel.further.size() : 0;
    if (static_cast<std::size_t>(argument.parts) > parts)
      fail(ErrorKind::input, "launch plan: {}.parts is {}; kernel {} has {}", place, argument.parts,
           argument.kernel, parts);
  }
  if (argument.kind != Kind::buffer && argument.kind != Kind::stride &&
      argument.kind != Kind::tensorMap)
    return;
  auto found = buffers.find(argument.name);
  if (found == buffers.end()) {
    std::vector<std::string_view> names;
    for (const auto& [name, rank] : buffersOf(plan))
      names.push_back(name);
    fail(ErrorKind::input, "launch plan: {} names the buffer '{}'; the plan has {}", place,
         argument.name, names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
  }
  if (argument.kind == Kind::stride &&
      static_cast<std::size_t>(argument.dimension) >= found->second)
    fail(ErrorKind::input, "launch plan: {}.dimension is {}; '{}' has {} dimensions, from 0", place,
         argument.dimension, argument.name, found->second);
}

/// By which a count can be divided whatever the sizes are, modulo `cluster`.
std::int64_t knownDivisor(const TileCount& count, std::int64_t cluster) {
  const auto& factors = count.product.factors;
  std::int64_t divisor = 1;
  if (count.tile == 1) {
    for (const Extent& factor : factors)
      if (factor.isStatic() && factor.size > 0)
        divisor = divisor % cluster * (factor.size % cluster) % cluster;
    return divisor;
  }
  for (const Extent& factor : factors)
    if (!factor.isStatic() || __builtin_mul_overflow(divisor, factor.size, &divisor))
      return 1;
  return ((divisor - 1) / count.tile + 1) % cluster;
}

/// The grid's dimensions, of which x must be whole clusters whatever the sizes are.
void checkTiles(const KernelLaunch& kernel, const std::string& place) {
  if (kernel.grid != KernelLaunch::Grid::tiles)
    return;
  if (kernel.tiles.empty() || kernel.tiles.size() > 3)
    fail(ErrorKind::input, "launch plan: {}.tiles has {} dimensions; a grid has 1 to 3", place,
         kernel.tiles.size());
  if (kernel.blocks > 0 && kernel.tiles.size() > 1)
    fail(ErrorKind::input,
         "launch plan: {} has {} blocks a multiprocessor and {} dimensions of tiles; blocks that "
         "take several tiles need one dimension, whose factors may be those of all",
         place, kernel.blocks, kernel.tiles.size());
  std::int64_t constant = 1; // by which x can be divided
  for (const TileCount& count : kernel.tiles[0])
    constant = constant * knownDivisor(count, kernel.cluster) % kernel.cluster;
  if (kernel.cluster > 1 && constant % kernel.cluster != 0)
    fail(ErrorKind::input,
         "launch plan: {}.tiles[0] is not a multiple of the cluster of {} for all sizes; give it a "
         "count with a product of [{}] and a tile of 1",
         place, kernel.cluster, kernel.cluster);
}

std::int64_t registersOf(const KernelLaunch& kernel) {
  std::int64_t sum = 0;
  for (const WarpRole& role : kernel.roles)
    sum += std::int64_t(role.warps) * 32 * role.registers;
  return sum;
}

void checkRoleWarps(const KernelLaunch& kernel, const std::string& place) {
  if (kernel.roles.empty())
    return;
  std::int64_t warps = 0;
  for (const WarpRole& role : kernel.roles) {
    if (role.warps % warpgroup != 0 || role.registers % 8 != 0)
      fail(ErrorKind::input,
           "launch plan: {}.roles has one of {} warps with {} registers a thread; registers are "
           "set by groups of {} warps, in multiples of 8 from 24 to 256",
           place, role.warps, role.registers, warpgroup);
    warps += role.warps;
  }
  if (warps * 32 != kernel.threads)
    fail(ErrorKind::input, "launch plan: {}.roles have {} threads, the block has {}", place,
         warps * 32, kernel.threads);
  const std::int64_t blocks = std::max(kernel.promisedBlocks, 1), all = Target().registersPerSM;
  if (blocks * registersOf(kernel) > all)
    fail(ErrorKind::input,
         "launch plan: {}.roles end with {} registers a block, {} with {} blocks a multiprocessor, "
         "which has {}; give a role fewer",
         place, registersOf(kernel), blocks * registersOf(kernel), blocks, all);
}

/// The element type of what an argument names.
DType typeOf(const LaunchPlan& plan, std::string_view name) {
  for (const auto* tensors : {&plan.inputs, &plan.outputs})
    for (const TensorInfo& tensor : *tensors)
      if (tensor.name == name)
        return tensor.dtype;
  return std::ranges::find(plan.workspaces, name, &WorkspaceInfo::name)->dtype;
}

/// One map, passed by `argument`.
void checkTensorMap(const LaunchPlan& plan, const KernelArgument& argument,
                    const TensorMapInfo& map, const std::string& place) {
  if (sizeInBytes(map.dtype) != sizeInBytes(typeOf(plan, argument.name)))
    fail(ErrorKind::input,
         "launch plan: {} shows '{}' of {} as {}; strides are counted in elements, so both must "
         "have as many bytes",
         place, argument.name, name(typeOf(plan, argument.name)), name(map.dtype));
  TensorMapView form;
  form.rank = static_cast<std::uint8_t>(std::min<std::size_t>(map.dimensions.size(), 255));
  form.dtype = map.dtype;
  form.swizzle = static_cast<std::uint16_t>(map.swizzle);
  form.promotion = static_cast<std::uint16_t>(map.promotion);
  for (std::size_t d = 0; d < std::min(map.dimensions.size(), maxTensorMapRank); ++d)
    form.box[d] = static_cast<std::uint32_t>(map.dimensions[d].box);
  checkTensorMapForm(form, "launch plan: " + place);
  const TensorMapDimension& inner = map.dimensions[0];
  if (inner.strideOf >= 0 || !inner.stride.factors.empty())
    fail(ErrorKind::input,
         "launch plan: {}.dimensions[0] has a stride; the elements of the innermost dimension lie "
         "side by side",
         place);
}

void checkTensorMaps(const LaunchPlan& plan, const KernelLaunch& kernel, const std::string& place) {
  std::vector<int> passed(kernel.tensorMaps.size());
  const Buffers ranks = [&] {
    const auto buffers = buffersOf(plan);
    return Buffers(buffers.begin(), buffers.end());
  }();
  for (const KernelArgument& argument : kernel.arguments) {
    if (argument.kind != Kind::tensorMap)
      continue;
    const auto index = static_cast<std::size_t>(argument.map);
    if (index >= passed.size())
      fail(ErrorKind::input, "launch plan: {} passes tensor map {}; it has {}, from 0", place,
           argument.map, passed.size());
    ++passed[index];
    const std::string where = fmt::format("{}.tensorMaps[{}]", place, index);
    checkTensorMap(plan, argument, kernel.tensorMaps[index], where);
    for (const TensorMapDimension& dimension : kernel.tensorMaps[index].dimensions)
      if (dimension.strideOf >= 0 &&
          static_cast<std::size_t>(dimension.strideOf) >= ranks.at(argument.name))
        fail(ErrorKind::input,
             "launch plan: {} has the stride of dimension {}; '{}' has {} dimensions, from 0",
             where, dimension.strideOf, argument.name, ranks.at(argument.name));
  }
  for (std::size_t i = 0; i < passed.size(); ++i)
    if (passed[i] != 1)
      fail(ErrorKind::input,
           "launch plan: {}.tensorMaps[{}] is passed by {} arguments; each map needs one", place, i,
           passed[i]);
}

} // namespace

void checkLaunchPlan(const LaunchPlan& plan) {
  const auto tables = static_cast<std::size_t>(plan.lists.tableInputs());
  if (plan.lists.chunk > 0 && plan.inputs.size() < tables)
    fail(ErrorKind::input,
         "launch plan: plan.inputs has {} tensors; the last {} of a program over lists are the "
         "table, two for each part{}",
         plan.inputs.size(), tables, plan.lists.counts ? " and a counter" : "");
  auto buffers = buffersOf(plan);
  std::sort(buffers.begin(), buffers.end());
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].first.empty())
      fail(ErrorKind::input, "launch plan: a buffer has no name; every buffer needs its own");
    if (i > 0 && buffers[i - 1].first == buffers[i].first)
      fail(ErrorKind::input, "launch plan: two buffers are named '{}'; every buffer needs its own",
           buffers[i].first);
  }
  for (const WorkspaceInfo& workspace : plan.workspaces)
    if (workspace.blocksOf >= static_cast<int>(plan.kernels.size()))
      fail(ErrorKind::input,
           "launch plan: workspace '{}' follows the grid of kernel {}; the plan has {} kernels, "
           "from 0",
           workspace.name, workspace.blocksOf, plan.kernels.size());
  const Buffers ranks(buffers.begin(), buffers.end());
  for (std::size_t k = 0; k < plan.kernels.size(); ++k) {
    const KernelLaunch& kernel = plan.kernels[k];
    const std::string place = fmt::format("plan.kernels[{}]", k);
    for (std::size_t a = 0; a < kernel.arguments.size(); ++a)
      checkArgument(plan, ranks, kernel.arguments[a], fmt::format("{}.arguments[{}]", place, a));
    checkTiles(kernel, place);
    checkRoleWarps(kernel, place);
    checkTensorMaps(plan, kernel, place);
  }
}

void checkTargetHas(const KernelLaunch& kernel, const Target& target) {
  const auto need = [&](bool has, std::string_view what) {
    if (!has)
      fail(ErrorKind::infeasible,
           "kernel '{}' has {}, which {} lacks; compile for sm_90a or take another schedule",
           kernel.name, what, target.arch);
  };
  need(kernel.cluster <= target.maxCluster, fmt::format("clusters of {} blocks", kernel.cluster));
  need(kernel.tensorMaps.empty() || target.has.bulkCopies, "tensor maps");
  need(kernel.roles.empty() || target.has.registersByRole, "registers by warp role");
}

void checkParameters(const KernelLaunch& launch, const CubinKernel& kernel) {
  const std::size_t maps = launch.tensorMaps.size(), values = launch.arguments.size() - maps;
  const std::size_t passed = values * 8 + maps * sizeof(EncodedTensorMap);
  if (kernel.parameterBytes != static_cast<std::int64_t>(passed))
    fail(ErrorKind::input,
         "kernel '{}' takes {} bytes of parameters, its launch plan passes {} ({} values of 8{}); "
         "correct the line '// kiln.launch' or compile again",
         launch.name, kernel.parameterBytes, passed, values,
         maps > 0 ? fmt::format(", {} tensor maps of {}", maps, sizeof(EncodedTensorMap)) : "");
  for (std::size_t i = 0; i < kernel.parameters.size() && i < launch.arguments.size(); ++i)
    if (const int bytes =
            launch.arguments[i].kind == Kind::tensorMap ? sizeof(EncodedTensorMap) : 8;
        kernel.parameters[i] != bytes)
      fail(ErrorKind::input,
           "kernel '{}': parameter {} has {} bytes, its launch plan passes {}; correct the line "
           "'// kiln.launch' or compile again",
           launch.name, i, kernel.parameters[i], bytes);
}

void checkRoles(const KernelLaunch& kernel, int registers) {
  const std::int64_t given = std::int64_t((registers + 7) / 8 * 8) * kernel.threads;
  if (registersOf(kernel) > given)
    fail(
        ErrorKind::input,
        "kernel '{}': its roles end with {} registers, a block begins with {} ({} a thread of {}), "
        "so that a role would wait for more forever; give the roles fewer or promise fewer blocks",
        kernel.name, registersOf(kernel), given, registers, kernel.threads);
}

} // namespace kiln
