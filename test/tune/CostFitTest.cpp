// The cost model against the times of the shipped store, and the program that fits its constants:
// what it is worth on keys that it was not shown, that it finds constants that were planted, and
// that it writes what it found.
#include "bench/fit_cost/Fit.h"
#include "codegen/families/multi_tensor/cost/Cost.h"
#include "kiln/files.h"
#include "kiln/plan.h"
#include "test/store/Rows.h"

#include <gmock/gmock.h>

#include <cmath>
#include <random>

using namespace kiln;
using namespace kiln::autotune;
using namespace kiln::bench;
using namespace kiln::model;

namespace {

using Part = CostConstant::Part;

const std::filesystem::path kSources = KILN_SOURCE_FOLDER;

/// Read once for all tests.
const std::vector<TunedKey>& shipped() {
  static const std::vector<TunedKey> keys = [] {
    const std::filesystem::path store = kSources / "autotune/stores/h200.db";
    std::vector<std::string> skipped;
    std::vector<TunedKey> all = tunedKeys({&store, 1}, skipped);
    EXPECT_LE(skipped.size(), all.size() / 20) << skipped.front(); // of other versions' spaces
    return all;
  }();
  return keys;
}

enum class Of { rows, layers, losses };

/// Workloads of rows, or functions that trainers made: those of layers, attention's workloads with
/// them, and AlphaFold's over coordinates and classes, which latency or a hundred operations an
/// element hold up.
Of whatOf(const TunedKey& key) {
  const std::string& label = key.label;
  constexpr std::string_view losses[] = {"angles_off",    "atoms_overlap",   "cross_entropies",
                                         "distances_off", "distances_right", "frame_align",
                                         "lengths_off",   "point_attention", "updated_frames"};
  const auto isAttention = [](const Sample& sample) {
    return sample.schedules.find("schedule<attention") != std::string::npos;
  };
  if (!label.starts_with("shape_"))
    return std::ranges::any_of(key.samples, isAttention) ? Of::layers : Of::rows;
  const auto isIn = [&](std::string_view name) { return label.find(name) != label.npos; };
  return std::ranges::any_of(losses, isIn) ? Of::losses : Of::layers;
}

std::vector<TunedKey> shippedOf(Of what) {
  std::vector<TunedKey> keys;
  for (const TunedKey& key : shipped())
    if (whatOf(key) == what)
      keys.push_back(key);
  return keys;
}

const std::vector<TunedKey>& rows() {
  static const std::vector<TunedKey> keys = shippedOf(Of::rows);
  return keys;
}

TEST(CostModel, TellsTheTimesOfTheShippedRows) {
  const std::vector<TunedKey>& keys = rows();
  ASSERT_GT(keys.size(), 200U);
  const Figures figures = figuresOf(rank(keys, kCostConstants), kCostConstants);
  EXPECT_GE(figures.choices.all.size(), keys.size() * 19 / 20);
  EXPECT_GT(figures.defaults.all.size(), keys.size() * 9 / 10);
  for (const Errors* errors : {&figures.choices, &figures.defaults, &figures.timed}) {
    EXPECT_GE(errors->within().value(), 0.90);
    EXPECT_NEAR(errors->quantile(0.5), 1.0, 0.04);
  }
}

/// What plan says, of all that is shipped.
TEST(CostModel, TellsTheTimesOfNineOfTenShippedKeys) {
  ASSERT_GT(shipped().size(), 500U);
  const Figures figures = figuresOf(rank(shipped(), kCostConstants), kCostConstants);
  EXPECT_GE(figures.choices.within().value(), 0.90);
  EXPECT_GE(figures.defaults.within().value(), 0.85);
}

/// Functions of trainers' layers, and attention. Of what ranks, how instructions are issued was
/// fitted to them too.
TEST(CostModel, TellsTheTimesOfMostRecordedFunctions) {
  const std::vector<TunedKey> keys = shippedOf(Of::layers);
  ASSERT_GT(keys.size(), 250U);
  const Figures figures = figuresOf(rank(keys, kCostConstants), kCostConstants);
  for (const Errors* errors : {&figures.choices, &figures.defaults}) {
    EXPECT_GE(errors->within().value(), 0.80);
    EXPECT_NEAR(errors->quantile(0.5), 1.0, 0.04);
  }
}

/// The model is of rows that memory or a few instructions hold up: of these functions it knows
/// less.
TEST(CostModel, TellsTheTimesOfLossesRoughly) {
  const std::vector<TunedKey> keys = shippedOf(Of::losses);
  ASSERT_GT(keys.size(), 40U);
  const Figures figures = figuresOf(rank(keys, kCostConstants), kCostConstants);
  EXPECT_GE(figures.choices.within().value(), 0.40);
  EXPECT_NEAR(figures.choices.quantile(0.5), 1.0, 0.15);
  EXPECT_GE(figures.ranking.standard.value(), 0.6);
}

/// What runs without a store is about as fast as what was tuned. An exported store has few
/// schedules of each key, so that the best eight are held to what is known of them.
TEST(CostModel, RanksTheSchedulesOfTheShippedStore) {
  const Ranking ranking = figuresOf(rank(shipped(), kCostConstants), kCostConstants).ranking;
  EXPECT_GE(ranking.standard.value(), 0.95);
  EXPECT_GE(ranking.bestEight.value(), 0.70);
}

TEST(CostModel, TellsTimesOfKeysThatItHasNotSeen) {
  const std::vector<TunedKey>& keys = rows();
  std::map<std::string, std::size_t> twins;
  std::vector<std::size_t> groups;
  for (const TunedKey& key : keys)
    groups.push_back(twins.emplace(key.twin, twins.size()).first->second % 3);
  ASSERT_LT(twins.size(), keys.size()) << "keys of run-time sizes are their twins' again";
  // From elsewhere, so that what is found is found in the keys shown.
  CostConstants start = kCostConstants;
  start.readShare = start.writeShare = start.rowValues = start.workOperation = start.sums = 1.0;
  start.ramp = start.readAhead = 0.5;
  start.workNorm = 4;
  const Figures figures = heldOut(
      keys, groups, [&](std::span<const TunedKey> shown) { return fit(Part::time, shown, start); });
  EXPECT_GE(figures.choices.all.size(), keys.size() * 19 / 20);
  EXPECT_GE(figures.choices.within().value(), 0.88);
  EXPECT_GE(figures.defaults.within().value(), 0.88);
}

/// Optimizers are in no store that was fitted to: 853 us measured (bench/results/adamw_h200.md).
TEST(CostModel, TellsTheTimeOfAnOpThatItHasNotSeen) {
  const multi_tensor::Facts adamw{.inputs = 4, .outputs = 3, .bytesRead = 16, .bytesWritten = 12};
  const double elements = 128'508'416;
  EXPECT_NEAR(
      model::cheapestMicroseconds(multi_tensor::workOf(adamw, elements), findTarget("sm_90a")), 853,
      60);
}

TEST(CostModel, PlanPrintsTheseTimes) {
  CompileOptions options;
  options.arch = "sm_90a";
  const Module module = Module::fromOp({"softmax", {8192, 10000}, DType::bf16});
  const KernelPlan planned = plan(module, options).at(0);
  EXPECT_NEAR(planned.best.at(0).prediction.microseconds, 80.1, 4.0) << "80.1 us measured";
  const auto key = std::ranges::find(shipped(), "softmax 8192x10000 bf16", &TunedKey::label);
  ASSERT_NE(key, shipped().end());
  const RankedKey ranked = rank({&*key, 1}, kCostConstants).at(0);
  for (std::size_t i = 0; i < key->samples.size(); ++i)
    for (const kiln::Candidate& candidate : planned.best)
      if (candidate.schedule == key->samples[i].schedules) {
        EXPECT_DOUBLE_EQ(candidate.prediction.microseconds, predicted(ranked, i, kCostConstants));
      }
}

/// A sample of the schedules of some keys, each with the time that other constants say, a noise,
/// and a factor that ranks nothing.
std::vector<TunedKey> planted(const CostConstants& k) {
  std::mt19937 random(5);
  std::normal_distribution<double> noise(0, 0.01);
  std::vector<TunedKey> keys;
  for (std::size_t i = 0; i < rows().size(); i += 3) { // enough to tell the constants apart
    TunedKey key = rows()[i];
    const model::KernelModel& kernel = *key.kernels.at(0).model;
    const std::vector<model::Candidate> space = kernel.space(*key.target, Listing::likely).feasible;
    key.samples.clear();
    for (std::size_t place = 0; place < space.size(); place += 1 + place / 12) {
      const Schedule& schedule = space[place].schedule;
      const double cost = kernel.cost(schedule, *key.target, k).total;
      key.samples.push_back(
          {toText(schedule), {schedule}, 1.7 * cost * std::exp(noise(random)), false, false});
    }
    keys.push_back(std::move(key));
  }
  return keys;
}

/// Over keys, of the time of the schedule that costs least over the best one's.
double regret(std::span<const TunedKey> keys, const CostConstants& k) {
  double sum = 0;
  for (const TunedKey& key : keys) {
    const Sample& first = *std::ranges::min_element(key.samples, {}, [&](const Sample& sample) {
      return key.kernels.at(0).model->cost(sample.ofKernel.at(0), *key.target, k).total;
    });
    const Sample& best = *std::ranges::min_element(key.samples, {}, &Sample::microseconds);
    sum += first.microseconds / best.microseconds - 1;
  }
  return sum / double(keys.size());
}

TEST(CostFit, FindsARankingThatWasPlanted) {
  CostConstants truth = kCostConstants;
  truth.underfilled *= 3;
  truth.smallBlock *= 3;
  truth.wideShared *= 10;
  truth.manyAccesses *= 3;
  truth.columnsCopied *= 5;
  truth.ringUnder *= 3;
  std::vector<TunedKey> shown = planted(truth), held;
  for (std::size_t i = 0; i < shown.size(); i += 2) { // every third, since they move up
    held.push_back(std::move(shown[i]));
    shown.erase(shown.begin() + static_cast<std::ptrdiff_t>(i));
  }
  const CostConstants found = fit(Part::ranking, shown, kCostConstants);
  EXPECT_NEAR(found.underfilled / truth.underfilled, 1, 0.3);
  EXPECT_NEAR(found.manyAccesses / truth.manyAccesses, 1, 0.3);
  // The truth has some too: of the noise.
  EXPECT_GT(regret(held, kCostConstants), regret(held, truth) + 0.005);
  EXPECT_LT(regret(held, found), regret(held, truth) + 0.002);
  EXPECT_EQ(found.readShare, kCostConstants.readShare) << "of the time";
}

/// A sweep keeps what the program reads of a store.
TEST(CostFit, SavesASweepThatSaysTheSame) {
  const std::filesystem::path store = kSources / "autotune/stores/h200.db",
                              sweep = testing::TempDir() + "fit_cost_sweep.json";
  std::vector<std::string> skipped;
  writeSweep(sweep, timedKeys({&store, 1}, skipped));
  const std::vector<TunedKey> again = tunedKeys({&sweep, 1}, skipped);
  ASSERT_EQ(again.size(), shipped().size());
  for (std::size_t i = 0; i < again.size(); ++i) {
    EXPECT_EQ(again[i].label, shipped()[i].label);
    EXPECT_EQ(again[i].samples.size(), shipped()[i].samples.size());
  }
  const auto figures = [](std::span<const TunedKey> keys) {
    return figuresOf(rank(keys, kCostConstants), kCostConstants);
  };
  const Figures a = figures(again), b = figures(shipped());
  EXPECT_EQ(a.ranking.bestEight.count, b.ranking.bestEight.count);
  EXPECT_EQ(a.ranking.standard.count, b.ranking.standard.count);
  EXPECT_NEAR(a.timed.quantile(0.5), b.timed.quantile(0.5), 1e-3);
  std::filesystem::remove(sweep);
  const std::filesystem::path nothing = testing::TempDir() + "no_sweep.json";
  writeFile(nothing, "{}");
  EXPECT_THAT(errorOf(ErrorKind::input, [&] { tunedKeys({&nothing, 1}, skipped); }),
              testing::HasSubstr("no_sweep.json is no sweep"));
  std::filesystem::remove(nothing);
}

TEST(CostFit, LeavesWhatTheTimesSayNothingOf) {
  std::vector<TunedKey> maps; // without sums, error functions and values of rows
  for (const TunedKey& key : rows())
    if (key.op == "silu")
      maps.push_back(key);
  ASSERT_GT(maps.size(), 4U);
  const CostConstants found = fit(Part::time, maps, kCostConstants);
  EXPECT_EQ(found.sums, kCostConstants.sums);
  EXPECT_EQ(found.workErf, kCostConstants.workErf);
  EXPECT_EQ(found.rowValues, kCostConstants.rowValues);
  EXPECT_EQ(found.underfilled, kCostConstants.underfilled) << "of the ranking";
  EXPECT_EQ(found.nearCheapest, kCostConstants.nearCheapest) << "fixed";
}

TEST(CostFit, FitsOnlyTheNamed) {
  CostConstants start = kCostConstants;
  start.sums *= 4;
  const std::string names[] = {"sums"};
  const CostConstants found = fit({Part::time, names}, rows(), start);
  EXPECT_LT(found.sums, start.sums / 2);
  for (const CostConstant& constant : kAllCostConstants)
    if (constant.name != "sums") {
      EXPECT_EQ(found.*constant.member, start.*constant.member) << constant.name;
    }
}

TEST(CostFit, WritesValuesWhereTheyStand) {
  const std::string text = readFile(kSources / "codegen/model/cost_constants.def");
  EXPECT_EQ(withValues(text, kCostConstants), text);
  CostConstants other = kCostConstants;
  other.ring = 0.03141;
  other.rampBytes = 12345;
  other.issued = 1; // fixed: no fit writes it
  const std::string written = withValues(text, other);
  EXPECT_THAT(written, testing::HasSubstr("\nKILN_RANKING(ring, 0.0314, \"any ring\")\n"));
  EXPECT_THAT(written, testing::HasSubstr("\nKILN_TIME(rampBytes, 12300, "));
  EXPECT_EQ(std::ranges::count(written, '\n'), std::ranges::count(text, '\n'));
  other = kCostConstants;
  EXPECT_EQ(withValues(written, other).size(), text.size()) << "and back";
  const std::string message = errorOf(ErrorKind::input, [] { withValues("nothing", {}); });
  EXPECT_THAT(message, testing::HasSubstr("KILN_...(reachable, value, ...)"));
}

} // namespace
