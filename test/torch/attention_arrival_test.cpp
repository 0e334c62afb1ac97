// What may not depend on whether the kernel of an attention is there yet, and which calls wait for
// it.
#include "test/torch/AttentionCalls.h"

#include <thread>

using namespace kiln;
using namespace kiln::test;
using at::Tensor;

namespace {

class AttentionArrival : public StrictOnCpu {};

/// Results and gradients of a call with a seed, and what the generator gives next.
std::vector<Tensor> drawn(const Arguments& all) {
  at::manual_seed(5);
  auto made = results(all);
  made.push_back(at::rand({3}));
  return made;
}

TEST_F(AttentionArrival, NothingThatIsSeenDependsOnTheKernelsArrival) {
  enable(onCpu());
  std::int64_t width = 33; // of shapes that nobody else has
  std::uint64_t without = 0, of = 0;
  for (const auto type : {at::kFloat, at::kBFloat16})
    for (const double p : {0.0, 0.25, 1e-3})
      for (const int masks : {0, 1, 2, 3}) {
        if ((type == at::kBFloat16 && masks != 2) || (p == 1e-3 && masks != 0))
          continue;
        Arguments all{at::randn({2, 2, 6, width}).to(type), at::randn({2, 2, 9, width}).to(type),
                      at::randn({2, 2, 9, width}).to(type)};
        if (masks == 1)
          all.mask = at::rand({2, 1, 6, 9}) > 0.3;
        if (masks == 2)
          all.mask = at::randn({6, 9}).to(type);
        if (masks == 1)
          all.mask->select(2, 2).fill_(false);
        all.causal = masks == 3;
        all.p = p;
        all = all.leaves();
        const auto byKiln = [] { return callsByKiln(kForward) + callsByKiln(kBackward); };
        const auto before = byKiln();
        BusyCompiler busy(4);
        const auto first = drawn(all);
        without += before + 2 - byKiln();
        of += 2;
        busy.release();
        const auto between = byKiln();
        const auto later = drawn(all);
        EXPECT_EQ(byKiln(), between + 2) << report();
        for (std::size_t i = 0; i < first.size(); ++i) {
          const double tolerance = 2 * toleranceOf(type);
          EXPECT_EQ(first[i].strides(), later[i].strides());
          EXPECT_TRUE(at::allclose(first[i].to(at::kDouble), later[i].to(at::kDouble), tolerance,
                                   tolerance * (1 + first[i].abs().max().item<double>())))
              << c10::toString(type) << ", p = " << p << ", masks " << masks << ", tensor " << i
              << ": " << (first[i] - later[i]).abs().max().item<double>();
        }
        EXPECT_EQ(all.call().grad_fn()->name(), "KilnAttentionBackward");
        ++width;
      }
  EXPECT_GT(without, of / 2); // what the first calls are for
}

/// ATen's formula holds all scores: of large ones the first call waits.
TEST_F(AttentionArrival, WhatWouldHoldManyScoresWaitsForItsKernel) {
  Options options = onCpu();
  const std::int64_t scores = 2 * 6 * 9 * 4; // bytes
  std::int64_t width = 71;                   // of shapes that nobody else has
  for (const bool isBiased : {true, false})
    for (const std::int64_t most : {scores, scores - 1}) {
      options.formulaBytes = most;
      enable(options);
      Arguments all{at::randn({1, 2, 6, width}), at::randn({1, 2, 9, width}),
                    at::randn({1, 2, 9, width})};
      if (isBiased)
        all.mask = at::randn({6, 9});
      const bool waits = isBiased && most < scores; // without a bias ATen has kernels of its own
      const auto before = callsByKiln(kForward);
      BusyCompiler busy; // for longer than a call takes that does not wait
      std::thread later;
      if (waits)
        later = std::thread([&] {
          std::this_thread::sleep_for(std::chrono::milliseconds(200));
          busy.release();
        });
      all.call();
      if (waits)
        later.join();
      EXPECT_EQ(callsByKiln(kForward), before + waits) << isBiased << ' ' << most;
      ++width;
    }
}

} // namespace
