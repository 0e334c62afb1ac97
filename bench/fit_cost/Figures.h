// How good the cost model is, of keys whose schedules were timed: whether it ranks the fast ones
// first, what is lost by following it, and how far the time that it tells is from the one that was
// measured.
#pragma once

#include "bench/fit_cost/Samples.h"

namespace kiln::bench {

/// Of so many keys for which it can be told.
struct Share {
  std::size_t count = 0, known = 0;
  double value() const { return known == 0 ? 0.0 : double(count) / double(known); }
};

/// Of the ranking, by the schedules that were timed.
struct Ranking {
  Share bestEight;   // the model's best eight hold a schedule within 3 % of the best
  Share standard;    // the model's first is within 1.10 of the best; of keys of which it was timed
  double regret = 0; // of all keys: regretOf
};

/// Logarithms of predicted over measured times.
struct Errors {
  std::vector<double> all;
  Share within() const;                // 10 %, whichever way
  double quantile(double share) const; // as a factor
};

struct Figures {
  Ranking ranking;
  Errors choices, defaults, timed; // of stores' choices, of what runs without one, of all schedules
  void add(const Figures& other);
};

/// A key by given constants of the ranking, which do not change while those of the time are fitted.
struct RankedKey {
  const TunedKey* key = nullptr;
  std::vector<std::vector<double>> ratios; // of each sample and kernel: its cost to the cheapest's
  std::vector<std::size_t> places;         // of samples, among all schedules of the key
  /// The sample of what runs without a choice: the model's first, or where that was not timed,
  /// since it does not compile, what the last search had instead. Of samples.size(): none.
  std::size_t standard() const;
};
std::vector<RankedKey> rank(std::span<const TunedKey> keys, const model::CostConstants& k);

/// us that a sample should take.
double predicted(const RankedKey& key, std::size_t sample, const model::CostConstants& k);

Figures figuresOf(std::span<const RankedKey> keys, const model::CostConstants& k);

/// What is lost by following a model that puts a key's samples at these places: about the logarithm
/// of the default's time over the best one's, and more where the ranking's figures would count it.
double regretOf(const TunedKey& key, std::span<const std::size_t> places);

/// The schedules of a key that can be among the model's first: the cheapest of each kernel by given
/// constants. By these it tells the regret as rank() does, and mostly by others that are not very
/// different, without the whole space.
class Shortlist {
 public:
  Shortlist(const TunedKey& key, const model::CostConstants& k);
  struct Judged {
    double regret = 0;
    double costs = 0; // the sum of all: constants that leave it as it is are of other keys
  };
  Judged judge(const model::CostConstants& k) const;

 private:
  using Point = std::vector<std::size_t>; // a schedule of each kernel
  std::vector<Point> firstPoints(const std::vector<std::vector<double>>& costs) const;

  const TunedKey* key;
  std::vector<std::vector<Schedule>> schedules; // of each kernel, in the order of its space
  std::vector<Point> ofSample; // where those of each sample stand, or beyond the end
};

} // namespace kiln::bench
