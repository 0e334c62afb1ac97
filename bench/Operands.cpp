// See Operands.h.
#include "bench/Operands.h"

#include <algorithm>
#include <cstring>
#include <random>

namespace kiln::bench {

static std::vector<std::byte> randomBytes(DType dtype, std::int64_t count, unsigned seed) {
  std::vector<std::byte> bytes(count * sizeInBytes(dtype));
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  // A block of numbers, repeated: drawing hundreds of millions would take longer than timing.
  constexpr std::int64_t block = 1 << 16;
  std::vector<std::byte> some(std::min(count, block) * sizeInBytes(dtype));
  for (std::size_t i = 0; i < some.size() / sizeInBytes(dtype); ++i) {
    float value = normal(random);
    auto bits = __builtin_bit_cast(std::uint32_t, value);
    if (dtype == DType::f32)
      std::memcpy(&some[4 * i], &value, 4);
    else if (dtype == DType::bf16)
      std::memcpy(&some[2 * i], reinterpret_cast<char*>(&bits) + 2, 2);
    else if (dtype == DType::f16)
      some[2 * i] = std::byte(bits >> 16), some[2 * i + 1] = std::byte{0x3c}; // 1 to 2
    else // masks are open, as those of whole crops and of texts without padding are
      some[sizeInBytes(dtype) * i] = std::byte(dtype == DType::i1 || bits & 1);
  }
  for (std::size_t at = 0; at < bytes.size(); at += some.size())
    std::memcpy(&bytes[at], some.data(), std::min(some.size(), bytes.size() - at));
  return bytes;
}

Operands::Operands(const Program& program, std::span<const std::int64_t> symbols,
                   const std::filesystem::path& nvrtc) {
  auto sizesOf = [&](const TensorInfo& info) {
    std::vector<std::int64_t> sizes;
    for (const Extent& extent : info.shape)
      sizes.push_back(extent.isStatic()
                          ? extent.size
                          : symbols[std::min<std::size_t>(extent.symbol, symbols.size() - 1)]);
    return sizes;
  };
  auto countOf = [](const std::vector<std::int64_t>& sizes) {
    std::int64_t count = 1;
    for (std::int64_t size : sizes)
      count *= size;
    return count;
  };
  for (auto* group : {&program.inputs(), &program.outputs()})
    for (const TensorInfo& info : *group)
      bytes_ += countOf(sizesOf(info)) * static_cast<std::int64_t>(sizeInBytes(info.dtype));
  const std::int64_t l2 = Driver::get().currentDevice().l2Bytes;
  const std::int64_t sets = std::clamp<std::int64_t>(12 * l2 / bytes_ + 1, 4, 64);
  inputs_.resize(sets);
  outputs_.resize(sets);
  auto add = [&](const TensorInfo& info, std::vector<std::vector<Buffer>>& to, bool fill) {
    auto sizes = sizesOf(info);
    std::size_t bytes = countOf(sizes) * sizeInBytes(info.dtype);
    // Tensors differ: a query that is its own key would be its softmax's only place.
    auto data = randomBytes(info.dtype, fill ? countOf(sizes) : 0,
                            static_cast<unsigned>(memory_.size() + 1));
    for (auto& set : to) {
      DeviceBuffer& buffer = memory_.emplace_back(fill ? bytes : std::max<std::size_t>(bytes, 16));
      if (fill)
        buffer.upload(data);
      set.push_back({buffer.data(), sizes, {}});
    }
  };
  for (const TensorInfo& info : program.inputs())
    add(info, inputs_, true);
  for (const TensorInfo& info : program.outputs())
    add(info, outputs_, false);
  CompileOptions options;
  options.arch = program.arch();
  options.nvrtc = nvrtc;
  copy_.emplace(bytes_, sets, options);
}

} // namespace kiln::bench
