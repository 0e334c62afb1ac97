// See Figures.h.
#include "bench/fit_cost/Figures.h"

#include "autotune/search/Points.h"
#include "codegen/family/Buffers.h"
#include "codegen/model/Calibration.h"

#include <algorithm>
#include <cmath>

namespace kiln::bench {

using namespace autotune;
using namespace model;

namespace {

constexpr std::size_t kBest = 8;
constexpr double kNearBest = 1.03, kNearStandard = 1.10, kNearTime = 1.10;

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

void addRanking(const RankedKey& ranked, Ranking& ranking) {
  const std::vector<Sample>& samples = ranked.key->samples;
  const double best = std::ranges::min(samples, {}, &Sample::microseconds).microseconds;
  bool holds = false;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    holds |= ranked.places[i] < kBest && samples[i].microseconds <= kNearBest * best;
    if (ranked.places[i] == 0)
      count(ranking.standard, samples[i].microseconds <= kNearStandard * best);
  }
  count(ranking.bestEight, holds);
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

void Figures::add(const Figures& other) {
  auto addShare = [](Share& to, const Share& from) {
    to.count += from.count;
    to.known += from.known;
  };
  addShare(ranking.bestEight, other.ranking.bestEight);
  addShare(ranking.standard, other.ranking.standard);
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
