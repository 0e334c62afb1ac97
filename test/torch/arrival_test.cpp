// What a program may not see of when its kernels are compiled: the numbers that are drawn, and what
// autograd keeps, in the first call as in the hundredth. Of tensors on the CPU, with a compiler
// that is busy; what checkpoints say to it is arrival_test.py's.
#include "test/backend/Helpers.h"
#include "test/torch/AutocastInFp32.h"
#include "test/torch/Helpers.h"
#include "test/torch/Peak.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/torch.h>

using namespace kiln;
using namespace kiln::test;
using at::Tensor;

namespace {

/// Mask and result from one seed, and what the generator gives next.
std::array<Tensor, 3> dropped(const Tensor& x, double p) {
  at::manual_seed(7);
  const auto [y, kept] = at::native_dropout(x, p, true);
  return {y, kept, at::rand({4})};
}

void expectSame(const std::array<Tensor, 3>& a, const std::array<Tensor, 3>& b,
                const std::string& what) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(at::equal(a[i], b[i])) << what << ", tensor " << i;
    EXPECT_EQ(a[i].strides(), b[i].strides()) << what << ", tensor " << i;
  }
}

TEST(TorchArrival, MasksAreTheSameBeforeTheKernelIsThere) {
  enable(onCpu());
  const Tensor buffer = at::randn({3 * 77 + 1});
  const std::tuple<const char*, Tensor, double> all[] = {
      {"rows of 1024", at::randn({3, 2048}), 0.1},
      {"an odd number", at::randn({7, 111}), 0.5},
      {"bf16", at::randn({5, 213}).to(at::kBFloat16), 0.3},
      {"fp16", at::randn({5, 214}).to(at::kHalf), 1e-3},
      {"channels last", at::randn({4, 33, 8, 31}).contiguous(at::MemoryFormat::ChannelsLast), 0.2},
      {"transposed", at::randn({31, 42}).t(), 0.2},
      {"a number", at::randn({}), 0.4},
      {"beside an alignment", buffer.slice(0, 1).view({3, 77}), 0.7},
  };
  std::vector<std::array<Tensor, 3>> first;
  const auto taken = callsByKiln("native_dropout");
  for (const auto& [what, x, p] : all) {
    const BusyCompiler busy(4);
    first.push_back(dropped(x, p));
  }
  const auto before = callsByKiln("native_dropout");
  EXPECT_LT(before - taken, std::size(all) / 2);
  for (std::size_t i = 0; i < std::size(all); ++i) {
    const auto& [what, x, p] = all[i];
    for (int call = 0; call < 2; ++call)
      expectSame(first[i], dropped(x, p), what);
  }
  EXPECT_EQ(callsByKiln("native_dropout"), before + 2 * std::size(all)) << report();
}

/// The name of a result's node, the result, and gradients of the leaves.
struct Recorded {
  std::string node;
  Tensor y;
  std::vector<Tensor> gradients;
};
using Function = std::function<Tensor(const std::vector<Tensor>&)>;
Recorded record(const Function& function, const std::vector<Tensor>& values) {
  std::vector<Tensor> leaves;
  for (const Tensor& value : values)
    leaves.push_back(value.detach().requires_grad_());
  const Tensor y = [&] {
    const Autocast on(at::kCPU);
    return function(leaves);
  }();
  const Tensor cotangent = at::linspace(-1, 1.5, y.numel()).view(y.sizes()).to(y.scalar_type());
  return {y.grad_fn()->name(), y.detach(), torch::autograd::grad({y}, leaves, {cotangent})};
}

TEST(TorchArrival, NodesAreTheSameBeforeTheKernelIsThere) {
  enable(onCpu());
  torch::manual_seed(1);
  const Tensor t = at::randint(1090, {66});
  const auto loss = [&](std::int64_t reduction, double smoothing) {
    return [=](const std::vector<Tensor>& in) {
      return at::cross_entropy_loss(in[0], t, {}, reduction, 5, smoothing);
    };
  };
  const auto bf16 = at::randn({66, 1090}).to(at::kBFloat16);
  const std::tuple<const char*, Function, std::vector<Tensor>> all[] = {
      {"cross_entropy_loss", loss(at::Reduction::Mean, 0), {bf16}},
      {"cross_entropy_loss", loss(at::Reduction::None, 0.1), {bf16.to(at::kFloat)}},
      {"cross_entropy_loss", loss(at::Reduction::Mean, 0), {bf16.to(at::kHalf)}},
      {"cross_entropy_loss", loss(at::Reduction::Sum, 0), {bf16.to(at::kHalf)}},
      {"layer_norm",
       [](const auto& in) { return at::layer_norm(in[0], {in[0].size(1)}, in[1], in[2]); },
       {bf16, at::randn({1090}), at::randn({1090}).to(at::kBFloat16)}},
      {"softmax.int", [](const auto& in) { return at::softmax(in[0], 1); }, {bf16}},
      {"log_softmax.int", [](const auto& in) { return at::log_softmax(in[0], 1); }, {bf16}},
      {"rms_norm",
       [](const auto& in) { return at::rms_norm(in[0], {in[0].size(1)}, in[1], 1e-3); },
       {bf16, at::randn({1090})}},
      {"scaled_dot_product_attention",
       [](const auto& in) { return at::scaled_dot_product_attention(in[0], in[1], in[1], in[2]); },
       {at::randn({1, 2, 7, 18}).to(at::kBFloat16), at::randn({1, 2, 9, 18}).to(at::kBFloat16),
        at::randn({7, 9}).to(at::kBFloat16)}},
  };
  std::vector<Recorded> first;
  std::size_t without = 0;
  for (const auto& [name, function, values] : all) {
    const BusyCompiler busy(4);
    const auto before = callsByKiln(name);
    first.push_back(record(function, values));
    without += callsByKiln(name) == before;
  }
  EXPECT_GT(without, std::size(all) / 2);
  for (std::size_t i = 0; i < std::size(all); ++i) {
    const auto& [name, function, values] = all[i];
    const auto before = callsByKiln(name);
    const Recorded later = record(function, values);
    EXPECT_EQ(callsByKiln(name), before + 1) << name << report();
    EXPECT_TRUE(later.node.starts_with("Kiln")) << later.node;
    EXPECT_EQ(first[i].node, later.node);
    expectClose(first[i].y, later.y, name);
    for (std::size_t k = 0; k < values.size(); ++k)
      expectClose(first[i].gradients[k], later.gradients[k], name);
  }
}

/// Of a loss whose logits somebody still has, and of one whose logits nobody has, forward and
/// backward: with a kernel, and before.
TEST(TorchArrival, ALossTakesNoMoreMemoryThanATens) {
  enable(onCpu());
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    const Tensor values = at::randn({128, 1100 + (dtype == at::kFloat)}).to(dtype).requires_grad_(),
                 t = at::randint(1100, {128});
    const auto peak = [&](bool isHeld) {
      Peak memory;
      Tensor h = values * 2;
      const Tensor loss = at::cross_entropy_loss(h, t);
      if (!isHeld)
        h = Tensor();
      torch::autograd::grad({loss}, {values}, {at::full_like(loss, 0.7)});
      return memory.most;
    };
    for (const bool isHeld : {false, true}) {
      const auto theirs = [&] {
        const Guard off(Mode::off);
        return peak(isHeld);
      }();
      const auto slack = std::size_t(1) << 14; // of small tensors
      BusyCompiler busy;
      EXPECT_LE(peak(isHeld), theirs + slack) << dtype << " before";
      busy.release();
      EXPECT_LE(peak(isHeld), theirs + slack) << dtype << " after";
    }
  }
}

/// What eager can do, since its copy in fp32 is its own, and Kiln cannot: said so, with a way out.
TEST(TorchArrival, AnInputThatIsOverwrittenIsAnErrorThatNamesKiln) {
  enable(strictOnCpu());
  const auto overwritten = [](const Function& norm, const std::vector<Tensor>& leaves) {
    const Tensor x = leaves[0] * 1;
    const Autocast on(at::kCPU);
    const Tensor y = norm({x, leaves[1]});
    x.add_(1);
    y.sum().backward();
  };
  const std::vector<Tensor> leaves = {at::randn({6, 40}).to(at::kBFloat16).requires_grad_(),
                                      at::randn({40}).requires_grad_()};
  const std::pair<const char*, Function> norms[] = {
      {"layer_norm", [](const auto& in) { return at::layer_norm(in[0], {40}, in[1]); }},
      {"rms_norm", [](const auto& in) { return at::rms_norm(in[0], {40}, in[1]); }}};
  for (const auto& [name, norm] : norms) {
    try {
      overwritten(norm, leaves);
      ADD_FAILURE() << name;
    } catch (const c10::Error& error) {
      const std::string text = error.what_without_backtrace();
      EXPECT_HAS(text, "modified by an inplace operation");
      EXPECT_HAS(text, std::string("Kiln's ") + name + " keeps");
      EXPECT_HAS(text, std::string("KILN_OPS=-") + name);
    }
    Options without = onCpu();
    without.ops = std::string("-") + name;
    const Guard guard(without);
    overwritten(norm, leaves); // as it says
  }
}

} // namespace
