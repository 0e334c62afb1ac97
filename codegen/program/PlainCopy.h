// A plain copy of as many bytes as one launch of a program moves: the honest floor of its time.
// Two ways to copy, of which the faster counts: a kernel that Kiln compiles, and the driver's own
// copy, which as a node of a graph was measured 1.45 times slower than a kernel. In a header, so
// that the library and the benchmarks, which see only its public functions, share it.
#pragma once

#include "codegen/backend/Driver.h"
#include "kiln/kiln.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <random>

namespace kiln::program {

class PlainCopy {
 public:
  /// Reads half of `bytes` and writes the other half, in turn on `sets` pairs of buffers.
  /// Compiles for the architecture and with the NVRTC of `options`.
  PlainCopy(std::int64_t bytes, std::int64_t sets, const CompileOptions& options)
      : rows((bytes / 2 + rowBytes - 1) / rowBytes) {
    CompileOptions own;
    own.arch = options.arch;
    own.nvrtc = options.nvrtc;
    own.schedule = "#kiln.schedule<lanes = 32, vector = 4, rows = 1, threads = 256, blocks = 8, "
                   "grid = one_shot, keep = registers, launch = plain>";
    executable.emplace(Program::compile(
        Module::parse("func.func @copy(%x: tensor<?x128xf32>) -> tensor<?x128xf32> {\n"
                      "  return %x : tensor<?x128xf32>\n}\n",
                      "copy"),
        own));
    // Drawing gigabytes on the host would take half a minute.
    const std::vector<std::byte> noise = makeNoise(std::min(rows * rowBytes, kDrawn));
    for (std::int64_t i = 0; i < sets; ++i)
      for (std::vector<Buffer>* side : {&from, &to}) {
        DeviceBuffer& buffer = memory.emplace_back(rows * rowBytes);
        buffer.repeat(noise);
        side->push_back({buffer.data(), {rows, 128}, {}});
      }
  }

  /// By a kernel.
  void kernel(CuStream stream, int index) const {
    std::size_t set = index % from.size();
    executable->launch({&from[set], 1}, {&to[set], 1}, nullptr, stream);
  }
  /// By the driver.
  void node(CuStream stream, int index) const {
    std::size_t set = index % from.size();
    const Driver& driver = Driver::get();
    driver.check(
        driver.cuMemcpyDtoDAsync(address(to[set]), address(from[set]), rows * rowBytes, stream),
        "cuMemcpyDtoDAsync");
  }

 private:
  static constexpr std::int64_t rowBytes = 512;
  static constexpr std::int64_t kDrawn = std::int64_t(16) << 20; // bytes; the rest repeats them

  static CuPointer address(const Buffer& buffer) {
    return reinterpret_cast<CuPointer>(buffer.data);
  }
  /// Bits without a pattern: copying constants draws less power.
  static std::vector<std::byte> makeNoise(std::int64_t bytes) {
    std::vector<std::byte> data(bytes);
    std::mt19937 random(1);
    for (std::size_t i = 0; i + 4 <= data.size(); i += 4) {
      std::uint32_t word = static_cast<std::uint32_t>(random());
      std::memcpy(&data[i], &word, 4);
    }
    return data;
  }

  std::int64_t rows;
  std::optional<Executable> executable;
  std::vector<DeviceBuffer> memory;
  std::vector<Buffer> from, to;
};

} // namespace kiln::program
