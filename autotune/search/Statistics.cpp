// See Statistics.h.
#include "autotune/search/Statistics.h"

#include "codegen/backend/Timer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <tuple>

namespace kiln::autotune {
namespace {

constexpr std::uint64_t kSeed = 0x9e3779b97f4a7c15;

/// Fewest resamples, and how many of them must lie beyond each end of an interval.
constexpr std::size_t kResamples = 1000, kBeyond = 4;

/// Where the two middle values of a sample drawn with replacement from n sorted ones lie among
/// these (the same one twice if n is odd), for `count` such samples. The seed is fixed, so they are
/// the same for all samples of that size: drawn once a thread.
using Middle = std::pair<std::uint32_t, std::uint32_t>;
const std::vector<Middle>& resampledMiddles(std::size_t n, std::size_t count) {
  thread_local std::map<std::pair<std::size_t, std::size_t>, std::vector<Middle>> known;
  std::vector<Middle>& middles = known[{n, count}];
  if (!middles.empty())
    return middles;
  std::mt19937_64 random(kSeed);
  std::vector<unsigned> counts;
  auto placeOf = [&](std::size_t rank) { // of the value of that rank, from 0
    std::size_t seen = 0;
    std::uint32_t place = 0;
    while ((seen += counts[place]) <= rank)
      ++place;
    return place;
  };
  for (std::size_t sample = 0; sample < count; ++sample) {
    counts.assign(n, 0);
    for (std::size_t i = 0; i < n; ++i)
      ++counts[(random() >> 32) * n >> 32];
    middles.emplace_back(placeOf((n - 1) / 2), placeOf(n / 2));
  }
  return middles;
}

/// The largest k for which the true median lies between the k-th smallest and the k-th largest of n
/// samples but with probability `error`, whatever their distribution (the sign test); 0: none. Of
/// few samples a bootstrap alone promises too much.
std::size_t certainRank(std::size_t n, double error) {
  double below = 0, probability = std::ldexp(1.0, -static_cast<int>(n)); // of no sample below it
  std::size_t k = 0;
  while (k < n / 2 && 2 * (below += probability) <= error) {
    probability *= static_cast<double>(n - k) / static_cast<double>(k + 1);
    ++k;
  }
  return k;
}

/// The look that so many samples allow; 0: none.
std::size_t lastLook(std::size_t samples) {
  auto next = std::ranges::upper_bound(kLooks, samples);
  return next == kLooks.begin() ? 0 : *std::prev(next);
}

/// The order in which ties are resolved, between two that are not the default.
bool isSimpler(const Contender& a, const Contender& b) {
  return std::tie(a.registers, a.sharedBytes, a.schedule) <
         std::tie(b.registers, b.sharedBytes, b.schedule);
}

} // namespace

std::vector<double> ratios(std::span<const double> over, std::span<const double> under) {
  std::vector<double> result(std::min(over.size(), under.size()));
  for (std::size_t i = 0; i < result.size(); ++i)
    result[i] = over[i] / under[i];
  return result;
}

Interval medianInterval(std::span<const double> samples, double error) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  std::vector<double> sorted(samples.begin(), samples.end());
  std::ranges::sort(sorted);
  Interval interval{medianOf(sorted), -infinity, infinity};
  const std::size_t certain = certainRank(sorted.size(), error);
  if (certain == 0)
    return interval;
  std::vector<double> medians;
  for (auto [low, high] : resampledMiddles(
           sorted.size(),
           std::max(kResamples, static_cast<std::size_t>(std::ceil(2.0 * kBeyond / error)))))
    medians.push_back((sorted[low] + sorted[high]) / 2);
  std::ranges::sort(medians);
  auto beyond = static_cast<std::size_t>(error / 2 * static_cast<double>(medians.size()));
  interval.low = std::min(medians[beyond], sorted[certain - 1]);
  interval.high = std::max(medians[medians.size() - 1 - beyond], sorted[sorted.size() - certain]);
  return interval;
}

void setTimes(Measurement& measurement, std::span<const double> samples,
              std::span<const double> beside) {
  const Interval time = medianInterval(samples), ratio = medianInterval(ratios(samples, beside));
  measurement.median = time.middle;
  measurement.low = time.low;
  measurement.high = time.high;
  measurement.samples = static_cast<int>(samples.size());
  measurement.ratio = ratio.middle;
  measurement.ratioLow = ratio.low;
  measurement.ratioHigh = ratio.high;
}

Comparison compare(std::span<const double> candidate, std::span<const double> incumbent,
                   std::size_t several) {
  Comparison result;
  std::vector<double> pairs = ratios(candidate, incumbent);
  result.samples = lastLook(pairs.size());
  if (result.samples == 0)
    return result;
  const double error =
      kError / static_cast<double>(kLooks.size() * std::max<std::size_t>(several, 1));
  result.ratio = medianInterval(std::span(pairs).first(result.samples), error);
  if (result.ratio.low >= 1 - kSame && result.ratio.high <= 1 + kSame)
    result.outcome = Outcome::same;
  else if (result.ratio.high < 1)
    result.outcome = Outcome::faster;
  else if (result.ratio.low > 1)
    result.outcome = Outcome::slower;
  else if (result.samples == kLooks.back())
    result.outcome = Outcome::ambiguous;
  return result;
}

Decision decide(std::span<const Contender> contenders) {
  Decision decision;
  const std::size_t count = contenders.size();
  auto compareTo = [&](std::size_t i, std::size_t other) {
    return compare(contenders[i].samples, contenders[other].samples,
                   std::max<std::size_t>(count, 2) - 1);
  };
  std::vector<double> medians;
  for (const Contender& contender : contenders) {
    medians.push_back(medianOf(ratios(contender.samples, contenders.front().samples)));
    decision.toDefault.push_back(compareTo(medians.size() - 1, 0));
  }
  auto isFaster = [&](std::size_t i) {
    return i > 0 && decision.toDefault[i].outcome == Outcome::faster;
  };
  /// The smallest median of those that are wanted; the default where none is.
  auto fastest = [&](auto isWanted) {
    std::size_t best = count;
    for (std::size_t i = 0; i < count; ++i)
      if (isWanted(i) && (best == count || medians[i] < medians[best]))
        best = i;
    return best == count ? 0 : best;
  };
  const std::size_t leader = fastest(isFaster);
  decision.winner = leader;
  decision.settled = true;
  for (std::size_t i = 1; i < count; ++i) {
    Outcome toLeader = i == leader   ? Outcome::same
                       : leader == 0 ? decision.toDefault[i].outcome
                                     : compareTo(i, leader).outcome;
    decision.settled &= decision.toDefault[i].outcome != Outcome::open && toLeader != Outcome::open;
    if (isFaster(i) && toLeader != Outcome::slower &&
        isSimpler(contenders[i], contenders[decision.winner]))
      decision.winner = i;
  }
  decision.runnerUp = fastest([&](std::size_t i) { return i != decision.winner; });
  decision.overRunnerUp = compareTo(decision.winner, decision.runnerUp);
  return decision;
}

} // namespace kiln::autotune
