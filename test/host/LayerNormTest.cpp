// LayerNorm forward and backward on the host target against fp64, over widths, schedules and row
// counts that do and do not fill tiles; bitwise equality whatever the order of the blocks.
#include "test/host/Harness.h"
#include "test/host/LayerNormText.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>

namespace kiln::test {
namespace {

/// A tensor in its storage type and the same values, as rounded, in double.
struct Tensor {
  Tensor(DType dtype, std::vector<std::int64_t> sizes) : dtype(dtype), sizes(sizes) {
    for (std::int64_t size : sizes)
      count *= static_cast<std::size_t>(size);
    bytes.assign(count * sizeInBytes(dtype), 0xff);
  }
  double get(std::size_t i) const {
    if (dtype == DType::f32) {
      float value;
      std::memcpy(&value, &bytes[i * 4], 4);
      return value;
    }
    std::uint16_t bits;
    std::memcpy(&bits, &bytes[i * 2], 2);
    if (dtype == DType::bf16)
      return std::bit_cast<float>(std::uint32_t(bits) << 16);
    double magnitude = bits & 0x7c00 ? std::ldexp(0x400 | (bits & 0x3ff), (bits >> 10 & 31) - 25)
                                     : std::ldexp(bits & 0x3ff, -24);
    return bits & 0x8000 ? -magnitude : magnitude;
  }
  /// Values here need not be rounded to nearest: a short mantissa is enough.
  void set(std::size_t i, float value) {
    if (dtype == DType::f32) {
      std::memcpy(&bytes[i * 4], &value, 4);
      return;
    }
    auto bits = std::bit_cast<std::uint32_t>(value);
    auto half = static_cast<std::uint16_t>(bits >> 16);
    if (dtype == DType::f16) {
      int exponent = static_cast<int>(bits >> 23 & 0xff) - 127 + 15;
      half = static_cast<std::uint16_t>(bits >> 16 & 0x8000);
      if (exponent > 0)
        half = static_cast<std::uint16_t>(half | exponent << 10 | (bits >> 13 & 0x3ff));
    }
    std::memcpy(&bytes[i * 2], &half, 2);
  }
  Tensor& random(unsigned seed, float mean, float deviation) {
    std::mt19937 engine(seed);
    std::normal_distribution<float> normal(mean, deviation);
    for (std::size_t i = 0; i < count; ++i)
      set(i, normal(engine));
    return *this;
  }
  Buffer buffer() { return {bytes.data(), sizes, {}}; }

  DType dtype;
  std::vector<std::int64_t> sizes;
  std::size_t count = 1;
  std::vector<unsigned char> bytes;
};

double tolerance(DType dtype) {
  return dtype == DType::f32 ? 2e-5 : dtype == DType::f16 ? 2e-3 : 1e-2;
}

void expectClose(const char* name, const Tensor& got, const std::vector<double>& want,
                 double allowed) {
  for (std::size_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(got.get(i), want[i], allowed * (1 + std::abs(want[i]))) << name << "[" << i << "]";
}

struct Case {
  LayerNormSchedule schedule;
  std::vector<std::int64_t> rowCounts;
};

class LayerNorm : public testing::TestWithParam<Case> {};

struct Forward {
  Forward(const LayerNormSchedule& s, std::int64_t rows)
      : x(s.dtype, {rows, s.columns}), gamma(DType::f32, {s.columns}),
        beta(DType::f32, {s.columns}), y(s.dtype, {rows, s.columns}), mean(DType::f32, {rows}),
        rstd(DType::f32, {rows}) {
    x.random(1, 0.5f, 2.0f);
    gamma.random(2, 1.0f, 0.3f);
    beta.random(3, 0.0f, 0.5f);
  }
  void run(const HostProgram& program, const HostRunOptions& options = {}) {
    std::vector<Buffer> inputs = {x.buffer(), gamma.buffer(), beta.buffer()};
    std::vector<Buffer> outputs = {y.buffer(), mean.buffer(), rstd.buffer()};
    program.run(inputs, outputs, options);
  }
  Tensor x, gamma, beta, y, mean, rstd;
};

void checkForward(const Forward& f, const LayerNormSchedule& s, std::int64_t rows) {
  std::vector<double> y(f.y.count), mean(rows), rstd(rows);
  for (std::int64_t r = 0; r < rows; ++r) {
    double sum = 0, squares = 0;
    for (int c = 0; c < s.columns; ++c)
      sum += f.x.get(r * s.columns + c);
    mean[r] = sum / s.columns;
    for (int c = 0; c < s.columns; ++c)
      squares += std::pow(f.x.get(r * s.columns + c) - mean[r], 2);
    rstd[r] = 1 / std::sqrt(squares / s.columns + 1e-5);
    for (int c = 0; c < s.columns; ++c)
      y[r * s.columns + c] =
          (f.x.get(r * s.columns + c) - mean[r]) * rstd[r] * f.gamma.get(c) + f.beta.get(c);
  }
  expectClose("mean", f.mean, mean, 2e-5);
  expectClose("rstd", f.rstd, rstd, 2e-5);
  expectClose("y", f.y, y, tolerance(s.dtype));
}

struct Backward {
  Backward(const LayerNormSchedule& s, std::int64_t rows, const Forward& f)
      : x(f.x), gamma(f.gamma), mean(DType::f32, {rows}), rstd(DType::f32, {rows}),
        dy(s.dtype, {rows, s.columns}), dx(s.dtype, {rows, s.columns}),
        dgamma(DType::f32, {s.columns}), dbeta(DType::f32, {s.columns}) {
    dy.random(4, 0.1f, 1.0f);
    mean.random(5, 0.5f, 0.2f); // any statistics do: the formula is linear in what depends on them
    rstd.random(6, 0.5f, 0.05f);
  }
  void run(const HostProgram& program, const HostRunOptions& options = {}) {
    std::vector<Buffer> inputs = {dy.buffer(), x.buffer(), gamma.buffer(), mean.buffer(),
                                  rstd.buffer()};
    std::vector<Buffer> outputs = {dx.buffer(), dgamma.buffer(), dbeta.buffer()};
    program.run(inputs, outputs, options);
  }
  Tensor x, gamma, mean, rstd, dy, dx, dgamma, dbeta;
};

void checkBackward(const Backward& b, const LayerNormSchedule& s, std::int64_t rows) {
  std::vector<double> dx(b.dx.count), dgamma(s.columns), dbeta(s.columns);
  for (std::int64_t r = 0; r < rows; ++r) {
    double sum = 0, product = 0;
    auto at = [&](int c) { return static_cast<std::size_t>(r * s.columns + c); };
    auto normal = [&](int c) { return (b.x.get(at(c)) - b.mean.get(r)) * b.rstd.get(r); };
    for (int c = 0; c < s.columns; ++c) {
      double dy = b.dy.get(at(c));
      sum += dy * b.gamma.get(c);
      product += dy * b.gamma.get(c) * normal(c);
      dgamma[c] += dy * normal(c);
      dbeta[c] += dy;
    }
    for (int c = 0; c < s.columns; ++c)
      dx[at(c)] = b.rstd.get(r) * (b.dy.get(at(c)) * b.gamma.get(c) - sum / s.columns -
                                   normal(c) * product / s.columns);
  }
  expectClose("dx", b.dx, dx, tolerance(s.dtype));
  expectClose("dgamma", b.dgamma, dgamma, 1e-4);
  expectClose("dbeta", b.dbeta, dbeta, 1e-4);
}

TEST_P(LayerNorm, ForwardAgreesWithDouble) {
  const auto& [schedule, rowCounts] = GetParam();
  KernelText text = layerNormForward(schedule);
  HostProgram program(text.plan, text.cuda);
  for (std::int64_t rows : rowCounts) {
    Forward forward(schedule, rows);
    forward.run(program);
    checkForward(forward, schedule, rows);
  }
}

TEST_P(LayerNorm, BackwardAgreesWithDouble) {
  const auto& [schedule, rowCounts] = GetParam();
  KernelText text = layerNormBackward(schedule);
  HostProgram program(text.plan, text.cuda);
  for (std::int64_t rows : rowCounts) {
    Backward backward(schedule, rows, Forward(schedule, rows));
    backward.run(program);
    checkBackward(backward, schedule, rows);
  }
}

TEST_P(LayerNorm, OrderOfBlocksChangesNothing) {
  const auto& [schedule, rowCounts] = GetParam();
  KernelText text = layerNormBackward(schedule);
  HostProgram program(text.plan, text.cuda);
  std::int64_t rows = rowCounts.back();
  Backward first(schedule, rows, Forward(schedule, rows)), second = first, third = first;
  first.run(program, {.multiprocessors = 3});
  second.run(program, {.multiprocessors = 3, .order = BlockOrder::reversed});
  third.run(program, {.multiprocessors = 3, .order = BlockOrder::shuffled, .seed = 7});
  for (const Backward* other : {&second, &third}) {
    EXPECT_EQ(first.dx.bytes, other->dx.bytes);
    EXPECT_EQ(first.dgamma.bytes, other->dgamma.bytes);
    EXPECT_EQ(first.dbeta.bytes, other->dbeta.bytes);
  }
}

const Case cases[] = {
    {{.columns = 128}, {1, 31, 32, 33, 100}},
    {{.columns = 128, .lanes = 16, .rows = 1, .threads = 256, .sharedTile = true}, {1, 40}},
    {{.columns = 64, .lanes = 8, .vector = 8, .rows = 2, .threads = 64, .dtype = DType::f16},
     {5, 16}},
    {{.columns = 77, .lanes = 32, .vector = 1, .rows = 2, .threads = 128, .dtype = DType::f32},
     {1, 8, 19}},
    {{.columns = 77, .lanes = 64, .vector = 1, .rows = 1, .threads = 128}, {1, 2, 7}},
    {{.columns = 1, .lanes = 1, .vector = 1, .rows = 1, .threads = 32, .dtype = DType::f32},
     {1, 40}},
    {{.columns = 12, .lanes = 2, .vector = 4, .rows = 3, .threads = 32, .dtype = DType::f32},
     {1, 50}},
    {{.columns = 768, .lanes = 96, .vector = 8, .rows = 1, .threads = 192}, {1, 5}},
    {{.columns = 1024, .lanes = 64, .vector = 4, .rows = 2, .threads = 128, .dtype = DType::f32},
     {1, 3, 9}},
    {{.columns = 1024, .lanes = 128, .vector = 8, .rows = 1, .threads = 256, .sharedTile = true},
     {3}},
    {{.columns = 5120, .lanes = 256, .vector = 8, .rows = 1, .threads = 256, .sharedTile = true},
     {3}},
    {{.columns = 8190, .lanes = 512, .vector = 2, .rows = 1, .threads = 512}, {2}},
    {{.columns = 4096, .lanes = 1024, .vector = 4, .rows = 1, .threads = 1024, .dtype = DType::f32},
     {3}},
};

std::string caseName(const testing::TestParamInfo<Case>& info) {
  const LayerNormSchedule& s = info.param.schedule;
  return fmt::format("{}_{}_lanes{}_vector{}_rows{}_threads{}{}", name(s.dtype), s.columns, s.lanes,
                     s.vector, s.rows, s.threads, s.sharedTile ? "_shared" : "");
}

INSTANTIATE_TEST_SUITE_P(Schedules, LayerNorm, testing::ValuesIn(cases), caseName);

TEST(LayerNormEmpty, NoRowsGiveZeroGradients) {
  LayerNormSchedule schedule;
  KernelText text = layerNormBackward(schedule);
  HostProgram program(text.plan, text.cuda);
  Backward backward(schedule, 0, Forward(schedule, 0));
  backward.run(program);
  checkBackward(backward, schedule, 0);
}

TEST(LayerNormRaces, OneScratchForTwoReductionsIsReported) {
  LayerNormSchedule schedule = {.columns = 1024, .lanes = 128, .rows = 1, .threads = 128};
  schedule.sameScratch = true;
  KernelText text = layerNormForward(schedule);
  HostProgram program(text.plan, text.cuda);
  Forward forward(schedule, 1);
  std::string error = errorOf(ErrorKind::verification, [&] { forward.run(program); });
  EXPECT_NE(error.find("forward: block 0 thread "), std::string::npos) << error;
  EXPECT_NE(error.find("no barrier lies between"), std::string::npos) << error;
}

TEST(LayerNormRaces, LoopWithoutBarrierIsReported) {
  LayerNormSchedule schedule = {.columns = 1024, .lanes = 128, .rows = 1, .threads = 128};
  schedule.loopBarrier = false;
  KernelText text = layerNormBackward(schedule);
  HostProgram program(text.plan, text.cuda);
  Backward backward(schedule, 5, Forward(schedule, 5));
  std::string error = errorOf(ErrorKind::verification, [&] { backward.run(program); });
  EXPECT_NE(error.find("no barrier lies between"), std::string::npos) << error;
}

} // namespace
} // namespace kiln::test
