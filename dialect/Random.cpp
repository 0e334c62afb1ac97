// See Random.h.
#include "dialect/Random.h"

#include <algorithm>
#include <cmath>

namespace kiln::ir {

std::array<uint32_t, 4> philox(uint64_t key, uint64_t low, uint64_t high) {
  auto lower = [](uint64_t wide) { return static_cast<uint32_t>(wide); };
  auto upper = [](uint64_t wide) { return static_cast<uint32_t>(wide >> 32); };
  std::array<uint32_t, 4> c{lower(low), upper(low), lower(high), upper(high)};
  uint32_t k0 = lower(key), k1 = upper(key);
  for (int round = 0; round < 10; ++round) {
    uint64_t a = uint64_t{0xd2511f53} * c[0], b = uint64_t{0xcd9e8d57} * c[2];
    c = {upper(b) ^ c[1] ^ k0, lower(b), upper(a) ^ c[3] ^ k1, lower(a)};
    k0 += 0x9e3779b9; // the golden ratio
    k1 += 0xbb67ae85; // sqrt(3) - 1
  }
  return c;
}

RandomNumbers::RandomNumbers(const Tensor64& seed, const Tensor64& offset, int64_t bits)
    : seed_(static_cast<int64_t>(seed.data[0])), offset_(static_cast<int64_t>(offset.data[0])),
      bits_(bits) {}

uint32_t RandomNumbers::word(int64_t index) const {
  const int64_t ofWord = 32 / bits_, ofCounter = 4 * ofWord;
  const uint32_t word = philox(seed_, index / ofCounter, offset_)[index % ofCounter / ofWord];
  return word >> index % ofWord * bits_ << (32 - bits_);
}

DropoutRule::DropoutRule(double p)
    : bits(std::min(p, 1.0 - p) * 128 >= 1 ? 16 : 32), scale(static_cast<float>(1.0 / (1.0 - p))) {
  const double steps = std::exp2(bits);
  least = std::round(p * steps) / steps * 0x1p32 - 0x1p31;
}

} // namespace kiln::ir
