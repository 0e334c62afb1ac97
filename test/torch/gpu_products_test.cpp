// Products of matrices by algorithms that are tuned, on a GPU: against fp64, inside graphs, from a
// file, and what the report says. Skips without a GPU.
#include "kiln/files.h"
#include "runtime/products/Choices.h"
#include "test/backend/Helpers.h"
#include "test/torch/GpuHelpers.h"

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>

using namespace kiln;
using namespace kiln::test;
using at::Tensor;

namespace {

class TorchGpuProducts : public TorchGpu {
 protected:
  void SetUp() override {
    TorchGpu::SetUp();
    if (!IsSkipped())
      enable(with(true));
  }
  void TearDown() override {
    if (!IsSkipped())
      enable(strict()); // routes no products any more
    TorchGpu::TearDown();
  }
  Options with(bool tunes) const {
    Options options;
    options.products = file;
    options.tuneProducts = tunes;
    return options;
  }

  TemporaryFolder folder;
  const std::filesystem::path file = folder.path / "products.json";
};

struct Case {
  const char* name;
  std::function<Tensor()> product;
  std::function<Tensor()> exact;
};

/// Each way of lying in memory, each thing that is added, and both dtypes.
std::vector<Case> casesOf(at::ScalarType type) {
  const auto made = [&](std::vector<std::int64_t> sizes) { return at::randn(sizes, onGpu(type)); };
  const auto wide = [](const Tensor& tensor) { return tensor.to(at::kDouble); };
  const Tensor x = made({1024, 512}), w = made({768, 512}), g = made({1024, 768}),
               row = made({768}), sum = made({1024, 512}), two = made({2, 512, 768}),
               part = made({1024, 1536}).narrow(1, 512, 512);
  return {{"x w^T", [=] { return at::mm(x, w.t()); }, [=] { return at::mm(wide(x), wide(w).t()); }},
          {"g w", [=] { return at::mm(g, w); }, [=] { return at::mm(wide(g), wide(w)); }},
          {"g^T x", [=] { return at::mm(g.t(), x); }, [=] { return at::mm(wide(g).t(), wide(x)); }},
          {"part w^T", [=] { return at::mm(part, w.t()); },
           [=] { return at::mm(wide(part), wide(w).t()); }},
          {"shared batch", [=] { return at::bmm(x.expand({2, -1, -1}), two); },
           [=] { return at::bmm(wide(x).expand({2, -1, -1}), wide(two)); }},
          {"row", [=] { return at::addmm(row, x, w.t()); },
           [=] { return at::addmm(wide(row), wide(x), wide(w).t()); }},
          {"sum", [=] { return sum.clone().addmm_(g, w); },
           [=] { return wide(sum) + at::mm(wide(g), wide(w)); }}};
}

TEST_F(TorchGpuProducts, AreAsExactAsLibTorchs) {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf})
    for (const Case& one : casesOf(type)) {
      const Tensor exact = one.exact(), ours = one.product(), again = one.product();
      disable();
      const Tensor theirs = one.product();
      enable(with(true));
      EXPECT_LE(errorOf(ours, exact), 1.01 * errorOf(theirs, exact)) << one.name;
      EXPECT_TRUE(at::equal(ours, again)) << one.name;
    }
  const runtime::Choices choices = runtime::Choices::read(file);
  EXPECT_EQ(choices.products.size(), 14U) << readFile(file);
}

TEST_F(TorchGpuProducts, AreTheSameFromAFileAndInAGraph) {
  const std::vector<Case> cases = casesOf(at::kBFloat16);
  std::vector<Tensor> tuned;
  for (const Case& one : cases)
    tuned.push_back(one.product());
  const std::string written = readFile(file);
  enable(with(false));
  for (std::size_t i = 0; i < cases.size(); ++i)
    EXPECT_TRUE(at::equal(cases[i].product(), tuned[i])) << cases[i].name;
  c10::cuda::device_synchronize();
  const c10::cuda::CUDAStreamGuard side(c10::cuda::getStreamFromPool());
  at::cuda::CUDAGraph graph;
  graph.capture_begin();
  std::vector<Tensor> captured;
  for (const Case& one : cases)
    captured.push_back(one.product());
  graph.capture_end();
  graph.replay();
  for (std::size_t i = 0; i < cases.size(); ++i)
    EXPECT_TRUE(at::equal(captured[i], tuned[i])) << cases[i].name;
  EXPECT_EQ(readFile(file), written);
  EXPECT_TRUE(reports("product")) << report();
}

TEST_F(TorchGpuProducts, OfAnotherGpuAreNotUsedAndNotWrittenOver) {
  runtime::Choices{"another GPU", 1}.write(file);
  const std::string written = readFile(file);
  EXPECT_THROW(enable(with(true)), Error);
  enable(with(false));
  const Tensor x = at::randn({256, 256}, onGpu(at::kBFloat16));
  at::mm(x, x);
  EXPECT_TRUE(reports("is of another GPU and cuBLASLt 1")) << report();
  EXPECT_EQ(readFile(file), written);
}

} // namespace
