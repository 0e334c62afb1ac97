// A kernel in the driver, and memory around which nothing may be written.
#pragma once

#include "codegen/backend/Executable.h"
#include "codegen/program/Tensors.h"

#include <memory>
#include <optional>
#include <span>

namespace kiln::autotune {

/// Device memory between zones that stay as they are; all of it is filled with bytes that are NaNs
/// in every type.
class Guarded {
 public:
  static constexpr std::size_t zone = std::size_t{1} << 16;

  /// The memory begins at a multiple of `alignment` that is no multiple of twice as much.
  explicit Guarded(std::size_t bytes, std::size_t alignment = zone)
      : bytes(bytes), start(zone + alignment % zone), memory(start + bytes + zone) {
    poison();
  }
  std::byte* data() const { return static_cast<std::byte*>(memory.data()) + start; }
  void poison() { memory.fill(0xff); }
  void upload(std::span<const std::byte> values);
  struct Content {
    std::unique_ptr<std::byte[]> memory;
    std::span<const std::byte> values; // in it
    bool intact = false;               // the zones
  };
  Content download() const;

 private:
  std::size_t bytes, start;
  DeviceBuffer memory;
};

/// Loaded, with its scratch memory for timing.
struct GpuKernel {
  GpuKernel(LaunchPlan launchPlan, std::span<const std::byte> cubin)
      : plan(std::move(launchPlan)), program(plan, cubin) {}
  LaunchPlan plan;
  LoadedProgram program;
  std::optional<DeviceBuffer> workspace;
  std::optional<Graph> graph; // of as many launches as the timer wants
  int launches = 0;
};

} // namespace kiln::autotune
