// Tuners that measure what no store has: in worker processes that compile for real and simulate the
// GPU (TunerWorker.cpp), from the first miss to a choice that is looked up without work.
#include "kiln/plan.h"
#include "test/store/TunerFixture.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

using namespace kiln;
using namespace kiln::test;

namespace {

class TunerMeasures : public TunerModes {
 protected:
  void SetUp() override {
    TunerModes::SetUp();
    if (IsSkipped())
      return;
    const std::vector<KernelPlan> plans = plan(softmax(64).module, {}, {{}, 6});
    for (const Candidate& candidate : plans.at(0).best)
      schedules.push_back(candidate.schedule);
    ASSERT_EQ(schedules.size(), 6u);
    simulation = {{"bias", 0}, {"slower", {{schedules[3], 0.8}}}};
  }
  /// In the simulation as it is now.
  TunerOptions measuring(Mode mode) {
    std::ofstream(path("simulation.json")) << simulation;
    TunerOptions options = optionsAs(mode);
    options.effort = "quick";
    options.worker = {KILN_TUNER_WORKER, path("simulation.json").string()};
    return options;
  }
  /// What the workers were asked to do.
  std::ptrdiff_t calls(const std::string& what = "") const {
    std::ifstream file(path("simulation.json.calls"));
    std::ptrdiff_t count = 0;
    for (std::string line; std::getline(file, line);)
      count += what.empty() || line == what;
    return count;
  }
  /// Found without a compiler and without a worker, by tuners of all modes.
  void expectLookedUp(const std::string& schedule) {
    const std::ptrdiff_t before = calls();
    const std::uint64_t compiled = compilations();
    for (Mode mode : {Mode::offline, Mode::blocking, Mode::background}) {
      Tuner tuner = Tuner::open(measuring(mode));
      const Tuned* tuned = tuner.find(softmax(64));
      ASSERT_TRUE(tuned);
      EXPECT_EQ(tuned->source(), "measured");
      EXPECT_EQ(tuned->schedule(), schedule);
      EXPECT_EQ(tuner.lookup(tuner.name(softmax(64))), tuned);
      EXPECT_EQ(tuner.stats().made, 0u);
    }
    EXPECT_EQ(calls(), before);
    EXPECT_EQ(compilations(), compiled);
  }

  std::vector<std::string> schedules; // the cost model's best
  nlohmann::json simulation;          // where the fourth of them is the fastest
};

TEST_F(TunerMeasures, BlockingReturnsTheFastest) {
  Tuner tuner = Tuner::open(measuring(Mode::blocking));
  const Tuned* tuned = tuner.find(softmax(64));
  ASSERT_TRUE(tuned) << tuner.explain(softmax(64));
  EXPECT_EQ(tuned->source(), "measured");
  EXPECT_EQ(tuned->schedule(), schedules[3]);
  EXPECT_EQ(tuner.lookup(tuner.name(softmax(64))), tuned);
  EXPECT_EQ(tuner.stats().made, 1u);
  EXPECT_GE(calls("verify"), 6);
  EXPECT_GT(calls("time"), 0);
  const std::ptrdiff_t before = calls();
  EXPECT_EQ(tuner.find(softmax(64)), tuned);
  EXPECT_EQ(calls(), before);
  expectLookedUp(schedules[3]);
  // And it is a kernel.
  const TuningTask task = softmax(64);
  EXPECT_EQ(tuner.warmup({&task, 1}), 1u);
  driver.calls.clear();
  Buffer x{reinterpret_cast<void*>(0x1000), {64, 128}, {}};
  Buffer y{reinterpret_cast<void*>(0x10000), {64, 128}, {}};
  tuned->executable().launch(std::span(&x, 1), std::span(&y, 1), nullptr, nullptr);
  EXPECT_EQ(std::ranges::count(driver.calls, "cuLaunchKernelEx"), 1);
}

TEST_F(TunerMeasures, BackgroundHasTheFastestLater) {
  {
    Tuner tuner = Tuner::open(measuring(Mode::background));
    EXPECT_EQ(tuner.find(softmax(64)), nullptr);
    EXPECT_TRUE(comesTrue([&] { return tuner.stats().waiting == 0; }));
    const Tuned* tuned = tuner.lookup(tuner.name(softmax(64)));
    ASSERT_TRUE(tuned) << tuner.explain(softmax(64));
    EXPECT_EQ(tuned->source(), "measured");
    EXPECT_EQ(tuned->schedule(), schedules[3]);
    EXPECT_EQ(tuner.stats().made, 1u);
  }
  expectLookedUp(schedules[3]);
}

/// What was cut off is not chosen by halves, and the next tuner goes on where it was.
TEST_F(TunerMeasures, FreezeStopsItInTheMiddle) {
  const std::filesystem::path hold = path("simulation.json.hold");
  {
    Tuner tuner = Tuner::open(measuring(Mode::background));
    std::ofstream(hold) << "held";
    tuner.find(softmax(64));
    tuner.find(softmax(32));
    ASSERT_TRUE(comesTrue([&] { return calls("verify") == 1; }));
    tuner.freeze();
    std::filesystem::remove(hold);
    EXPECT_TRUE(comesTrue([&] { return tuner.stats().waiting == 0; }));
    EXPECT_EQ(tuner.find(softmax(64)), nullptr);
    EXPECT_EQ(tuner.find(softmax(32)), nullptr);
    EXPECT_EQ(tuner.stats().made, 0u);
    EXPECT_EQ(calls("verify"), 1);
    EXPECT_EQ(calls("time"), 0);
  }
  EXPECT_TRUE(cache::list(path("store")).empty());
  Tuner next = Tuner::open(measuring(Mode::blocking));
  ASSERT_TRUE(next.find(softmax(64))) << next.explain(softmax(64));
  EXPECT_EQ(next.find(softmax(64))->schedule(), schedules[3]);
}

/// They would be the fastest: the default that takes its worker with it, a wrong one, and one that
/// breaks the device when it is timed.
TEST_F(TunerMeasures, CandidatesThatFailCostNothingElse) {
  const std::pair<const char*, bool> faults[] = {
      {"crash", false}, {"wrong result", false}, {"illegal access", true}};
  for (std::size_t i = 0; i < std::size(faults); ++i) {
    simulation["faults"][schedules[i]] = {{"kind", faults[i].first},
                                          {"while_timing", faults[i].second}};
    simulation["slower"][schedules[i]] = 0.5;
  }
  Tuner tuner = Tuner::open(measuring(Mode::background)); // whose thread outlives them all
  tuner.find(softmax(64));
  EXPECT_TRUE(comesTrue([&] { return tuner.stats().waiting == 0; }));
  const Tuned* tuned = tuner.find(softmax(64));
  ASSERT_TRUE(tuned) << tuner.explain(softmax(64));
  EXPECT_EQ(tuned->source(), "measured");
  EXPECT_EQ(tuned->schedule(), schedules[3]);
  const cache::Details details = cache::show(path("store"), tuned->key());
  EXPECT_EQ(details.failures.size(), std::size(faults));
  for (const auto& [kind, whileTiming] : faults)
    EXPECT_TRUE(std::ranges::any_of(details.failures, [&](const std::string& failure) {
      return contains(failure, kind);
    })) << kind;
  tuner.find(softmax(32));
  EXPECT_TRUE(comesTrue([&] { return tuner.stats().waiting == 0; }));
  EXPECT_TRUE(tuner.find(softmax(32))) << "the next task is made too";
}

TEST_F(TunerMeasures, AWorkerThatDoesNotStartIsARefusalWithItsReason) {
  TunerOptions options = measuring(Mode::blocking);
  options.worker = {"/none/worker"};
  Tuner tuner = Tuner::open(options);
  EXPECT_EQ(tuner.find(softmax(64)), nullptr);
  EXPECT_EQ(tuner.stats().refused, 1u);
  EXPECT_HAS(tuner.explain(softmax(64)), "/none/worker");
  EXPECT_EQ(warnings.size(), 1u);
  fill("store", {softmax(32)});
  EXPECT_TRUE(Tuner::open(options).find(softmax(32))); // what is there needs none
}

} // namespace
