// --kiln=modules: Kiln's modules change roundings only, checkpoints move both ways, and no step
// casts a weight.
#include "models/common/Products.h"
#include "test/lm/Helpers.h"
#include "test/lm/Runs.h"

#include <ATen/autocast_mode.h>
#include <ATen/record_function.h>
#include <atomic>
#include <gtest/gtest.h>
#include <torch/torch.h>

namespace kiln::lm {
namespace {

using at::Tensor;

TEST(Lm, ModulesChangeRoundingsOnly) {
  const Folder folder;
  Options options = smallOptions(folder.string());
  options.steps = 60;
  options.model.layers = 2;
  const auto expected = lossesWith(options, "off");
  expectClose(lossesWith(options, "modules"), expected, 2e-3);
  const std::string report = kiln::report();
  for (const char* function : {"rms_norm", "add_rms_norm", "rope", "swiglu", "cross_entropy"})
    EXPECT_SAYS(report, "\n" + std::string(function) + " ");
}

TEST(Lm, ModulesInBf16) {
  const Folder folder;
  Options options = smallOptions(folder.string());
  options.steps = 20;
  options.precision = "bf16";
  expectClose(lossesWith(options, "modules"), lossesWith(options, "off"), 2e-2);
  options.accumulate = 2;
  options.recompute = true;
  expectClose(lossesWith(options, "modules"), lossesWith(options, "off"), 2e-2);
}

/// Casts, and other copies, of matrices in floating point while it lives, and products.
class MatrixCalls {
 public:
  MatrixCalls()
      : handle((casts = 0, copies = 0, products = 0,
                at::addGlobalCallback(at::RecordFunctionCallback(&see).needsInputs(true)))) {}
  ~MatrixCalls() { at::removeCallback(handle); }
  MatrixCalls(const MatrixCalls&) = delete;
  MatrixCalls& operator=(const MatrixCalls&) = delete;

  static inline std::atomic<int> casts = 0, copies = 0, products = 0;

 private:
  static std::unique_ptr<at::ObserverContext> see(const at::RecordFunction& call) {
    const std::string_view name = call.name();
    const bool isPassedOn = at::autocast::is_autocast_enabled(at::kCPU) &&
                            !c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::AutocastCPU);
    products +=
        !isPassedOn && (name == "aten::mm" || name == "aten::bmm" || name == "aten::addmm_");
    if (name == "aten::cat")
      copies += call.inputs()[0].toTensorList().get(0).is_floating_point();
    if (name == "aten::_to_copy" || name == "aten::clone") {
      const Tensor& from = call.inputs()[0].toTensor();
      if (from.is_floating_point() && from.dim() == 2)
        ++(name == "aten::clone" ? copies : casts);
    }
    return nullptr;
  }

  at::CallbackHandle handle;
};

/// Beside modules in bf16, products read copies of weights that the optimizer writes.
TEST(Lm, NoStepCastsWeights) {
  const Folder folder;
  Options options = smallOptions(folder.string());
  options.precision = "bf16";
  for (const char* kiln : {"on", "modules"}) {
    options.kiln = kiln;
    const KilnOnCpu enabled(options);
    Trainer trainer = trainerOf(options);
    trainer.prepare();
    const MatrixCalls calls;
    trainer.step();
    if (options.kiln == "on") {
      EXPECT_GE(calls.casts, 8) << "of each weight";
      continue;
    }
    EXPECT_EQ(calls.casts, 0);
    // Queries, keys and values, and gate and up, are one product each, and so is what they give to
    // the gradients of their weights and of what they read; nothing is put together for them.
    EXPECT_EQ(calls.copies, 0);
    EXPECT_EQ(calls.products, 3 * 5) << "of a layer and the head";
    int copies = 0;
    for (const auto& module : trainer.transformer()->modules())
      if (const auto* linear = module->as<LinearImpl>()) {
        EXPECT_TRUE(at::equal(linear->copy, linear->weight.to(at::kBFloat16)));
        EXPECT_FALSE(linear->copy.grad().defined() || linear->weight.grad().defined());
        ++copies;
      }
    EXPECT_EQ(copies, 8);
  }
}

/// The gate of one product has the gradients of its formula, once.
TEST(Lm, GatesOfOneProduct) {
  at::manual_seed(4);
  Linear gate(8, 16), up(8, 16);
  const auto copies = models::besideEachOther({gate->weight, up->weight}, at::kFloat);
  for (std::size_t i = 0; i < 2; ++i) {
    Linear& one = i == 0 ? gate : up;
    copies[i].copy_(one->weight.detach());
    one->copy = copies[i].detach().requires_grad_();
  }
  const Tensor x = at::randn({3, 5, 8}).requires_grad_(), given = at::randn({3, 5, 16});
  const auto gradients = [&](bool modules, bool again) {
    return torch::autograd::grad({swiglu(x, gate, up, {.modules = modules})},
                                 {x, gate->copy, up->copy}, {given}, {}, /*create_graph=*/again);
  };
  const auto ours = gradients(true, false), theirs = gradients(false, false);
  for (std::size_t i = 0; i < ours.size(); ++i)
    EXPECT_TRUE(at::allclose(ours[i], theirs[i], 1e-4, 1e-5)) << i;
  EXPECT_THROW(gradients(true, true), Error);
}

/// What one way of computing has written, the others read, and go on from there.
TEST(Lm, CheckpointsMoveBetweenOpsAndModules) {
  const Folder folder;
  Options options = smallOptions(folder.string());
  options.precision = "bf16";
  options.steps = 30;
  const auto parts = [&](const char* first, const char* second) {
    options.kiln = first;
    auto losses = [&] {
      const KilnOnCpu enabled(options);
      Trainer trainer = trainerOf(options);
      auto all = lossesOf(trainer, 15);
      trainer.save();
      return all;
    }();
    options.kiln = second;
    const KilnOnCpu enabled(options);
    Trainer trainer = trainerOf(options);
    trainer.resume(latestCheckpoint(options.out));
    const auto rest = lossesOf(trainer, 15);
    losses.insert(losses.end(), rest.begin(), rest.end());
    return losses;
  };
  const auto expected = lossesWith(options, "off");
  expectClose(parts("modules", "off"), expected, 2e-2);
  expectClose(parts("off", "modules"), expected, 2e-2);
  expectClose(parts("on", "modules"), expected, 2e-2);
}

} // namespace
} // namespace kiln::lm
