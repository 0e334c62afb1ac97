// See Figures.h.
#include "bench/fit_cost/Figures.h"

#include "autotune/search/Points.h"
#include "codegen/family/Buffers.h"
#include "codegen/model/Calibration.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

namespace kiln::bench {

using namespace autotune;
using namespace model;

namespace {

constexpr std::size_t kBest = 8;
constexpr double kNearBest = 1.03, kNearStandard = 1.10, kNearTime = 1.10;
// Of the regret: a default that is slow, however slow; more, if it does not count as near; one that
// was not timed, of which it is not known what it loses; eight that hold none near the best.
constexpr double kMostLost = 0.4, kLostBeyond = 0.05, kLostUnknown = 0.12, kLostEight = 0.06;
constexpr std::size_t kShort = 100; // schedules of a kernel on a shortlist

/// The spaces of a key's kernels by other constants.
std::vector<KernelSpace> rankedSpaces(const TunedKey& key, const CostConstants& k) {
  std::vector<KernelSpace> spaces;
  for (const NamedKernel& kernel : key.kernels) {
    KernelSpace space{family::entryName(kernel.name),
                      kernel.model,
                      kernel.model->space(*key.target, key.listing).feasible,
                      0,
                      {}};
    for (Candidate& candidate : space.feasible)
      candidate.cost = kernel.model->cost(candidate.schedule, *key.target, k);
    std::ranges::stable_sort(space.feasible, {},
                             [](const Candidate& candidate) { return candidate.cost.total; });
    spaces.push_back(std::move(space));
  }
  return spaces;
}

RankedKey rank(const TunedKey& key, const CostConstants& k) {
  const std::vector<KernelSpace> spaces = rankedSpaces(key, k);
  Points points(spaces);
  RankedKey ranked{&key, {}, {}};
  for (const Sample& sample : key.samples) {
    const std::size_t place = points.find(sample.schedules).value();
    ranked.places.push_back(place);
    std::vector<double>& ratios = ranked.ratios.emplace_back();
    for (std::size_t kernel = 0; kernel < spaces.size(); ++kernel) {
      const std::vector<Candidate>& all = spaces[kernel].feasible;
      ratios.push_back(all[points[place].at[kernel]].cost.total / all.front().cost.total);
    }
  }
  return ranked;
}

void count(Share& share, bool has) {
  share.count += has;
  ++share.known;
}

/// How a key is ranked, by the places of its samples.
struct Standing {
  bool bestEight = false; // hold one that is near the best
  double standard = 0;    // over the best; 0: it was not timed
  bool isStandardNear = false;
};

Standing standingOf(const TunedKey& key, std::span<const std::size_t> places) {
  const double best = std::ranges::min(key.samples, {}, &Sample::microseconds).microseconds;
  Standing standing;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const double time = key.samples[i].microseconds;
    standing.bestEight |= places[i] < kBest && time <= kNearBest * best;
    if (places[i] == 0) {
      standing.standard = time / best;
      standing.isStandardNear = time <= kNearStandard * best;
    }
  }
  return standing;
}

void addRanking(const RankedKey& ranked, Ranking& ranking) {
  const Standing standing = standingOf(*ranked.key, ranked.places);
  if (standing.standard > 0)
    count(ranking.standard, standing.isStandardNear);
  count(ranking.bestEight, standing.bestEight);
  ranking.regret += regretOf(*ranked.key, ranked.places);
}

std::vector<double> costsOf(const NamedKernel& kernel, std::span<const Schedule> schedules,
                            const Target& target, const CostConstants& k) {
  std::vector<double> costs;
  costs.reserve(schedules.size());
  for (const Schedule& schedule : schedules)
    costs.push_back(kernel.model->cost(schedule, target, k).total);
  return costs;
}

} // namespace

std::size_t RankedKey::standard() const {
  if (auto first = std::ranges::find(places, 0U); first != places.end())
    return static_cast<std::size_t>(first - places.begin());
  return static_cast<std::size_t>(std::ranges::find(key->samples, true, &Sample::wasDefault) -
                                  key->samples.begin());
}

std::vector<RankedKey> rank(std::span<const TunedKey> keys, const CostConstants& k) {
  std::vector<RankedKey> all;
  for (const TunedKey& key : keys)
    all.push_back(rank(key, k));
  return all;
}

double predicted(const RankedKey& ranked, std::size_t sample, const CostConstants& k) {
  const TunedKey& key = *ranked.key;
  double time = 0.0;
  for (std::size_t kernel = 0; kernel < key.kernels.size(); ++kernel)
    time += model::cheapestMicroseconds(key.kernels[kernel].model->work(), *key.target, k) *
            model::slowdown(ranked.ratios[sample][kernel], k);
  return time;
}

Figures figuresOf(std::span<const RankedKey> keys, const CostConstants& k) {
  Figures figures;
  for (const RankedKey& ranked : keys) {
    addRanking(ranked, figures.ranking);
    for (std::size_t i = 0; i < ranked.key->samples.size(); ++i) {
      const Sample& sample = ranked.key->samples[i];
      const double error = std::log(predicted(ranked, i, k) / sample.microseconds);
      figures.timed.all.push_back(error);
      if (sample.isChosen)
        figures.choices.all.push_back(error);
      if (i == ranked.standard())
        figures.defaults.all.push_back(error);
    }
  }
  return figures;
}

double regretOf(const TunedKey& key, std::span<const std::size_t> places) {
  const Standing standing = standingOf(key, places);
  const double lost = standing.standard == 0 ? kLostUnknown
                                             : std::min(std::log(standing.standard), kMostLost) +
                                                   (standing.isStandardNear ? 0.0 : kLostBeyond);
  return lost + (standing.bestEight ? 0.0 : kLostEight);
}

Shortlist::Shortlist(const TunedKey& key, const CostConstants& k)
    : key(&key), ofSample(key.samples.size()) {
  for (std::size_t i = 0; i < key.kernels.size(); ++i) {
    const NamedKernel& kernel = key.kernels[i];
    std::vector<Schedule> all;
    for (const Candidate& candidate : kernel.model->space(*key.target, key.listing).feasible)
      all.push_back(candidate.schedule);
    const std::vector<double> costs = costsOf(kernel, all, *key.target, k);
    std::vector<double> sorted = costs;
    const auto last = sorted.begin() + std::ptrdiff_t(std::min(kShort, sorted.size()) - 1);
    std::ranges::nth_element(sorted, last);
    std::vector<Schedule>& shortest = schedules.emplace_back();
    for (std::size_t at = 0; at < all.size(); ++at)
      if (costs[at] <= *last)
        shortest.push_back(all[at]);
    for (std::size_t sample = 0; sample < ofSample.size(); ++sample)
      ofSample[sample].push_back(static_cast<std::size_t>(
          std::ranges::find(shortest, key.samples[sample].ofKernel[i]) - shortest.begin()));
  }
}

/// As Points has them: those beside the cheapest differ from it by one kernel.
std::vector<Shortlist::Point>
Shortlist::firstPoints(const std::vector<std::vector<double>>& costs) const {
  Point cheapest;
  for (const std::vector<double>& ofKernel : costs)
    cheapest.push_back(
        static_cast<std::size_t>(std::ranges::min_element(ofKernel) - ofKernel.begin()));
  std::vector<std::tuple<double, std::size_t, std::size_t>> steps; // cost more, kernel, place
  for (std::size_t i = 0; i < costs.size(); ++i)
    for (std::size_t at = 0; at < costs[i].size(); ++at)
      if (at != cheapest[i])
        steps.emplace_back(costs[i][at] - costs[i][cheapest[i]], i, at);
  const auto end = steps.begin() + std::ptrdiff_t(std::min(kBest - 1, steps.size()));
  std::ranges::partial_sort(steps, end);
  std::vector<Point> points{cheapest};
  for (const auto& [cost, kernel, at] : std::ranges::subrange(steps.begin(), end)) {
    points.push_back(cheapest);
    points.back()[kernel] = at;
  }
  return points;
}

Shortlist::Judged Shortlist::judge(const CostConstants& k) const {
  std::vector<std::vector<double>> costs;
  Judged judged;
  for (std::size_t i = 0; i < schedules.size(); ++i) {
    costs.push_back(costsOf(key->kernels[i], schedules[i], *key->target, k));
    judged.costs = std::accumulate(costs.back().begin(), costs.back().end(), judged.costs);
  }
  const std::vector<Point> points = firstPoints(costs);
  std::vector<std::size_t> places;
  for (const Point& sample : ofSample)
    places.push_back(static_cast<std::size_t>(std::ranges::find(points, sample) - points.begin()));
  // What is not among them is behind them, also where they are few.
  std::ranges::replace_if(places, [&](std::size_t place) { return place == points.size(); }, kBest);
  judged.regret = regretOf(*key, places);
  return judged;
}

void Figures::add(const Figures& other) {
  auto addShare = [](Share& to, const Share& from) {
    to.count += from.count;
    to.known += from.known;
  };
  addShare(ranking.bestEight, other.ranking.bestEight);
  addShare(ranking.standard, other.ranking.standard);
  ranking.regret += other.ranking.regret;
  for (Errors Figures::* errors : {&Figures::choices, &Figures::defaults, &Figures::timed})
    (this->*errors)
        .all.insert((this->*errors).all.end(), (other.*errors).all.begin(),
                    (other.*errors).all.end());
}

Share Errors::within() const {
  const auto inside = std::ranges::count_if(
      all, [](double error) { return std::abs(error) <= std::log(kNearTime); });
  return {static_cast<std::size_t>(inside), all.size()};
}

double Errors::quantile(double share) const {
  if (all.empty())
    return 1.0;
  std::vector<double> sorted = all;
  std::ranges::sort(sorted);
  const long place = std::lround(share * double(sorted.size() - 1));
  return std::exp(sorted[static_cast<std::size_t>(place)]);
}

} // namespace kiln::bench
