// The arithmetic of grids, workspaces and arguments.
#include "codegen/backend/Resolve.h"

#include "codegen/backend/Fail.h"

#include <algorithm>
#include <numeric>

namespace kiln {

namespace {

constexpr std::int64_t maxGrid = 2147483647;                              // blocks in x
constexpr std::array<std::int64_t, 3> maxGrids = {maxGrid, 65535, 65535}; // that the hardware takes
constexpr std::size_t workspaceAlignment = 256;

/// ceil(a / b) without overflow; a >= 0, b >= 1.
std::int64_t divideUp(std::int64_t a, std::int64_t b) {
  return a / b + (a % b != 0);
}

} // namespace

Resolver::Resolver(const LaunchPlan& plan)
    // A plan may be built in memory: reading it back puts it through the one set of checks.
    : launchPlan(parseLaunchPlan(toJson(plan))) {
  for (const KernelLaunch& kernel : launchPlan.kernels) {
    std::vector<Source> places;
    for (const KernelArgument& argument : kernel.arguments)
      places.push_back(sourceOf(argument));
    sources.push_back(std::move(places));
  }
  for (const auto* tensors : {&launchPlan.inputs, &launchPlan.outputs})
    for (const TensorInfo& tensor : *tensors) {
      for (const Extent& extent : tensor.shape)
        symbolCount = std::max(symbolCount, static_cast<std::size_t>(extent.symbol + 1));
    }
}

Resolver::Source Resolver::sourceOf(const KernelArgument& argument) const {
  using Kind = KernelArgument::Kind;
  if (argument.kind != Kind::buffer && argument.kind != Kind::stride &&
      argument.kind != Kind::tensorMap)
    return {};
  auto search = [&](const auto& list, Source::Space space) -> Source {
    for (std::size_t i = 0; i < list.size(); ++i)
      if (list[i].name == argument.name)
        return {space, i};
    return {};
  };
  Source source = search(launchPlan.inputs, Source::Space::input);
  if (source.space == Source::Space::none)
    source = search(launchPlan.outputs, Source::Space::output);
  if (source.space == Source::Space::none)
    source = search(launchPlan.workspaces, Source::Space::workspace);
  return source; // found: the plan was checked
}

/// Blocks of the first `parts` parts of a grid, before clusters and what is resident shape it.
std::int64_t Resolver::blocksOf(const KernelLaunch& kernel, std::size_t parts,
                                const Symbols& symbols) const {
  std::int64_t blocks = 0;
  for (std::size_t part = 0; part < parts; ++part) {
    const SizeProduct& product = part == 0 ? kernel.rows : kernel.further[part - 1];
    const std::int64_t rows = symbols.product(product.factors);
    if (rows > maxRows)
      fail(ErrorKind::input, "kernel '{}': {} rows, a kernel counts up to {}; split the batch",
           kernel.name, rows, maxRows);
    blocks += divideUp(rows, kernel.rowsPerBlock);
  }
  return blocks;
}

std::int64_t Resolver::gridOf(const KernelLaunch& kernel, const Symbols& symbols,
                              int multiprocessors) const {
  if (kernel.grid == KernelLaunch::Grid::fixed)
    return kernel.blocks; // also without rows: such a kernel may have to write zeros
  // The blocks of a cluster share their rows.
  std::int64_t cluster = kernel.cluster;
  const std::int64_t units = blocksOf(kernel, 1 + kernel.further.size(), symbols);
  std::int64_t blocks = multiply(units, cluster, kernel.name);
  if (kernel.grid == KernelLaunch::Grid::resident) {
    const std::int64_t resident = multiply(kernel.blocks, multiprocessors, kernel.name);
    const std::int64_t unit = std::lcm(cluster, kernel.blocksMultiple);
    blocks = std::min(blocks, std::max(resident / unit, std::int64_t(1)) * unit);
  }
  if (blocks > maxGrid) {
    std::int64_t rows = symbols.product(kernel.rows.factors);
    for (const SizeProduct& part : kernel.further)
      rows += symbols.product(part.factors);
    fail(ErrorKind::input,
         "kernel '{}': {} rows at {} rows per block need {} blocks, a grid may have {}; take a "
         "schedule with more rows per block or split the batch",
         kernel.name, rows, kernel.rowsPerBlock, blocks, maxGrid);
  }
  return blocks;
}

/// Blocks in each dimension of a grid of tiles, and of all. None in one dimension are none at all.
std::int64_t Resolver::layOutTiles(const KernelLaunch& kernel, const Symbols& symbols,
                                   int multiprocessors, std::array<std::int64_t, 3>& grid) const {
  grid = {1, 1, 1};
  for (std::size_t d = 0; d < kernel.tiles.size(); ++d)
    for (const TileCount& count : kernel.tiles[d])
      grid[d] = multiply(grid[d], divideUp(symbols.product(count.product.factors), count.tile),
                         kernel.name);
  if (kernel.blocks > 0) {
    const std::int64_t resident = multiply(kernel.blocks, multiprocessors, kernel.name);
    grid[0] =
        std::min(grid[0], std::max<std::int64_t>(resident / kernel.cluster, 1) * kernel.cluster);
  }
  for (std::size_t d = 0; d < grid.size(); ++d)
    if (grid[d] > maxGrids[d])
      fail(ErrorKind::input,
           "kernel '{}': {} tiles need as many blocks in {}, a grid may have {} there; take larger "
           "tiles, split the batch{}",
           kernel.name, grid[d], "xyz"[d], maxGrids[d],
           d == 0 ? " or let blocks take several tiles" : " or count these tiles in x");
  return grid[0] * grid[1] * grid[2]; // below 2^63
}

/// Bytes of one workspace, up to where the next may begin.
std::int64_t Resolver::workspaceSize(const WorkspaceInfo& workspace, const ResolvedLaunch& result,
                                     const Symbols& symbols) const {
  std::int64_t size = multiply(
      workspace.elements, static_cast<std::int64_t>(sizeInBytes(workspace.dtype)), workspace.name);
  if (workspace.blocksOf >= 0)
    size = multiply(size, result.kernels[workspace.blocksOf].blocks, workspace.name);
  size = multiply(size, symbols.product(workspace.sizes.factors), workspace.name);
  return multiply(divideUp(size, workspaceAlignment), workspaceAlignment, workspace.name);
}

void Resolver::layOut(const Symbols& symbols, int multiprocessors, ResolvedLaunch& result) const {
  if (multiprocessors < 1)
    fail(ErrorKind::input, "the device has {} multiprocessors; at least 1 is needed",
         multiprocessors);
  result.kernels.resize(launchPlan.kernels.size());
  for (std::size_t k = 0; k < launchPlan.kernels.size(); ++k) {
    const KernelLaunch& kernel = launchPlan.kernels[k];
    ResolvedKernel& resolved = result.kernels[k];
    if (kernel.grid == KernelLaunch::Grid::tiles) {
      resolved.blocks = layOutTiles(kernel, symbols, multiprocessors, resolved.grid);
    } else {
      resolved.blocks = gridOf(kernel, symbols, multiprocessors);
      resolved.grid = {resolved.blocks, 1, 1};
    }
    resolved.arguments.clear();
  }
  std::int64_t bytes = 0;
  for (const WorkspaceInfo& workspace : launchPlan.workspaces) {
    std::int64_t size = workspaceSize(workspace, result, symbols);
    if (__builtin_add_overflow(bytes, size, &bytes))
      fail(ErrorKind::input, "workspace '{}': {} bytes beside {} others do not fit in 64 bits",
           workspace.name, size, bytes);
  }
  result.workspaceBytes = static_cast<std::size_t>(bytes);
}

std::size_t Resolver::workspaceBytes(std::span<const Buffer> inputs,
                                     std::span<const Buffer> outputs, int multiprocessors) const {
  if (launchPlan.workspaces.empty())
    return 0;
  Symbols symbols(launchPlan.function);
  ResolvedLaunch result;
  symbols.bind(launchPlan.inputs, "input", inputs);
  if (!outputs.empty())
    symbols.bind(launchPlan.outputs, "output", outputs);
  layOut(symbols, multiprocessors, result);
  return result.workspaceBytes;
}

void Resolver::resolveSizes(std::span<const Buffer> inputs, std::span<const Buffer> outputs,
                            int multiprocessors, ResolvedLaunch& result) const {
  Symbols symbols(launchPlan.function);
  symbols.bind(launchPlan.inputs, "input", inputs);
  symbols.bind(launchPlan.outputs, "output", outputs);
  layOut(symbols, multiprocessors, result);
}

void Resolver::resolve(std::span<const Buffer> inputs, std::span<const Buffer> outputs,
                       int multiprocessors, void* workspace, ResolvedLaunch& result) const {
  Symbols symbols(launchPlan.function);
  symbols.bind(launchPlan.inputs, "input", inputs);
  symbols.bind(launchPlan.outputs, "output", outputs);
  layOut(symbols, multiprocessors, result);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    checkPointer(launchPlan.inputs[i], "input", inputs[i]);
  for (std::size_t i = 0; i < outputs.size(); ++i)
    checkPointer(launchPlan.outputs[i], "output", outputs[i]);
  fill(
      symbols, workspace, result,
      [&](const Source& source) {
        return source.space == Source::Space::input ? inputs[source.index].data
                                                    : outputs[source.index].data;
      },
      [&](const Source& source, int dimension) {
        const Buffer& buffer =
            source.space == Source::Space::input ? inputs[source.index] : outputs[source.index];
        const auto d = static_cast<std::size_t>(dimension);
        // From a single element there is no next, and its stride may be anything, which a kernel
        // that takes several at once would not find aligned.
        return buffer.sizes[d] == 1 ? 0 : strideOf(buffer, d);
      });
}

void Resolver::checkWorkspace(const void* workspace, std::size_t bytes) const {
  auto base = reinterpret_cast<std::uintptr_t>(workspace);
  if (bytes > 0 && (base == 0 || base % workspaceAlignment != 0))
    fail(ErrorKind::input,
         "'{}': the workspace is {}; it must be {} bytes of device memory, aligned to {}",
         launchPlan.function,
         base == 0 ? std::string("null")
                   : fmt::format("a pointer aligned to {} bytes", base & -base),
         bytes, workspaceAlignment);
}

/// The arguments of all kernels, when sizes, grids and workspaces are known.
template <typename Pointer, typename Stride>
void Resolver::fill(const Symbols& symbols, void* workspace, ResolvedLaunch& result,
                    const Pointer& pointerOf, const Stride& strideOf) const {
  using Kind = KernelArgument::Kind;
  checkWorkspace(workspace, result.workspaceBytes);
  auto workspacePointer = [&](std::size_t index) {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < index; ++i)
      offset += workspaceSize(launchPlan.workspaces[i], result, symbols);
    return reinterpret_cast<std::uintptr_t>(workspace) + static_cast<std::uint64_t>(offset);
  };
  auto valueOf = [&](const KernelArgument& argument, const Source& source) -> std::uint64_t {
    if (argument.kind == Kind::blocks)
      return static_cast<std::uint64_t>(
          argument.parts > 0 ? blocksOf(launchPlan.kernels[argument.kernel],
                                        static_cast<std::size_t>(argument.parts), symbols)
                             : result.kernels[argument.kernel].blocks);
    if (argument.kind == Kind::rows || argument.kind == Kind::size)
      return static_cast<std::uint64_t>(symbols.product(argument.product.factors));
    if (source.space == Source::Space::workspace)
      return workspacePointer(source.index);
    if (argument.kind == Kind::stride)
      return static_cast<std::uint64_t>(strideOf(source, argument.dimension));
    return reinterpret_cast<std::uintptr_t>(pointerOf(source));
  };
  for (std::size_t k = 0; k < launchPlan.kernels.size(); ++k) {
    const auto& arguments = launchPlan.kernels[k].arguments;
    for (std::size_t a = 0; a < arguments.size(); ++a)
      result.kernels[k].arguments.push_back(valueOf(arguments[a], sources[k][a]));
    if (!launchPlan.kernels[k].tensorMaps.empty())
      fillMaps(k, symbols, result.kernels[k], strideOf);
  }
}

/// The tensor maps of kernel k, whose arguments are filled in. A kernel that is not launched needs
/// none, and a tensor without elements has none: nothing may be loaded through it.
template <typename Stride>
void Resolver::fillMaps(std::size_t k, const Symbols& symbols, ResolvedKernel& result,
                        const Stride& strideOf) const {
  const KernelLaunch& kernel = launchPlan.kernels[k];
  result.maps.resize(kernel.tensorMaps.size());
  if (result.blocks == 0)
    return;
  for (std::size_t a = 0; a < kernel.arguments.size(); ++a) {
    const KernelArgument& argument = kernel.arguments[a];
    if (argument.kind != KernelArgument::Kind::tensorMap)
      continue;
    const TensorMapInfo& info = kernel.tensorMaps[static_cast<std::size_t>(argument.map)];
    TensorMapView& view = result.maps[static_cast<std::size_t>(argument.map)];
    view = {.address = result.arguments[a],
            .rank = static_cast<std::uint8_t>(info.dimensions.size()),
            .dtype = info.dtype,
            .swizzle = static_cast<std::uint16_t>(info.swizzle),
            .promotion = static_cast<std::uint16_t>(info.promotion)};
    const auto bytes = static_cast<std::int64_t>(sizeInBytes(info.dtype));
    for (std::size_t d = 0; d < info.dimensions.size(); ++d) {
      const TensorMapDimension& dimension = info.dimensions[d];
      view.sizes[d] = static_cast<std::uint64_t>(symbols.product(dimension.size.factors));
      view.box[d] = static_cast<std::uint32_t>(dimension.box);
      if (d == 0)
        continue;
      std::int64_t stride = symbols.product(dimension.stride.factors);
      if (dimension.strideOf >= 0)
        stride = multiply(stride, strideOf(sources[k][a], dimension.strideOf), kernel.name);
      // From a single element there is no next: whatever its stride is, one that is allowed serves.
      view.strides[d - 1] = static_cast<std::uint64_t>(
          view.sizes[d] == 1 ? bytes * 16 : multiply(stride, bytes, kernel.name));
    }
    if (std::ranges::count(std::span(view.sizes).first(view.rank), 0U) > 0)
      view = {};
    else
      checkTensorMapValues(
          view, fmt::format("kernel '{}': the tensor map of '{}'", kernel.name, argument.name));
  }
}

Symbols Resolver::symbolsOf(std::span<const std::int64_t> sizes) const {
  if (sizes.size() != symbolCount)
    fail(ErrorKind::input, "'{}': {} run-time sizes given, it has {}; give one a symbol",
         launchPlan.function, sizes.size(), symbolCount);
  Symbols symbols(launchPlan.function);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 0)
      fail(ErrorKind::input, "'{}': the run-time size s{} is {}; allowed are 0 or more",
           launchPlan.function, i, sizes[i]);
    symbols.set(static_cast<int>(i), sizes[i]);
  }
  return symbols;
}

std::size_t Resolver::workspaceBytes(std::span<const std::int64_t> sizes,
                                     int multiprocessors) const {
  if (launchPlan.workspaces.empty())
    return 0;
  ResolvedLaunch result;
  layOut(symbolsOf(sizes), multiprocessors, result);
  return result.workspaceBytes;
}

void Resolver::resolve(std::span<const std::int64_t> sizes, std::span<void* const> pointers,
                       int multiprocessors, void* workspace, ResolvedLaunch& result) const {
  const std::size_t inputs = launchPlan.inputs.size();
  if (pointers.size() != inputs + launchPlan.outputs.size())
    fail(ErrorKind::input, "'{}': {} pointers given, it has {} inputs and {} outputs",
         launchPlan.function, pointers.size(), inputs, launchPlan.outputs.size());
  Symbols symbols = symbolsOf(sizes);
  layOut(symbols, multiprocessors, result);
  fill(
      symbols, workspace, result,
      [&](const Source& source) {
        return pointers[source.index + (source.space == Source::Space::output ? inputs : 0)];
      },
      [&](const Source& source, int dimension) {
        const auto& tensors =
            source.space == Source::Space::input ? launchPlan.inputs : launchPlan.outputs;
        const std::span<const Extent> shape = tensors[source.index].shape;
        return symbols.product(shape.subspan(static_cast<std::size_t>(dimension) + 1)); // packed
      });
}

ResolvedLaunch resolve(const LaunchPlan& plan, std::span<const Buffer> inputs,
                       std::span<const Buffer> outputs, int multiprocessors, void* workspace) {
  Resolver resolver(plan);
  ResolvedLaunch result;
  resolver.resolveSizes(inputs, outputs, multiprocessors, result);
  // Without the scratch memory that the plan needs, the caller asks for its size only.
  if (workspace || result.workspaceBytes == 0)
    resolver.resolve(inputs, outputs, multiprocessors, workspace, result);
  return result;
}

} // namespace kiln
