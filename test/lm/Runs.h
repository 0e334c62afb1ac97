// Runs that tests compare: small ones, on the CPU, with Kiln's kernels or without.
#pragma once

#include "kiln/torch.h"
#include "models/common/Program.h"
#include "models/lm/Run.h"
#include "models/lm/Trainer.h"

#include <cstdlib>
#include <gtest/gtest.h>

namespace kiln::lm {

/// Small enough for the host target.
inline Options smallOptions(const std::string& out) {
  Options options;
  options.data = KILN_LM_TEXT;
  options.out = out;
  options.device = "cpu";
  options.model.width = 16;
  options.model.hidden = 32;
  options.model.context = 16;
  options.model.layers = 1;
  options.model.heads = 2;
  options.batch = 2;
  options.warmup = 20;
  options.learningRate = 3e-3;
  options.settle();
  return options;
}

inline Trainer trainerOf(const Options& options) {
  return Trainer(options, Data::open(options.data, Tokenizer(), options.out), Tokenizer());
}

inline std::vector<float> lossesOf(Trainer& trainer, std::int64_t steps) {
  std::vector<float> losses;
  for (std::int64_t i = 0; i < steps; ++i)
    losses.push_back(trainer.step().loss.item<float>());
  return losses;
}

/// Kiln's kernels for tensors of the CPU, for a scope.
class KilnOnCpu {
 public:
  explicit KilnOnCpu(const Options& options) {
    ::setenv("KILN_PLACE", "cpu", 1);
    startKiln(options.kiln);
  }
  ~KilnOnCpu() {
    disable();
    ::unsetenv("KILN_PLACE");
  }
  KilnOnCpu(const KilnOnCpu&) = delete;
  KilnOnCpu& operator=(const KilnOnCpu&) = delete;
};

inline std::vector<float> lossesWith(Options options, const std::string& kiln) {
  options.kiln = kiln;
  const KilnOnCpu enabled(options);
  Trainer trainer = trainerOf(options);
  trainer.prepare();
  return lossesOf(trainer, options.steps);
}

inline void expectClose(const std::vector<float>& losses, const std::vector<float>& expected,
                        double tolerance) {
  ASSERT_EQ(losses.size(), expected.size());
  for (std::size_t i = 0; i < losses.size(); ++i)
    EXPECT_NEAR(losses[i], expected[i], tolerance * expected[i]) << "step " << i;
}

} // namespace kiln::lm
