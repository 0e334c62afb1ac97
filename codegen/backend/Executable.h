// A compiled function in the driver, ready to be launched on every device of the process: what
// kiln::Executable is made of. Thread-safe; one object serves all threads and streams.
#pragma once

#include "codegen/backend/Driver.h"
#include "codegen/backend/Resolve.h"

#include <memory>
#include <mutex>

namespace kiln {

class LoadedProgram {
 public:
  /// Checks that plan and cubin agree, loads the code and makes it ready on the current device.
  /// Throws Error(unavailable) without a GPU or with one that the cubin is not for,
  /// Error(input) for a contradiction, Error(infeasible) if a block needs too much memory.
  LoadedProgram(const LaunchPlan& plan, std::span<const std::byte> cubin);

  const LaunchPlan& plan() const { return resolver.plan(); }

  /// Bytes of scratch memory for inputs of these sizes on the current device.
  std::size_t workspaceBytes(std::span<const Buffer> inputs,
                             std::span<const Buffer> outputs = {}) const;

  std::size_t workspaceBytes(std::span<const std::int64_t> sizes) const;

  /// Checks the buffers and enqueues the kernels on `stream` of the current context. Allocates no
  /// device memory, waits for nothing: safe inside graph capture. The first launch on a further
  /// device makes the code ready there.
  void launch(std::span<const Buffer> inputs, std::span<const Buffer> outputs, void* workspace,
              void* stream, const LaunchOptions& options = {}) const;
  /// The same for contiguous tensors that the caller has checked, as in Resolver::resolve.
  void launch(std::span<const std::int64_t> sizes, std::span<void* const> pointers, void* workspace,
              void* stream, const LaunchOptions& options = {}) const;

 private:
  template <typename Resolve>
  void launchResolved(const Resolve& resolve, void* stream, const LaunchOptions& options) const;
  void checkDevice(const DeviceInfo& device) const;
  void prepare(const DeviceInfo& device) const;

  Resolver resolver;
  int capability = 0;                         // of the cubin
  std::size_t epilogue = 0;                   // kernels from here on read only the workspace
  std::vector<std::int64_t> staticShared;     // per kernel
  std::unique_ptr<std::once_flag[]> prepared; // per device
  std::unique_ptr<LoadedCubin> code;
  std::vector<CuKernel> kernels;
};

} // namespace kiln
