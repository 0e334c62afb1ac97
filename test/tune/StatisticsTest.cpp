// Comparisons of times: intervals that hold what they promise, looks at fixed numbers only, ties.
#include "autotune/search/Statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

using namespace kiln::autotune;

namespace {

/// Times of kernels that take turns on a device whose clock drifts and that is disturbed at times.
struct Bench {
  std::mt19937_64 random;
  double noise = 0.004;
  double phase = 0;

  explicit Bench(std::uint64_t seed) : random(seed) {
    phase = std::uniform_real_distribution<double>(0, 6.3)(random);
  }
  std::vector<std::vector<double>> rounds(const std::vector<double>& times, std::size_t count) {
    std::normal_distribution<double> normal;
    std::vector<std::vector<double>> samples(times.size());
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t k = 0; k < times.size(); ++k) {
        double drift = 1 + 0.03 * std::sin(phase + 0.07 * double(i));
        double disturbed = random() % 50 == 0 ? 1.2 : 1.0;
        samples[k].push_back(times[k] * drift * disturbed * std::exp(noise * normal(random)));
      }
    return samples;
  }
};

TEST(MedianInterval, HoldsTheTruthAsOftenAsPromised) {
  for (std::size_t n : {16, 64}) {
    int inside = 0;
    for (int trial = 0; trial < 400; ++trial) {
      std::mt19937_64 random(trial);
      std::lognormal_distribution<double> skewed(0, 0.5); // its median is 1
      std::vector<double> samples(n);
      for (double& sample : samples)
        sample = skewed(random);
      Interval interval = medianInterval(samples, 0.05);
      EXPECT_LE(interval.low, interval.middle);
      EXPECT_LE(interval.middle, interval.high);
      inside += interval.low <= 1 && 1 <= interval.high;
    }
    EXPECT_GE(inside, 400 * 92 / 100) << n;
    EXPECT_LE(inside, 400 * 99 / 100) << "wider than need be, " << n;
  }
}

TEST(MedianInterval, SaysNothingWithTooFewSamples) {
  std::vector<double> samples{1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7};
  EXPECT_TRUE(std::isfinite(medianInterval(samples, 0.01).low));
  EXPECT_TRUE(std::isinf(medianInterval(samples, 0.001).low));
  EXPECT_TRUE(std::isinf(medianInterval(std::span(samples).first(1)).high));
}

TEST(Compare, LooksOnlyAtFixedNumbersOfSamples) {
  Bench bench(3);
  auto samples = bench.rounds({100, 100}, 200);
  for (std::size_t n : {0, 7, 8, 15, 16, 31, 100, 128, 200}) {
    auto take = [&](int k) { return std::span(samples[k]).first(n); };
    Comparison found = compare(take(0), take(1));
    std::size_t look = 0;
    for (std::size_t allowed : kLooks)
      look = allowed <= n ? allowed : look;
    EXPECT_EQ(found.samples, look);
    if (look == 0) {
      EXPECT_EQ(found.outcome, Outcome::open);
      continue;
    }
    Comparison again =
        compare(std::span(samples[0]).first(look), std::span(samples[1]).first(look));
    EXPECT_EQ(again.ratio.low, found.ratio.low); // bit for bit: the seed is fixed
    EXPECT_EQ(again.ratio.high, found.ratio.high);
  }
}

/// Looks until settled, as a search does.
Comparison looked(std::span<const double> a, std::span<const double> b) {
  Comparison found;
  for (std::size_t n : kLooks)
    if (found = compare(a.first(n), b.first(n)); found.outcome != Outcome::open)
      break;
  return found;
}

TEST(Compare, TwoCopiesAreTheSame) {
  int same = 0, parted = 0;
  for (int tune = 0; tune < 100; ++tune) {
    auto samples = Bench(tune).rounds({50, 50}, 128);
    Outcome outcome = looked(samples[0], samples[1]).outcome;
    same += outcome == Outcome::same;
    parted += outcome == Outcome::faster || outcome == Outcome::slower;
  }
  EXPECT_GE(same, 95);
  EXPECT_LE(parted, 5);
}

TEST(Compare, ThreePercentAreFound) {
  int found = 0;
  for (int tune = 0; tune < 100; ++tune) {
    auto samples = Bench(tune).rounds({50, 51.5}, 128);
    Comparison comparison = looked(samples[0], samples[1]);
    found += comparison.outcome == Outcome::faster;
    EXPECT_NE(comparison.outcome, Outcome::slower);
    EXPECT_EQ(looked(samples[1], samples[0]).outcome == Outcome::slower,
              comparison.outcome == Outcome::faster);
  }
  EXPECT_GE(found, 99);
}

TEST(Compare, MuchNoiseIsAmbiguousNotFaster) {
  int parted = 0, ambiguous = 0;
  for (int tune = 0; tune < 400; ++tune) {
    Bench bench(tune);
    bench.noise = 0.05;
    auto samples = bench.rounds({50, 50}, 128);
    Outcome outcome = looked(samples[0], samples[1]).outcome;
    ambiguous += outcome == Outcome::ambiguous;
    parted += outcome == Outcome::faster || outcome == Outcome::slower;
  }
  EXPECT_LE(parted, 400 * 5 / 100);
  EXPECT_GE(ambiguous, 380);
}

std::vector<Contender> contenders(const std::vector<double>& times, std::uint64_t seed,
                                  std::size_t rounds = 128) {
  auto samples = Bench(seed).rounds(times, rounds);
  std::vector<Contender> all;
  for (std::size_t i = 0; i < times.size(); ++i)
    all.push_back({std::string(1, char('a' + i)), 64, 1024, samples[i]});
  return all;
}

TEST(Decide, TheDefaultWinsATie) {
  int kept = 0;
  for (int tune = 0; tune < 40; ++tune) {
    auto all = contenders({50, 50, 50, 50, 50, 50, 50, 50}, tune);
    for (std::size_t i = 1; i < all.size(); ++i)
      all[i].registers = 16; // that do not matter against the default
    kept += decide(all).winner == 0;
  }
  EXPECT_GE(kept, 40 * 95 / 100);
}

TEST(Decide, ThePlantedGainIsFoundAmongMany) {
  for (int tune = 0; tune < 20; ++tune) {
    Decision decision = decide(contenders({50, 50.1, 51, 48.5, 50}, tune));
    EXPECT_EQ(decision.winner, 3u);
    EXPECT_EQ(decision.toDefault[3].outcome, Outcome::faster);
    EXPECT_NEAR(decision.toDefault[3].ratio.middle, 0.97, 0.005);
    EXPECT_LT(decision.overRunnerUp.ratio.high, 1);
    EXPECT_TRUE(decision.settled);
  }
}

TEST(Decide, FewerRegistersThenLessSharedMemoryThenTheText) {
  auto all = contenders({50, 45, 45, 45, 45}, 5);
  all[1].registers = 40;
  EXPECT_EQ(decide(all).winner, 1u);
  for (std::size_t i = 1; i < all.size(); ++i)
    all[i].registers = 40;
  all[3].sharedBytes = 512;
  EXPECT_EQ(decide(all).winner, 3u);
  all[3].sharedBytes = 1024;
  EXPECT_EQ(decide(all).winner, 1u);
  all[2].schedule = "A"; // before "b"
  EXPECT_EQ(decide(all).winner, 2u);
}

TEST(Decide, ANoisyRivalWithFewRegistersDoesNotWin) {
  auto all = contenders({50, 45, 45}, 5);
  all[2].registers = 8;
  std::mt19937_64 random(1);
  for (double& sample : all[2].samples)
    sample = random() % 2 ? 30 : 60;
  EXPECT_EQ(decide(all).winner, 1u);
}

TEST(Decide, OneContender) {
  Decision decision = decide(contenders({50}, 1, 8));
  EXPECT_EQ(decision.winner, 0u);
  EXPECT_EQ(decision.runnerUp, 0u);
}

} // namespace
