// See Fit.h.
#include "bench/fit_cost/Fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <future>
#include <limits>
#include <numeric>
#include <set>

namespace kiln::bench {

using namespace autotune;
using namespace model;

namespace {

using ErrorOf = std::function<double(const CostConstants&)>;

constexpr double kFirstStep = 0.25, kLastStep = 2e-3; // of a logarithm
constexpr double kWorthwhile = 1e-3;                  // of the error: descending once more
constexpr int kMostDescents = 8;
constexpr double kStays = 0.03;   // to leave a place: each squared logarithm
constexpr double kOutlier = 0.15; // errors beyond count no more than this
constexpr double kNear = 0.1;     // of the logarithm of the best: what is as far counts a third
// Of a logarithm, of the regret: a step function, which smaller ones mostly leave as it is.
constexpr std::array kRegretSteps = {0.6, -0.6, 0.3, -0.3, 0.15, -0.15, 0.075, -0.075};
// To leave the place where a descent began: each logarithm. To move a constant by the least step, a
// default must gain 1 % at least; less is a coincidence of these keys.
constexpr double kRegretStays = 0.1;
constexpr double kFarWorthwhile = 0.95;    // of the regret: what errors alone moved may be anywhere
constexpr double kRegretWorthwhile = 0.05; // to sweep once more, or with lists made anew

double squareOf(double error) {
  const double bounded = std::min(std::abs(error), kOutlier);
  return bounded * bounded;
}

/// The sum of squares of the time's errors.
double timeError(std::span<const RankedKey> keys, const CostConstants& k) {
  double sum = 0.0;
  for (const RankedKey& ranked : keys)
    for (std::size_t i = 0; i < ranked.key->samples.size(); ++i)
      sum += squareOf(std::log(predicted(ranked, i, k) / ranked.key->samples[i].microseconds));
  return sum;
}

double totalCost(const TunedKey& key, const Sample& sample, const CostConstants& k) {
  double total = 0.0;
  for (std::size_t kernel = 0; kernel < key.kernels.size(); ++kernel)
    total += key.kernels[kernel].model->cost(sample.ofKernel[kernel], *key.target, k).total;
  return total;
}

/// The same of the errors within each key: what its schedules share ranks nothing.
double rankingError(std::span<const TunedKey> keys, const CostConstants& k) {
  double sum = 0.0;
  std::vector<std::pair<double, double>> errors; // with their weights
  for (const TunedKey& key : keys) {
    const double best = std::ranges::min(key.samples, {}, &Sample::microseconds).microseconds;
    double mean = 0.0, weights = 0.0;
    errors.clear();
    for (const Sample& sample : key.samples) {
      const double weight = std::pow(best / sample.microseconds, 1.0 / kNear);
      errors.emplace_back(std::log(totalCost(key, sample, k) / sample.microseconds), weight);
      mean += weight * errors.back().first;
      weights += weight;
    }
    for (const auto& [error, weight] : errors)
      sum += weight * squareOf(error - mean / weights);
  }
  return sum;
}

/// Once down from a place, until all steps are small.
class Descent {
 public:
  Descent(const CostConstants& from, const Chosen& chosen, const ErrorOf& error)
      : error(error), best(from), least(error(from)) {
    for (const CostConstant& constant : kAllCostConstants)
      if (chosen.has(constant))
        steps.emplace_back(constant.member, kFirstStep);
  }
  void run() {
    for (bool moves = true; moves;) {
      const CostConstants before = best;
      moves = sweep();
      CostConstants further = best; // as far again as all have gone together
      for (const auto& [member, step] : steps)
        further.*member *= best.*member / before.*member;
      improves(further);
    }
  }
  const CostConstants& found() const { return best; }
  double foundError() const { return least; }

 private:
  bool improves(const CostConstants& k) {
    const double now = error(k);
    if (now >= least)
      return false;
    least = now;
    best = k;
    return true;
  }
  bool sweep() {
    bool moves = false;
    for (auto& [member, step] : steps) {
      if (step < kLastStep)
        continue;
      moves = true;
      CostConstants more = best, less = best;
      more.*member *= std::exp(step);
      less.*member *= std::exp(-step);
      step *= improves(more) || improves(less) ? 1.2 : 0.5;
    }
    return moves;
  }

  const ErrorOf& error;
  CostConstants best;
  double least;
  std::vector<std::pair<double CostConstants::*, double>> steps;
};

/// The chosen constants that make the error least, and of those the nearest to `start`.
CostConstants descend(const CostConstants& start, const Chosen& chosen, const ErrorOf& error) {
  const ErrorOf whole = [&](const CostConstants& k) {
    double sum = error(k);
    for (const CostConstant& constant : kAllCostConstants)
      if (chosen.has(constant)) {
        const double moved = std::log(k.*constant.member / start.*constant.member);
        sum += kStays * moved * moved;
      }
    return sum;
  };
  CostConstants best = start;
  for (int i = 0; i < kMostDescents; ++i) {
    const double before = whole(best);
    Descent descent(best, chosen, whole);
    descent.run();
    best = descent.found();
    if (descent.foundError() > before * (1.0 - kWorthwhile))
      break;
  }
  return best;
}

/// Three digits, and no exponent where none is needed.
std::string textOf(double value) {
  const std::string text = fmt::format("{:.3g}", value);
  return value >= 1000 ? fmt::format("{:.0f}", std::stod(text)) : text;
}

double rounded(double value) {
  return std::stod(textOf(value));
}

/// As a file of them holds them.
CostConstants rounded(const CostConstants& k) {
  CostConstants result = k;
  for (const CostConstant& constant : kAllCostConstants)
    if (constant.part != CostConstant::Part::fixed)
      result.*constant.member = rounded(k.*constant.member);
  return result;
}

/// Down the regret of some keys, which only those are judged anew by that a constant is of. By
/// shortlists, so that what is found is as good as it seems only if lists made there agree.
class RegretDescent {
 public:
  /// `origin`: where to stay costs nothing.
  RegretDescent(std::span<const TunedKey> keys, const Chosen& chosen, const CostConstants& origin,
                const CostConstants& from)
      : origin(origin), here{from, {}, 0.0} {
    for (const TunedKey& key : keys) {
      lists.emplace_back(key, from);
      here.judged.push_back(lists.back().judge(from));
    }
    std::vector<std::size_t> all(lists.size());
    std::iota(all.begin(), all.end(), 0);
    for (const CostConstant& constant : kAllCostConstants)
      if (chosen.has(constant))
        members.push_back({constant.member, all});
    here.total = totalOf(here);
  }
  void run(const Progress& progress) {
    for (double before = here.total + 1.0; here.total < before - kRegretWorthwhile;) {
      before = here.total;
      for (Member& member : members)
        step(member);
      progress(fmt::format("regret {:.3f}", regretOf(here)));
    }
  }
  const CostConstants& found() const { return here.k; }
  double regret() const { return regretOf(here); }
  double total() const { return here.total; } // with what it costs to have left the origin

 private:
  struct Place {
    CostConstants k;
    std::vector<Shortlist::Judged> judged; // of each key
    double total;
  };
  struct Member {
    double CostConstants::* constant;
    std::vector<std::size_t> keys; // that it is of; all, before it was tried
    bool isTried = false;
  };

  static double regretOf(const Place& place) {
    double sum = 0.0;
    for (const Shortlist::Judged& judged : place.judged)
      sum += judged.regret;
    return sum;
  }
  double totalOf(const Place& place) const {
    double moved = 0.0;
    for (const Member& member : members)
      moved += std::abs(std::log(place.k.*member.constant / origin.*member.constant));
    return regretOf(place) + kRegretStays * moved;
  }
  Place tried(Member& member, double step) const {
    Place place = here;
    place.k.*member.constant = rounded(place.k.*member.constant * std::exp(step));
    for (std::size_t key : member.keys)
      place.judged[key] = lists[key].judge(place.k);
    if (!member.isTried) {
      std::erase_if(member.keys, [&](std::size_t key) {
        return place.judged[key].costs == here.judged[key].costs;
      });
      member.isTried = true;
    }
    place.total = totalOf(place);
    return place;
  }
  void step(Member& member) {
    Place best = here;
    for (double step : kRegretSteps)
      if (Place place = tried(member, step); place.total < best.total)
        best = std::move(place);
    here = std::move(best);
  }

  CostConstants origin;
  Place here;
  std::vector<Shortlist> lists;
  std::vector<Member> members;
};

struct Found {
  CostConstants k;
  double regret, total;
};

/// What descents find, each by lists that were made where the one before ended.
Found leastRegret(std::span<const TunedKey> keys, const Chosen& chosen, const CostConstants& from,
                  const Progress& progress) {
  Found best{from, 0.0, std::numeric_limits<double>::infinity()};
  for (CostConstants k = from;;) {
    RegretDescent descent(keys, chosen, from, k);
    if (descent.total() > best.total - kRegretWorthwhile)
      return best;
    best = {k, descent.regret(), descent.total()};
    descent.run(progress);
    k = descent.found();
  }
}

/// A line of the file that has a constant: where its value stands.
std::pair<std::size_t, std::size_t> placeOf(const std::string& text, std::string_view name) {
  for (std::string_view kind : {"KILN_RANKING", "KILN_TIME", "KILN_FIXED"}) {
    const std::string begin = fmt::format("\n{}({}, ", kind, name);
    if (const std::size_t at = text.find(begin); at != std::string::npos)
      return {at + begin.size(), text.find(',', at + begin.size())};
  }
  throw Error(
      ErrorKind::input,
      fmt::format("no line 'KILN_...({}, value, ...)': is this codegen/model/cost_constants.def "
                  "of the sources that this program was built from?",
                  name));
}

} // namespace

bool Chosen::has(const CostConstant& constant) const {
  return constant.part == part &&
         (names.empty() || std::ranges::find(names, constant.name) != names.end());
}

CostConstants fit(const Chosen& chosen, std::span<const TunedKey> keys,
                  const CostConstants& start) {
  if (chosen.part == CostConstant::Part::ranking)
    return rounded(
        descend(start, chosen, [&](const CostConstants& k) { return rankingError(keys, k); }));
  const std::vector<RankedKey> ranked = rank(keys, start);
  return rounded(
      descend(start, chosen, [&](const CostConstants& k) { return timeError(ranked, k); }));
}

/// From two places at once: the start, and where errors are least, which is nearer where the start
/// is far off.
CostConstants fitToRegret(const Chosen& chosen, std::span<const TunedKey> keys,
                          const CostConstants& start, const Progress& progress) {
  const auto foundFrom = [&](const CostConstants& from, std::string_view name) {
    return leastRegret(keys, chosen, from, [&, name](const std::string& text) {
      if (progress)
        progress(fmt::format("from {}: {}", name, text));
    });
  };
  auto first = std::async(std::launch::async, foundFrom, start, "the start");
  const Found second = foundFrom(fit(chosen, keys, start), "the least errors");
  const Found own = first.get();
  return second.regret < kFarWorthwhile * own.regret ? second.k : own.k;
}

Figures heldOut(std::span<const TunedKey> keys, std::span<const std::size_t> groups,
                const Fitter& fitted) {
  Figures figures;
  for (std::size_t group : std::set<std::size_t>(groups.begin(), groups.end())) {
    std::vector<TunedKey> shown, held;
    for (std::size_t i = 0; i < keys.size(); ++i)
      (groups[i] == group ? held : shown).push_back(keys[i]);
    const CostConstants k = fitted(shown);
    figures.add(figuresOf(rank(held, k), k));
  }
  return figures;
}

std::string withValues(std::string text, const CostConstants& k) {
  for (const CostConstant& constant : kAllCostConstants) {
    const auto [begin, end] = placeOf(text, constant.name);
    if (constant.part == CostConstant::Part::fixed)
      continue;
    const std::string value = textOf(k.*constant.member);
    if (std::stod(text.substr(begin, end - begin)) != std::stod(value))
      text.replace(begin, end - begin, value);
  }
  return text;
}

} // namespace kiln::bench
