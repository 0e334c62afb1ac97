// --kiln=modules: Kiln's modules change roundings only, checkpoints move both ways, and no step
// casts a weight.
#include "test/lm/Helpers.h"
#include "test/lm/Runs.h"

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

/// Casts of matrices in floating point while it lives.
class MatrixCasts {
 public:
  MatrixCasts()
      : handle((count = 0,
                at::addGlobalCallback(at::RecordFunctionCallback(&see).needsInputs(true)))) {}
  ~MatrixCasts() { at::removeCallback(handle); }
  MatrixCasts(const MatrixCasts&) = delete;
  MatrixCasts& operator=(const MatrixCasts&) = delete;

  static inline std::atomic<int> count = 0;

 private:
  static std::unique_ptr<at::ObserverContext> see(const at::RecordFunction& call) {
    if (std::string_view(call.name()) == "aten::_to_copy") {
      const Tensor& from = call.inputs()[0].toTensor();
      count += from.is_floating_point() && from.dim() == 2;
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
    const MatrixCasts casts;
    trainer.step();
    if (options.kiln == "on") {
      EXPECT_GE(casts.count, 8) << "of each weight";
      continue;
    }
    EXPECT_EQ(casts.count, 0);
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
