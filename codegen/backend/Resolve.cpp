// Checks of the buffers of a launch and the arithmetic of grids, workspaces and arguments.
// Every refusal names the argument, the number given, the number allowed and a way out.
#include "codegen/backend/Resolve.h"

#include "codegen/backend/Fail.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace kiln {

/// Values of the run-time sizes, and which dimension set each, for the message of a conflict.
struct Resolver::Symbols {
  struct Origin {
    const TensorInfo* tensor = nullptr;
    const char* role = "";
    std::size_t dimension = 0;
  };
  bool isKnown(int symbol) const { return (known >> symbol & 1) != 0; }
  void set(int symbol, std::int64_t value) {
    known |= std::uint64_t(1) << symbol;
    values[static_cast<std::size_t>(symbol)] = value;
  }

  std::uint64_t known = 0; // a bit a symbol
  std::array<std::int64_t, maxSymbols> values;
  std::array<Origin, maxSymbols> origins; // of those that a buffer has set
};

namespace {

constexpr std::int64_t maxGrid = 2147483647;            // blocks in x that the hardware takes
constexpr std::int64_t maxRows = std::int64_t(1) << 31; // device/tile.cuh counts in 32 bits
constexpr std::size_t workspaceAlignment = 256;

std::int64_t multiply(std::int64_t a, std::int64_t b, std::string_view what) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product))
    fail(ErrorKind::input, "{}: {} * {} does not fit in 64 bits; use smaller sizes", what, a, b);
  return product;
}

/// ceil(a / b) without overflow; a >= 0, b >= 1.
std::int64_t divideUp(std::int64_t a, std::int64_t b) {
  return a / b + (a % b != 0);
}

std::string shapeText(const TensorInfo& tensor) {
  std::vector<std::string> sizes;
  for (const Extent& extent : tensor.shape)
    sizes.push_back(extent.isStatic() ? fmt::format("{}", extent.size)
                                      : fmt::format("s{}", extent.symbol));
  return fmt::format("[{}]", fmt::join(sizes, ", "));
}

bool isEmpty(const Buffer& buffer) {
  return std::find(buffer.sizes.begin(), buffer.sizes.end(), 0) != buffer.sizes.end();
}

std::int64_t contiguousStride(const Buffer& buffer, std::size_t dimension) {
  std::int64_t stride = 1;
  for (std::size_t d = dimension + 1; d < buffer.sizes.size(); ++d)
    stride *= buffer.sizes[d]; // cannot overflow: the element count was checked
  return stride;
}

std::int64_t strideOf(const Buffer& buffer, std::size_t dimension) {
  return buffer.strides.empty() ? contiguousStride(buffer, dimension) : buffer.strides[dimension];
}

void checkStrides(const TensorInfo& tensor, const char* role, const Buffer& buffer) {
  if (!buffer.strides.empty() && buffer.strides.size() != buffer.sizes.size())
    fail(ErrorKind::input, "{} '{}': {} strides given for {} dimensions; give one each or none",
         role, tensor.name, buffer.strides.size(), buffer.sizes.size());
  if (isEmpty(buffer))
    return;
  for (std::size_t d = 0; d < buffer.sizes.size(); ++d) {
    if (buffer.sizes[d] == 1)
      continue;
    std::int64_t given = strideOf(buffer, d);
    std::int64_t wanted = tensor.strides.empty() ? contiguousStride(buffer, d) : tensor.strides[d];
    if (wanted >= 0 && given != wanted)
      fail(ErrorKind::input,
           "{} '{}': stride of dimension {} is {} elements, the kernel was compiled for {}; copy "
           "the tensor or compile with that stride given at run time (-1)",
           role, tensor.name, d, given, wanted);
    if (given < 0)
      fail(ErrorKind::input,
           "{} '{}': stride of dimension {} is {} elements; allowed are 0 or more; copy the tensor",
           role, tensor.name, d, given);
    if (given == 0 && role[0] == 'o')
      fail(ErrorKind::input,
           "{} '{}': dimension {} has {} elements and stride 0, so results would overwrite each "
           "other; pass a tensor with memory of its own",
           role, tensor.name, d, buffer.sizes[d]);
  }
}

void checkPointer(const TensorInfo& tensor, const char* role, const Buffer& buffer) {
  auto address = reinterpret_cast<std::uintptr_t>(buffer.data);
  if (isEmpty(buffer))
    return;
  if (address == 0)
    fail(ErrorKind::input,
         "{} '{}': the pointer is null and the tensor has {} elements; only an empty tensor may "
         "have none",
         role, tensor.name,
         contiguousStride(buffer, 0) * (buffer.sizes.empty() ? 1 : buffer.sizes[0]));
  auto alignment = static_cast<std::uintptr_t>(tensor.alignment);
  if (address % alignment != 0)
    fail(ErrorKind::input,
         "{} '{}': pointer is aligned to {} bytes, the kernel was compiled for {}; copy the tensor "
         "or compile with a smaller alignment",
         role, tensor.name, address & -address, alignment);
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
  if (argument.kind != Kind::buffer && argument.kind != Kind::stride)
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

void Resolver::bind(const TensorInfo& tensor, const char* role, const Buffer& buffer,
                    Symbols& symbols) const {
  if (buffer.sizes.size() != tensor.shape.size())
    fail(ErrorKind::input,
         "{} '{}': {} dimensions given, the kernel was compiled for {} {}; reshape the tensor or "
         "compile for its shape",
         role, tensor.name, buffer.sizes.size(), tensor.shape.size(), shapeText(tensor));
  std::int64_t elements = 1;
  for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
    const Extent& extent = tensor.shape[d];
    std::int64_t size = buffer.sizes[d];
    if (size < 0)
      fail(ErrorKind::input, "{} '{}': dimension {} is {}; allowed are 0 or more", role,
           tensor.name, d, size);
    elements = isEmpty(buffer) ? 0 : multiply(elements, size, tensor.name);
    if (extent.isStatic()) {
      if (size != extent.size)
        fail(ErrorKind::input,
             "{} '{}': dimension {} is {}, the kernel was compiled for {} {}; compile for this "
             "size",
             role, tensor.name, d, size, extent.size, shapeText(tensor));
      continue;
    }
    if (!symbols.isKnown(extent.symbol)) {
      symbols.origins[extent.symbol] = {&tensor, role, d};
      symbols.set(extent.symbol, size);
    } else if (symbols.values[extent.symbol] != size) {
      const Symbols::Origin& origin = symbols.origins[extent.symbol];
      fail(ErrorKind::input,
           "{} '{}': dimension {} is {}, but dimension {} of {} '{}' is {}; both are s{} and must "
           "be equal",
           role, tensor.name, d, size, origin.dimension, origin.role, origin.tensor->name,
           symbols.values[extent.symbol], extent.symbol);
    }
  }
  multiply(elements, static_cast<std::int64_t>(sizeInBytes(tensor.dtype)), tensor.name);
  checkStrides(tensor, role, buffer);
}

void Resolver::bindAll(const std::vector<TensorInfo>& tensors, const char* role,
                       std::span<const Buffer> buffers, Symbols& symbols) const {
  if (buffers.size() != tensors.size()) {
    std::vector<std::string> names;
    for (const TensorInfo& tensor : tensors)
      names.push_back(tensor.name);
    fail(ErrorKind::input, "{} {}s given, '{}' has {} ({}); pass them in this order",
         buffers.size(), role, launchPlan.function, tensors.size(), fmt::join(names, ", "));
  }
  for (std::size_t i = 0; i < tensors.size(); ++i)
    bind(tensors[i], role, buffers[i], symbols);
}

std::int64_t Resolver::value(std::span<const Extent> factors, const Symbols& symbols) const {
  std::int64_t result = 1;
  for (const Extent& extent : factors) {
    if (!extent.isStatic() && !symbols.isKnown(extent.symbol))
      fail(ErrorKind::input,
           "'{}': the run-time size s{} is no dimension of any tensor given, so it is unknown; "
           "give every run-time size to an input",
           launchPlan.function, extent.symbol);
    std::int64_t factor = extent.isStatic() ? extent.size : symbols.values[extent.symbol];
    result = multiply(result, factor, launchPlan.function);
  }
  return result;
}

/// Blocks of the first `parts` parts of a grid, before clusters and what is resident shape it.
std::int64_t Resolver::blocksOf(const KernelLaunch& kernel, std::size_t parts,
                                const Symbols& symbols) const {
  std::int64_t blocks = 0;
  for (std::size_t part = 0; part < parts; ++part) {
    const SizeProduct& product = part == 0 ? kernel.rows : kernel.further[part - 1];
    const std::int64_t rows = value(product.factors, symbols);
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
    std::int64_t resident = multiply(kernel.blocks, multiprocessors, kernel.name);
    blocks = std::min(blocks, std::max(resident / cluster, std::int64_t(1)) * cluster);
  }
  if (blocks > maxGrid) {
    std::int64_t rows = value(kernel.rows.factors, symbols);
    for (const SizeProduct& part : kernel.further)
      rows += value(part.factors, symbols);
    fail(ErrorKind::input,
         "kernel '{}': {} rows at {} rows per block need {} blocks, a grid may have {}; take a "
         "schedule with more rows per block or split the batch",
         kernel.name, rows, kernel.rowsPerBlock, blocks, maxGrid);
  }
  return blocks;
}

/// Bytes of one workspace, up to where the next may begin.
std::int64_t Resolver::workspaceSize(const WorkspaceInfo& workspace, const ResolvedLaunch& result,
                                     const Symbols& symbols) const {
  std::int64_t size = multiply(
      workspace.elements, static_cast<std::int64_t>(sizeInBytes(workspace.dtype)), workspace.name);
  if (workspace.blocksOf >= 0)
    size = multiply(size, result.kernels[workspace.blocksOf].blocks, workspace.name);
  size = multiply(size, value(workspace.sizes.factors, symbols), workspace.name);
  return multiply(divideUp(size, workspaceAlignment), workspaceAlignment, workspace.name);
}

void Resolver::layOut(const Symbols& symbols, int multiprocessors, ResolvedLaunch& result) const {
  if (multiprocessors < 1)
    fail(ErrorKind::input, "the device has {} multiprocessors; at least 1 is needed",
         multiprocessors);
  result.kernels.resize(launchPlan.kernels.size());
  for (std::size_t k = 0; k < launchPlan.kernels.size(); ++k) {
    result.kernels[k].blocks = gridOf(launchPlan.kernels[k], symbols, multiprocessors);
    result.kernels[k].arguments.clear();
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

std::size_t Resolver::workspaceBytes(std::span<const Buffer> inputs, int multiprocessors) const {
  if (launchPlan.workspaces.empty())
    return 0;
  Symbols symbols;
  ResolvedLaunch result;
  bindAll(launchPlan.inputs, "input", inputs, symbols);
  layOut(symbols, multiprocessors, result);
  return result.workspaceBytes;
}

void Resolver::resolveSizes(std::span<const Buffer> inputs, std::span<const Buffer> outputs,
                            int multiprocessors, ResolvedLaunch& result) const {
  Symbols symbols;
  bindAll(launchPlan.inputs, "input", inputs, symbols);
  bindAll(launchPlan.outputs, "output", outputs, symbols);
  layOut(symbols, multiprocessors, result);
}

void Resolver::resolve(std::span<const Buffer> inputs, std::span<const Buffer> outputs,
                       int multiprocessors, void* workspace, ResolvedLaunch& result) const {
  Symbols symbols;
  bindAll(launchPlan.inputs, "input", inputs, symbols);
  bindAll(launchPlan.outputs, "output", outputs, symbols);
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
        return strideOf(source.space == Source::Space::input ? inputs[source.index]
                                                             : outputs[source.index],
                        static_cast<std::size_t>(dimension));
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
      return static_cast<std::uint64_t>(value(argument.product.factors, symbols));
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
  }
}

Resolver::Symbols Resolver::symbolsOf(std::span<const std::int64_t> sizes) const {
  if (sizes.size() != symbolCount)
    fail(ErrorKind::input, "'{}': {} run-time sizes given, it has {}; give one a symbol",
         launchPlan.function, sizes.size(), symbolCount);
  Symbols symbols;
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
        return value(shape.subspan(static_cast<std::size_t>(dimension) + 1), symbols); // packed
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
