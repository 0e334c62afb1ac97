// mode=verify: what differs is found and can be reproduced, what is right raises no alarm, and
// nothing that goes wrong while a difference is reported ends a run.
#include "test/backend/Helpers.h"
#include "test/torch/Helpers.h"

#include <ATen/ops/gather_cpu_dispatch.h>
#include <ATen/ops/mul_cpu_dispatch.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <fstream>

namespace kiln::test::verify {
namespace {

using at::Tensor;

Options verifying(bool strict) {
  Options options = strict ? strictOnCpu() : onCpu();
  options.mode = Mode::verify;
  return options;
}

struct Case {
  const char* name;
  std::function<Tensor(const Tensor& x, const Tensor& w)> call; // w: of the shape of a row
};

const Case cases[] = {
    {"layer_norm", [](auto& x, auto& w) { return at::layer_norm(x, {x.size(-1)}, w, w, 1e-5); }},
    {"plain_layer_norm", [](auto& x, auto&) { return at::layer_norm(x, {x.size(-1)}); }},
    {"mixed_rms_norm",
     [](auto& x, auto& w) { return at::rms_norm(x, {x.size(-1)}, w.to(at::kFloat), 1e-5); }},
    {"softmax", [](auto& x, auto&) { return at::softmax(x, -1); }},
    {"log_softmax", [](auto& x, auto&) { return at::log_softmax(x, -1); }},
    {"gelu", [](auto& x, auto&) { return at::gelu(x); }},
    {"gelu_tanh", [](auto& x, auto&) { return at::gelu(x, "tanh"); }},
    {"silu", [](auto& x, auto&) { return at::silu(x); }},
    {"dropout", [](auto& x, auto&) { return at::dropout(x, 0.3, true); }},
    {"loss",
     [](auto& x, auto&) {
       const Tensor wide = x.reshape({-1, x.size(-1)}).repeat({1, 66000 / x.numel() + 1});
       return at::cross_entropy_loss(wide, at::arange(wide.size(0)).remainder(wide.size(1)));
     }},
    {"loss_of_each", [](auto& x, auto&) {
       const Tensor wide = x.reshape({-1, x.size(-1)}).repeat({1, 66000 / x.numel() + 1});
       return at::cross_entropy_loss(wide, at::arange(wide.size(0)).remainder(wide.size(1)), {},
                                     at::Reduction::None, -100, 0.1);
     }}};

std::ostream& operator<<(std::ostream& stream, const Case& one) {
  return stream << one.name;
}

class Verified : public testing::TestWithParam<std::tuple<Case, at::ScalarType>> {
  void TearDown() override { disable(); }
};

/// Numbers near each other and far apart, gradients that nearly cancel: what rounds differently.
TEST_P(Verified, WhatIsRightRaisesNoAlarm) {
  const auto& [one, dtype] = GetParam();
  enable(verifying(true));
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{70, 771}, {2, 3, 33}})
    for (double scale : {0.01, 1.0, 12.0}) {
      torch::manual_seed(2);
      const Tensor x = (at::randn(shape) * scale).to(dtype).requires_grad_();
      const Tensor w = (1 + at::randn({shape.back()}) * 0.2).to(dtype).requires_grad_();
      const Tensor y = one.call(x, w);
      for (double offset : {0.0, 3.0, 100.0}) {
        const Tensor dy = (at::randn(y.sizes()) + offset).to(y.scalar_type());
        EXPECT_NO_THROW(torch::autograd::grad({y}, {x}, {dy}, /*retain_graph=*/true))
            << scale << " " << offset;
      }
    }
  EXPECT_FALSE(reports("not compared")) << report();
}

INSTANTIATE_TEST_SUITE_P(Torch, Verified,
                         testing::Combine(testing::ValuesIn(cases),
                                          testing::Values(at::kFloat, at::kBFloat16, at::kHalf)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).name) + "_" +
                                  c10::toString(std::get<1>(info.param));
                         });

/// Runs with a kernel of ATen's replaced by a wrong one; what kiln's log says.
std::string logWith(const char* op, auto wrong, const std::function<void()>& call) {
  const TemporaryFolder folder;
  Options options = verifying(false);
  options.log = folder.path / "log";
  enable(options);
  call();
  wait();
  call(); // by Kiln's kernel, and right
  {
    torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__, __LINE__);
    library.impl(op, wrong);
    EXPECT_NO_THROW(call()) << op; // ATen's result, though wrong, and the program goes on
  }
  enable(onCpu()); // ends the log
  disable();
  std::stringstream text;
  text << std::ifstream(options.log).rdbuf();
  return text.str();
}

/// What a loss takes from a row.
Tensor wrongElement(const Tensor& x, std::int64_t dim, const Tensor& index, bool sparse) {
  return at::cpu::gather(x, dim, index, sparse) + 1;
}

Tensor wrongProduct(const Tensor& a, const Tensor& b) {
  const Tensor right = at::cpu::mul(a, b);
  return a.is_floating_point() && b.scalar_type() == at::kBool ? right + 1 : right;
}

void expectReproducible(const std::string& log, const char* what, const char* input) {
  EXPECT_HAS(log, "Kiln and ATen differ");
  EXPECT_HAS(log, what);
  const std::size_t begin = log.find("kernel-compile run ");
  ASSERT_NE(begin, std::string::npos) << log;
  std::istringstream words(log.substr(begin));
  bool found = false;
  for (std::string word; words >> word;)
    if (word.ends_with(".npy")) {
      EXPECT_TRUE(std::filesystem::exists(word)) << word;
      found |= word.ends_with(std::string("/") + input + ".npy");
    }
  EXPECT_TRUE(found) << log;
}

TEST(Verify, TheLossCanBeReproduced) {
  const Tensor x = at::randn({70, 1000}), t = at::randint(1000, {70});
  expectReproducible(
      logWith("gather", TORCH_FN(wrongElement), [&] { at::cross_entropy_loss(x, t); }),
      "loss differs by", "target");
}

TEST(Verify, DropoutCanBeReproduced) {
  const Tensor x = at::randn({40, 50}).abs();
  expectReproducible(
      logWith("mul.Tensor", TORCH_FN(wrongProduct), [&] { at::native_dropout(x, 0.5, true); }),
      "y differs by", "seed");
}

TEST(Verify, AReproductionThatCannotBeWrittenIsToldAndEndsNothing) {
  const Tensor x = at::randn({70, 1010}), t = at::randint(1010, {70});
  const char* before = std::getenv("TMPDIR");
  const std::string kept = before ? before : "";
  int calls = 0;
  const std::string log = logWith("gather", TORCH_FN(wrongElement), [&] {
    at::cross_entropy_loss(x, t);
    if (++calls == 2)
      ::setenv("TMPDIR", "/proc/none", 1);
  });
  before ? ::setenv("TMPDIR", kept.c_str(), 1) : ::unsetenv("TMPDIR");
  EXPECT_HAS(log, "Kiln and ATen differ");
  EXPECT_HAS(log, "the operands could not be written");
}

} // namespace
} // namespace kiln::test::verify
