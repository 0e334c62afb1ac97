// What runtime/README.md shows, run on the CPU; test/docs holds the two together.
#include "test/torch/Helpers.h"

#include <kiln/compile.h>
#include <kiln/optim.h>
#include <kiln/profile.h>
#include <torch/torch.h>

#include <filesystem>
#include <sstream>

using namespace kiln::test;

namespace {

class Readme : public OnHostTarget {};

TEST_F(Readme, CompilesAFunctionAsItIs) {
  const auto linear = [](std::int64_t from, std::int64_t to) {
    return torch::nn::Linear(torch::nn::LinearOptions(from, to).bias(false));
  };
  torch::nn::Linear gate = linear(640, 64), up = linear(640, 64), down = linear(64, 640);
  const at::Tensor scale = at::ones({640}).requires_grad_();
  const at::Tensor sample = at::randn({4, 640}).requires_grad_();
  const at::Tensor x = at::randn({4, 640}).requires_grad_();
  const auto loss = [](const at::Tensor& y) { return y.square().mean(); };

  auto block = kiln::compile(
      [&](at::Tensor x) {
        const at::Tensor y = at::rms_norm(x, {640}, scale, 1e-5);
        return x + down->forward(at::silu(gate->forward(y)) * up->forward(y));
      },
      sample);
  loss(block(x)).backward(); // results and gradients as the function's
  const std::string report = block.report();
  EXPECT_NE(report.find("rms_norm"), std::string::npos) << report;
  EXPECT_NE(report.find("silu, mul"), std::string::npos) << report;
  EXPECT_TRUE(x.grad().defined() && scale.grad().defined());
}

TEST_F(Readme, FusesAFunctionOfTensors) {
  static const auto gated =
      kiln::fuse([](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                    const at::Tensor& pairs, const at::Tensor& gate) {
        const at::Tensor scores = at::matmul(q, k.transpose(-2, -1)) * 0.25 + pairs;
        return at::matmul(at::softmax(scores, -1), v) * at::sigmoid(gate);
      });
  const at::Tensor q = at::randn({2, 5, 16}), k = at::randn({2, 7, 16}), v = at::randn({2, 7, 16}),
                   pairs = at::randn({5, 7}).requires_grad_(), gate = at::randn({2, 5, 16});
  gated(q, k, v, pairs, gate).sum().backward();
  EXPECT_TRUE(pairs.grad().defined());
  const std::string report = gated.report();
  EXPECT_NE(report.find("attention: matmul, mul, add, softmax, matmul"), std::string::npos)
      << report;
  EXPECT_NE(report.find("kernel: sigmoid, mul"), std::string::npos) << report;
}

TEST_F(Readme, StepsAnOptimizer) {
  torch::nn::Linear model(16, 4);
  kiln::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(3e-4),
                               {.maxGradNorm = 1.0, .copies = at::kBFloat16, .emaDecay = 0.999});
  const at::Tensor loss = model->forward(at::ones({2, 16})).sum();
  const at::Tensor before = model->weight.detach().clone();
  loss.backward();
  optimizer.step(); // two launches: one for the norm, one for the rest
  EXPECT_GT(optimizer.gradNorm().item<float>(), 1.0F);
  EXPECT_FALSE(at::equal(before, model->weight));
}

TEST_F(Readme, ProfilesSteps) {
  const std::vector<int> batches(12);
  const auto* loader = &batches;
  const std::string path = std::filesystem::temp_directory_path() / "kiln-readme.json";
  std::ostringstream out;

  auto profiler = kiln::profile::makeProfiler({.schedule = {.wait = 5, .warmup = 1, .active = 3}});
  profiler.start();
  for (auto& batch : *loader) {
    {
      auto range = kiln::profile::marked("forward");
      at::ones({batch + 2}).square();
    }
    profiler.step();
  }
  profiler.stop();
  profiler.printTopTables(out);
  profiler.exportTrace(path);
  EXPECT_NE(out.str().find("aten::square"), std::string::npos) << out.str();
  EXPECT_TRUE(std::filesystem::remove(path));
}

} // namespace
