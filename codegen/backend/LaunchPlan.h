// How the kernels of one compiled function are launched: buffers, grids, argument lists.
// The plan travels as JSON in a comment of the generated CUDA text, so that what is launched
// can never disagree with what was printed, also after somebody edited the text.
#pragma once

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
  enum class Kind { buffer, rows, size, stride, blocks } kind = Kind::buffer;
  std::string name;    // buffer, stride: a name of inputs, outputs or workspaces
  int dimension = 0;   // stride: dimension of that buffer
  SizeProduct product; // rows, size
  int kernel = 0;      // blocks: index of the kernel whose grid size is passed (as i64)
  int parts = 0;       // blocks: only those of so many of its first parts; 0: all
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
  enum class Grid { oneShot, resident, fixed } grid = Grid::oneShot;
  std::int64_t rowsPerBlock = 1; // oneShot, resident: of a block, or the cluster that shares them
  std::int64_t blocks = 0;       // resident: per SM; fixed: of the whole grid
  SizeProduct rows;              // oneShot, resident
  /// oneShot: the rows of further parts, each of which begins with a block of its own.
  std::vector<SizeProduct> further{};
  std::vector<KernelArgument> arguments; // pointers and i64 values
};

struct LaunchPlan {
  std::string function;
  std::vector<TensorInfo> inputs;
  std::vector<TensorInfo> outputs;
  /// Of a program over lists: the last inputs are the table (TensorLists), two for each part.
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
  std::int64_t blocks = 0;              // 0: nothing to launch
  std::vector<std::uint64_t> arguments; // pointer or i64, in order
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
