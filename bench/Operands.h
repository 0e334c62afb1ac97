// Device memory for timing a program: enough sets of inputs and outputs that nothing is still in
// the L2 cache when it is used again, filled with numbers that training might have.
#pragma once

#include "codegen/backend/Driver.h"
#include "kiln/kiln.h"

namespace kiln::bench {

class Operands {
 public:
  /// Tensors for `program` with these run-time sizes; 4 to 64 sets.
  Operands(const Program& program, std::span<const std::int64_t> sizes);

  std::size_t sets() const { return inputs_.size(); }
  std::span<const Buffer> inputs(std::size_t set) const { return inputs_[set % sets()]; }
  std::span<const Buffer> outputs(std::size_t set) const { return outputs_[set % sets()]; }
  std::int64_t bytes() const { return bytes_; } // read and written by one launch
  /// Copies half as many bytes as one launch moves, from one set of buffers to another.
  void copy(CuStream stream, int index) const;

 private:
  std::vector<DeviceBuffer> memory_;
  std::vector<std::vector<Buffer>> inputs_, outputs_;
  std::vector<DeviceBuffer> copies_;
  std::int64_t bytes_ = 0;
};

} // namespace kiln::bench
