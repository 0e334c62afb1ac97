// Tuners that make what no store has, by the cost model: at once or by a thread of their own,
// within a budget, and not any more once they are frozen.
#include "kiln/workload.h"
#include "test/store/TunerFixture.h"

#include <algorithm>
#include <atomic>
#include <fstream>

using namespace kiln;
using namespace kiln::test;

namespace {

TEST_F(TunerModes, BlockingMakesWhatIsMissingOnce) {
  Tuner tuner = openAs(Mode::blocking);
  const std::uint64_t before = compilations();
  std::vector<const Tuned*> found(4);
  {
    std::vector<std::jthread> threads;
    for (const Tuned*& one : found)
      threads.emplace_back([&] { one = tuner.find(softmax(64)); });
  }
  ASSERT_TRUE(found[0]);
  EXPECT_EQ(std::ranges::count(found, found[0]), 4);
  EXPECT_EQ(found[0]->source(), "model");
  EXPECT_EQ(tuner.lookup(tuner.name(softmax(64))), found[0]);
  const std::uint64_t made = compilations() - before;
  EXPECT_GE(made, 1u);
  EXPECT_EQ(tuner.stats().made, 1u);
  EXPECT_GT(tuner.stats().seconds, 0);
  EXPECT_TRUE(open("store").find(softmax(64))); // it was kept
  EXPECT_EQ(compilations() - before, made);
  TuningTask tasks[] = {softmax(64), softmax(32)};
  EXPECT_EQ(tuner.warmup(tasks), 2u);
}

/// The fake driver's kernels compute nothing, and so does a wrong one.
TEST_F(TunerModes, AKernelThatFailsItsFirstCheckServesNobody) {
  ::setenv("KILN_FIRST_CHECK", "1", 1);
  {
    Tuner tuner = openAs(Mode::blocking);
    EXPECT_FALSE(tuner.find(softmax(64)));
    EXPECT_HAS(tuner.explain(softmax(64)),
               "not made: the kernel that the cost model chose is wrong and is not used: compared "
               "with fp64 at its sizes: ");
  }
  ::setenv("KILN_FIRST_CHECK", "0", 1); // the store knows its verdict
  EXPECT_FALSE(open("store").find(softmax(64)));
  Tuner again = openAs(Mode::blocking);
  EXPECT_FALSE(again.find(softmax(64)));
  EXPECT_HAS(again.explain(softmax(64)), "a comparison with fp64 failed before");
}

TEST_F(TunerModes, BackgroundMissesAtOnceAndHitsLater) {
  Tuner tuner = openAs(Mode::background);
  const TaskName name = tuner.name(softmax(64));
  EXPECT_EQ(tuner.find(softmax(64)), nullptr);
  tuner.find(softmax(64)); // is not queued twice
  tuner.find(softmax(32));
  std::atomic<bool> stop = false;
  std::jthread reader([&] {
    while (!stop)
      if (const Tuned* tuned = tuner.lookup(name)) {
        EXPECT_EQ(tuned->source(), "model");
      }
  });
  EXPECT_TRUE(comesTrue([&] { return tuner.stats().waiting == 0; }));
  stop = true;
  reader.join();
  ASSERT_TRUE(tuner.lookup(name));
  EXPECT_EQ(tuner.find(softmax(64)), tuner.lookup(name));
  EXPECT_EQ(tuner.stats().made, 2u);
  std::lock_guard held(mutex);
  ASSERT_EQ(progress.size(), 2u);
  EXPECT_EQ(progress[0].label, softmax(64).label);
  EXPECT_EQ(progress[1].label, softmax(32).label);
}

TEST_F(TunerModes, TheEndStopsTheThread) {
  const std::uint64_t before = compilations();
  {
    Tuner tuner = openAs(Mode::background);
    for (std::int64_t rows = 1; rows <= 20; ++rows)
      tuner.find(softmax(rows, 64 * rows));
  }
  const std::uint64_t after = compilations();
  EXPECT_LT(after - before, 20u);
}

TEST_F(TunerModes, FrozenNothingIsMade) {
  for (Mode mode : {Mode::blocking, Mode::background}) {
    Tuner tuner = openAs(mode);
    std::string digest = tuner.freeze();
    const std::uint64_t before = compilations();
    EXPECT_EQ(tuner.find(softmax(64)), nullptr);
    EXPECT_EQ(tuner.stats().waiting, 0u);
    EXPECT_EQ(compilations(), before);
    EXPECT_EQ(tuner.freeze(), digest);
  }
}

TEST_F(TunerModes, WhatIsNotMadeIsExplained) {
  Tuner tuner = openAs(Mode::blocking, 1e-6);
  EXPECT_TRUE(tuner.find(softmax(64))); // the budget is looked at before each
  EXPECT_EQ(tuner.find(softmax(32)), nullptr);
  EXPECT_EQ(tuner.stats().refused, 1u);
  EXPECT_HAS(tuner.explain(softmax(32)), "not made: the budget of 1e-06 s is spent");
  ASSERT_EQ(warnings.size(), 1u);
  TuningTask broken = softmax(8);
  broken.options.nvrtc = "/none/libnvrtc.so";
  Tuner other = openAs(Mode::blocking);
  EXPECT_EQ(other.find(broken), nullptr);
  EXPECT_HAS(other.explain(broken), "/none/libnvrtc.so");
  TunerOptions nowhere;
  nowhere.mode = Mode::blocking;
  nowhere.layers = {};
  EXPECT_HAS(errorOf(ErrorKind::input, [&] { Tuner::open(nowhere); }), "layer");
}

TEST_F(TunerModes, WhatTheModelChoseIsRecordedForTuning) {
  Tuner tuner = openAs(Mode::blocking);
  tuner.find(softmax(64));
  tuner.recordShapes(path("shapes.txt"));
  std::ifstream file(path("shapes.txt"));
  std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(parseWorkload(text, path("shapes.txt").string()).entries.size(), 1u) << text;
}

} // namespace
