// Numbers in memory, as their types round them.
#include "codegen/program/Tensors.h"

#include "llvm/ADT/APFloat.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <random>

namespace kiln::test {
namespace {

std::uint16_t byLlvm(DType dtype, double number) {
  llvm::APFloat value(number);
  bool lossy;
  value.convert(dtype == DType::bf16 ? llvm::APFloat::BFloat() : llvm::APFloat::IEEEhalf(),
                llvm::APFloat::rmNearestTiesToEven, &lossy);
  return static_cast<std::uint16_t>(value.bitcastToAPInt().getZExtValue());
}

/// Any bits, and numbers near those that the type has: halfway between two, the largest, the
/// smallest, below those.
TEST(Tensors, AreRoundedToNearestTiesToEven) {
  std::mt19937_64 random(11);
  for (const DType dtype : {DType::bf16, DType::f16})
    for (int i = 0; i < 400'000; ++i) {
      double number = std::bit_cast<double>(random());
      if (i % 4 != 0) {
        const auto bits = static_cast<std::uint16_t>(random());
        std::byte bytes[2];
        std::memcpy(bytes, &bits, sizeof bits);
        number = program::load(dtype, bytes);
        if (i % 4 > 1)
          number *=
              1.0 + std::ldexp(static_cast<double>(random() % 17) - 8.0, i % 4 == 2 ? -12 : -9);
        if (i % 16 == 3)
          number = std::nextafter(number, i % 32 == 3 ? 1e300 : -1e300);
      }
      if (std::isnan(number))
        continue;
      std::uint16_t stored = 0;
      std::byte bytes[2];
      program::store(dtype, number, bytes);
      std::memcpy(&stored, bytes, sizeof stored);
      ASSERT_EQ(stored, byLlvm(dtype, number)) << number;
    }
}

/// Of a large tensor rows hold other numbers, and what is written is what is read.
TEST(Tensors, LargeOnesAreDrawnWrittenAndRead) {
  TensorInfo info;
  info.dtype = DType::bf16;
  info.shape = {{3, -1}, {1 << 10, -1}, {1 << 9, -1}};
  info.strides = {(1 << 19) + 64, 1 << 9, 1}; // a gap between
  std::mt19937_64 random(13);
  const ir::Tensor64 drawn = program::draw(info, {}, random);
  program::HostTensor tensor(info, program::sizesOf(info, {}));
  tensor.write(drawn);
  const ir::Tensor64 read = tensor.read();
  ASSERT_EQ(read.size(), drawn.size());
  std::byte bytes[2];
  for (std::int64_t i = 0; i < read.size(); ++i) {
    program::store(info.dtype, drawn.data[i], bytes);
    ASSERT_EQ(read.data[i], program::load(info.dtype, bytes)) << i;
    ASSERT_EQ(read.data[i], program::load(info.dtype, tensor.data().data() + tensor.offsetOf(i)));
  }
  const std::int64_t width = 1 << 9;
  for (std::int64_t apart : {1, 2, 64, 512, 1024, 2048})
    EXPECT_FALSE(std::equal(read.row(0), read.row(0) + width, read.row(apart))) << apart;
  EXPECT_TRUE(tensor.guardsIntact());
}

/// Where elements share their place, the last one that is written stays.
TEST(Tensors, ElementsThatShareTheirPlaceAreWrittenInOrder) {
  TensorInfo info;
  info.dtype = DType::f32;
  info.shape = {{1 << 12, -1}, {1 << 8, -1}};
  info.strides = {0, 1};
  std::mt19937_64 random(17);
  const ir::Tensor64 drawn = program::draw(info, {}, random);
  program::HostTensor tensor(info, program::sizesOf(info, {}));
  tensor.write(drawn);
  const ir::Tensor64 read = tensor.read();
  for (std::int64_t c = 0; c < read.width(); ++c)
    EXPECT_EQ(read.row(5)[c], static_cast<float>(drawn.row(drawn.rows() - 1)[c]));
}

} // namespace
} // namespace kiln::test
