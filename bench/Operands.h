// Device memory for timing a program: enough sets of inputs and outputs that nothing is still in
// the L2 cache when it is used again, filled with numbers that training might have.
#pragma once

#include "codegen/program/PlainCopy.h"
#include "kiln/kiln.h"

namespace kiln::bench {

class Operands {
 public:
  /// Tensors for `program` with these run-time sizes; 4 to 64 sets. `nvrtc` as in CompileOptions.
  Operands(const Program& program, std::span<const std::int64_t> sizes,
           const std::filesystem::path& nvrtc = {});

  std::size_t sets() const { return inputs_.size(); }
  std::span<const Buffer> inputs(std::size_t set) const { return inputs_[set % sets()]; }
  std::span<const Buffer> outputs(std::size_t set) const { return outputs_[set % sets()]; }
  std::int64_t bytes() const { return bytes_; } // read and written by one launch
  /// Moves as many bytes as one launch, in buffers of its own.
  const program::PlainCopy& copy() const { return *copy_; }

 private:
  std::vector<DeviceBuffer> memory_;
  std::vector<std::vector<Buffer>> inputs_, outputs_;
  std::optional<program::PlainCopy> copy_;
  std::int64_t bytes_ = 0;
};

} // namespace kiln::bench
