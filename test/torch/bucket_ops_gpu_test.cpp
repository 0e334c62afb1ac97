// Kernels of buckets on a GPU: ATen's bits, launches counted, captured and replayed. Skips without
// a GPU. On the host target they are compared with fp64 in test/dist/bucket_ops_test.cpp.
#include "test/torch/OptimHelpers.h"

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <kiln/bucket_ops.h>

using namespace kiln;
using namespace kiln::test;
using at::Tensor;

namespace {

class BucketOpsGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA())
      GTEST_SKIP() << "this LibTorch sees no GPU";
    at::manual_seed(3);
    enable();
  }
  void TearDown() override { disable(); }
};

Tensors drawn(at::ScalarType dtype) {
  Tensors all;
  for (const std::int64_t length : {0, 1, 3, 1023, 1025, 2050, 9001, 1 << 20})
    all.push_back(at::randn({length}, onGpu()).to(dtype));
  return all;
}

/// What `work` writes to tensors like `like`, of `dtype`, by Kiln's kernels, and by ATen's.
template <typename Work>
void expectATensBits(const Tensors& like, at::ScalarType dtype, const Work& work) {
  std::vector<Tensors> results;
  for (const bool byKiln : {true, false}) {
    Tensors to;
    for (const Tensor& one : like)
      to.push_back(at::full_like(one, std::nan(""), one.options().dtype(dtype)));
    const Guard guard(byKiln ? Mode::use : Mode::off);
    EXPECT_EQ(work(to), byKiln ? 1U : 0U);
    results.push_back(std::move(to));
  }
  for (std::size_t i = 0; i < like.size(); ++i)
    EXPECT_TRUE(at::equal(results[0][i], results[1][i])) << i << " " << dtype;
}

TEST_F(BucketOpsGpu, CpuAndGpuTakeTurns) {
  const Guard both(Mode::use);
  optim::ScaledCopy copy(0.125);
  for (const at::Device device : {at::kCPU, at::kCUDA, at::kCPU}) {
    const Tensors from = {at::randn({1025}).to(device), at::randn({3}).to(device)};
    const Tensors to = {at::empty_like(from[0]), at::empty_like(from[1])};
    copy.run(from, to);
    EXPECT_EQ(copy.launches(), 1U) << device;
    for (std::size_t i = 0; i < from.size(); ++i)
      EXPECT_TRUE(at::equal(to[i], from[i] / 8)) << device;
  }
}

TEST_F(BucketOpsGpu, ScaledCopiesHaveATensBits) {
  for (const auto from : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const auto to : {at::kFloat, at::kBFloat16}) {
      const Tensors gradients = drawn(from);
      // A power of two: ATen's copy in place rounds once before it scales.
      optim::ScaledCopy copy(1.0 / 8);
      expectATensBits(gradients, to, [&](const Tensors& targets) {
        copy.run(gradients, targets);
        return copy.launches();
      });
    }
}

TEST_F(BucketOpsGpu, SumsOfRanksHaveATensBits) {
  for (const int ranks : {2, 3, 8})
    for (const auto to : {at::kFloat, at::kBFloat16}) {
      Tensors parts;
      for (int i = 0; i < ranks; ++i)
        parts.push_back(at::randn({100'003}, onGpu()).to(at::kBFloat16));
      optim::OrderedSum sum;
      expectATensBits({parts[0]}, to, [&](const Tensors& target) {
        sum.run(parts, target[0]);
        return sum.launches();
      });
    }
}

TEST_F(BucketOpsGpu, SquaresAreThoseOfFp64) {
  Tensors tensors = drawn(at::kFloat);
  for (const Tensor& one : drawn(at::kBFloat16))
    tensors.push_back(one);
  double exact = 0;
  for (const Tensor& one : tensors)
    exact += one.to(at::kDouble).square().sum().item<double>();
  optim::SquareSum squares;
  const Tensor found = squares.run(tensors);
  EXPECT_EQ(squares.launches(), 1U);
  EXPECT_NEAR(found.item<double>(), exact, 1e-5 * exact);
  EXPECT_TRUE(at::equal(squares.run(tensors), found)) << "bit by bit";
}

TEST_F(BucketOpsGpu, AreCapturedAndReplayed) {
  const Tensors gradients = drawn(at::kFloat);
  Tensors sent;
  for (const Tensor& one : gradients)
    sent.push_back(at::zeros_like(one, one.options().dtype(at::kBFloat16)));
  optim::ScaledCopy copy(0.5);
  optim::SquareSum squares;
  Tensor square;
  const c10::cuda::CUDAStreamGuard side(c10::cuda::getStreamFromPool());
  copy.run(gradients, sent); // compiles
  squares.run(sent);
  at::cuda::CUDAGraph graph(/*keep_graph=*/true);
  graph.capture_begin();
  copy.run(gradients, sent);
  square = squares.run(sent);
  graph.capture_end();
  std::size_t nodes = 0;
  ASSERT_EQ(cudaGraphGetNodes(graph.raw_cuda_graph(), nullptr, &nodes), cudaSuccess);
  EXPECT_EQ(nodes, 2U) << "each a kernel, which reads where tensors lie in a table that is there";
  graph.instantiate();
  copy.run(drawn(at::kFloat), sent); // elsewhere, so that the table is another
  for (const Tensor& one : gradients)
    one.normal_();
  graph.replay();
  double exact = 0;
  for (std::size_t i = 0; i < sent.size(); ++i) {
    const Tensor expected = gradients[i].mul(0.5).to(at::kBFloat16);
    EXPECT_TRUE(at::equal(sent[i], expected)) << i;
    exact += expected.to(at::kDouble).square().sum().item<double>();
  }
  EXPECT_NEAR(square.item<double>(), exact, 1e-5 * exact);
}

} // namespace
