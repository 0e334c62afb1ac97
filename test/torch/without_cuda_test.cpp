// A program that has no CUDA part of LibTorch, only libtorch_cpu and libc10: Kiln loads, takes
// nothing by itself and says why, and its kernels still run on the host target where that is asked.
#include "test/torch/Helpers.h"

#include <fstream>
#include <kiln/fuse.h>
#include <torch/csrc/autograd/autograd.h>

using namespace kiln;
using namespace kiln::test;
using at::Tensor;

namespace {

/// What is routed on a GPU, forward and backward.
std::vector<Tensor> step() {
  at::manual_seed(1);
  const Tensor x = at::randn({512, 256}).requires_grad_(), w = at::randn({256}).requires_grad_(),
               t = at::randint(256, {512}, at::kLong);
  const Tensor y = at::silu(at::gelu(at::layer_norm(x, {256}, w, w)));
  const Tensor z = at::log_softmax(at::softmax(at::rms_norm(y, {256}, w), -1), -1);
  const Tensor loss = at::cross_entropy_loss(z, t);
  auto results = torch::autograd::grad({loss}, {x, w});
  results.push_back(z.detach());
  results.push_back(loss.detach());
  return results;
}

TEST(TorchWithoutCuda, NoPartOfCudaIsLoaded) {
  enable({});
  std::ifstream maps("/proc/self/maps");
  bool kiln = false;
  for (std::string line; std::getline(maps, line);) {
    EXPECT_EQ(line.find("torch_cuda"), std::string::npos) << line;
    EXPECT_EQ(line.find("c10_cuda"), std::string::npos) << line;
    kiln |= line.find("libkiln_torch") != std::string::npos;
  }
  EXPECT_TRUE(kiln);
  EXPECT_FALSE(at::hasCUDA());
  disable();
}

TEST(TorchWithoutCuda, EverythingIsATensAndTheReportSaysWhy) {
  disable();
  const std::vector<Tensor> before = step();
  for (Mode mode : {Mode::use, Mode::tune, Mode::verify}) {
    Options options;
    options.mode = mode;
    options.strict = mode == Mode::use;
    enable(options);
    const std::vector<Tensor> after = step();
    for (std::size_t i = 0; i < before.size(); ++i)
      EXPECT_TRUE(at::equal(before[i], after[i])) << i;
    EXPECT_TRUE(reports("nothing is taken on a GPU: this LibTorch was built without CUDA"))
        << report();
    EXPECT_TRUE(reports("no routed op was called")) << report();
  }
  disable();
}

TEST(TorchWithoutCuda, TheHostTargetRunsWhatItIsAsked) {
  disable();
  const std::vector<Tensor> theirs = step();
  enable(strictOnCpu());
  const std::vector<Tensor> ours = step();
  for (std::size_t i = 0; i < ours.size(); ++i)
    expectClose(ours[i], theirs[i], "tensor " + std::to_string(i));
  for (const char* op : {"native_layer_norm", "native_layer_norm_backward", "cross_entropy_loss"})
    EXPECT_EQ(callsByKiln(op), 1U) << op << "\n" << report();
  disable();
}

TEST(TorchWithoutCuda, FusedFunctionsRunOnTheHostTarget) {
  ::setenv("KILN_PLACE", "cpu", 1);
  const auto f = fuse([](Expr x, Expr y) { return x * sigmoid(y); }, {.name = "gate"});
  const Tensor x = at::randn({64, 128}), y = at::randn({64, 128});
  expectClose(f(x, y), x * at::sigmoid(y), "gate");
  EXPECT_EQ(callsByKiln("gate"), 1U) << report();
  ::unsetenv("KILN_PLACE");
}

} // namespace
