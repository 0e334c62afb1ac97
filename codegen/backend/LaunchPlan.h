// How the kernels of one compiled function are launched: buffers, grids, argument lists.
// The plan travels as JSON in a comment of the generated CUDA text, so that what is launched
// can never disagree with what was printed, also after somebody edited the text.
#pragma once

#include "codegen/backend/TensorMap.h"
#include "kiln/kiln.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

/// Rows that a kernel counts up to: device/tile.cuh counts in 32 bits.
inline constexpr std::int64_t maxRows = std::int64_t(1) << 31;

/// A product of sizes: the number of rows of an iteration space, say.
struct SizeProduct {
  std::vector<Extent> factors;
  bool operator==(const SizeProduct&) const = default;
};

/// Tiles that cover a product of sizes: ceil(product / tile). With a tile of 1, the product itself.
struct TileCount {
  SizeProduct product;
  std::int64_t tile = 1;
};

/// A dimension of a tensor map: elements, and from one to the next, a product of sizes times, if
/// named, the stride that a dimension of the buffer has.
struct TensorMapDimension {
  SizeProduct size;
  SizeProduct stride; // elements; of the first dimension, 1
  int strideOf = -1;  // dimension of the buffer; -1: the product alone
  std::int64_t box = 1;
};

/// What a tensor map shows of the buffer that its argument names, dimensions from the innermost.
struct TensorMapInfo {
  DType dtype = DType::f32;
  int swizzle = 0;   // as in TensorMapView
  int promotion = 0; // as in TensorMapView
  std::vector<TensorMapDimension> dimensions;
};

/// Scratch memory: `elements` values of `dtype`, times the grid size of kernel `blocksOf`, times
/// the run-time sizes in `sizes`.
struct WorkspaceInfo {
  std::string name;
  DType dtype = DType::f32;
  std::int64_t elements = 0;
  int blocksOf = -1; // index into LaunchPlan::kernels; -1: independent of grids
  SizeProduct sizes;
};

/// One argument of a kernel, in order.
struct KernelArgument {
  enum class Kind { buffer, rows, size, stride, blocks, tensorMap } kind = Kind::buffer;
  std::string name;    // buffer, stride, tensorMap: a name of inputs, outputs or workspaces
  int dimension = 0;   // stride: dimension of that buffer
  SizeProduct product; // rows, size
  int kernel = 0;      // blocks: index of the kernel whose grid size is passed (as i64)
  int parts = 0;       // blocks: only those of so many of its first parts; 0: all
  int map = 0;         // tensorMap: index into KernelLaunch::tensorMaps, one of its own
  bool operator==(const KernelArgument&) const = default;
};

struct KernelLaunch {
  std::string name;             // entry point
  std::string family;           // that made it
  std::string schedule;         // text, for people
  int threads = 0;              // per block
  std::int64_t sharedBytes = 0; // dynamic, per block
  int promisedBlocks = 0;       // resident blocks per SM in __launch_bounds__
  bool programmatic = false;    // launched with programmatic stream serialization
  int cluster = 1;              // blocks per cluster
  enum class Grid { oneShot, resident, fixed, tiles } grid = Grid::oneShot;
  std::int64_t rowsPerBlock = 1; // oneShot, resident: of a block, or the cluster that shares them
  /// resident: per SM; fixed: of the whole grid; tiles: per SM, of a grid of one dimension whose
  /// blocks take several tiles each; 0: a block a tile.
  std::int64_t blocks = 0;
  /// resident: where blocks come to several tiles there is a multiple of so many.
  std::int64_t blocksMultiple = 1;
  SizeProduct rows; // oneShot, resident
  /// The rows of further parts. oneShot: each begins with a block of its own; resident: blocks, as
  /// many at most as if it were so, work on all parts.
  std::vector<SizeProduct> further{};
  std::vector<KernelArgument> arguments; // pointers, i64 values and tensor maps
  /// tiles: blocks in x, y and z, each a product of counts. Clusters lie along x.
  std::vector<std::vector<TileCount>> tiles{};
  std::vector<TensorMapInfo> tensorMaps{};
  std::vector<WarpRole> roles{}; // of the block's warps, in order; none: all are alike
  /// What its reference takes in fp64, in an order that its family knows; none: about as many as
  /// there are elements.
  SizeProduct multiplyAdds{};
};

struct LaunchPlan {
  std::string function;
  std::vector<TensorInfo> inputs;
  std::vector<TensorInfo> outputs;
  /// Of a program over lists: the last inputs are the table (TensorLists), two for each part, then
  /// the counter if it counts.
  ListsInfo lists;
  std::vector<WorkspaceInfo> workspaces;
  std::vector<KernelLaunch> kernels; // launched in this order on one stream
};

/// One line of JSON; `parseLaunchPlan(toJson(plan))` gives the plan back.
std::string toJson(const LaunchPlan& plan);
LaunchPlan parseLaunchPlan(std::string_view json); // throws Error(input)
/// Finds the line `// kiln.launch {...}` in CUDA text.
LaunchPlan launchPlanOfCuda(std::string_view cuda); // throws Error(input)

/// A plan with all run-time sizes filled in for one set of arguments.
struct ResolvedKernel {
  std::int64_t blocks = 0;               // of all dimensions; 0: nothing to launch
  std::array<std::int64_t, 3> grid = {}; // x, y, z
  /// Pointer or i64, in order; where a tensor map is passed, the pointer that it shows.
  std::vector<std::uint64_t> arguments;
  std::vector<TensorMapView> maps; // as in KernelLaunch::tensorMaps
};
struct ResolvedLaunch {
  std::vector<ResolvedKernel> kernels;
  std::size_t workspaceBytes = 0;
};

/// Checks every buffer against the plan (count, rank, sizes, strides, alignment, symbols that
/// must agree) and computes grids and argument values. `multiprocessors` is the device's.
/// With `workspace` null only sizes are computed. Throws Error(input) naming the argument.
ResolvedLaunch resolve(const LaunchPlan& plan, std::span<const Buffer> inputs,
                       std::span<const Buffer> outputs, int multiprocessors, void* workspace);

} // namespace kiln
