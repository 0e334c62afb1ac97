// A launch plan made ready for many launches: names looked up and numbers checked once, so that
// filling in the run-time sizes of one launch touches no string. Immutable and thread-safe.
#pragma once

#include "codegen/backend/Symbols.h"

namespace kiln {

class Resolver {
 public:
  /// Throws Error(input) if the plan contradicts itself.
  explicit Resolver(const LaunchPlan& plan);

  const LaunchPlan& plan() const { return launchPlan; }

  /// Bytes of scratch memory for tensors of these sizes; pointers are not looked at. No outputs:
  /// the inputs alone tell the sizes.
  std::size_t workspaceBytes(std::span<const Buffer> inputs, std::span<const Buffer> outputs,
                             int multiprocessors) const;

  /// Fills `result`, whose memory is reused. Checks every buffer; throws Error(input).
  void resolve(std::span<const Buffer> inputs, std::span<const Buffer> outputs, int multiprocessors,
               void* workspace, ResolvedLaunch& result) const;

  /// The same for tensors that the caller has checked, packed where the plan leaves a stride to run
  /// time: `sizes` by symbol, `pointers` of the inputs, then of the outputs. Throws Error(input)
  /// for too few or too many of either.
  void resolve(std::span<const std::int64_t> sizes, std::span<void* const> pointers,
               int multiprocessors, void* workspace, ResolvedLaunch& result) const;
  std::size_t workspaceBytes(std::span<const std::int64_t> sizes, int multiprocessors) const;

  /// Checks and grids without pointers: arguments stay empty.
  void resolveSizes(std::span<const Buffer> inputs, std::span<const Buffer> outputs,
                    int multiprocessors, ResolvedLaunch& result) const;

 private:
  struct Source { // where an argument's value comes from
    enum class Space { none, input, output, workspace } space = Space::none;
    std::size_t index = 0;
  };

  std::int64_t blocksOf(const KernelLaunch& kernel, std::size_t parts,
                        const Symbols& symbols) const;
  std::int64_t gridOf(const KernelLaunch& kernel, const Symbols& symbols,
                      int multiprocessors) const;
  std::int64_t layOutTiles(const KernelLaunch& kernel, const Symbols& symbols, int multiprocessors,
                           std::array<std::int64_t, 3>& grid) const;
  std::int64_t workspaceSize(const WorkspaceInfo& workspace, const ResolvedLaunch& result,
                             const Symbols& symbols) const;
  void layOut(const Symbols& symbols, int multiprocessors, ResolvedLaunch& result) const;
  Source sourceOf(const KernelArgument& argument) const;
  Symbols symbolsOf(std::span<const std::int64_t> sizes) const;
  void checkWorkspace(const void* workspace, std::size_t bytes) const;
  template <typename Pointer, typename Stride>
  void fill(const Symbols& symbols, void* workspace, ResolvedLaunch& result,
            const Pointer& pointerOf, const Stride& strideOf) const;

  template <typename Stride>
  void fillMaps(std::size_t k, const Symbols& symbols, ResolvedKernel& result,
                const Stride& strideOf) const;

  LaunchPlan launchPlan;
  std::vector<std::vector<Source>> sources; // per kernel, per argument
  std::size_t symbolCount = 0;
};

} // namespace kiln
