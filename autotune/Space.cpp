// See Space.h.
#include "autotune/Space.h"

#include "autotune/Calibration.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <span>

#include <fmt/format.h>

namespace kiln::autotune {
namespace {

/// Elements of a row; what is not wider is held in registers or shared memory.
constexpr std::int64_t kWide = 8192;

constexpr std::array<std::int64_t, 7> kThreadCounts{64, 128, 256, 320, 512, 640, 1024};

/// Lane counts of use for a width: what a row's vectors can occupy.
std::vector<std::int64_t> laneChoices(std::int64_t width, std::int64_t vector) {
  std::vector<std::int64_t> lanes;
  std::int64_t vectors = width / vector;
  for (std::int64_t l = 1; l <= 32; l *= 2)
    if (l == 1 || l / 2 < vectors)
      lanes.push_back(l);
  for (std::int64_t l = 64; l <= 1024; l += l < 256 ? 32 : l < 512 ? 64 : 128)
    if (l - 32 < vectors)
      lanes.push_back(l);
  return lanes;
}

/// Where rows may be kept, and with how many stages.
struct Keeping {
  rows::Keep keep;
  std::int64_t stages;
};
std::vector<Keeping> keepChoices(const rows::Facts& facts, const Target& target) {
  std::vector<Keeping> choices{{rows::Keep::registers, 0}, {rows::Keep::shared, 0}};
  if (facts.width > kWide)
    choices.push_back({rows::Keep::global, 0});
  // A ring is worth its barriers where blocks loop over columns, and where no other access is wide.
  if (facts.dense && (facts.columnSums > 0 || facts.hasOddRows()) && target.maxCluster > 1)
    for (std::int64_t stages : {2, 3, 4, 5})
      choices.push_back({rows::Keep::ring, stages});
  return choices;
}

/// The best launch that the target and the rest of the schedule allow: it costs nothing.
rows::Launch launchFor(const rows::Schedule& s, const rows::Facts& facts, const Target& target) {
  if (target.maxCluster == 1)
    return rows::Launch::plain;
  bool ahead = s.grid == rows::Grid::oneShot || s.keep == rows::Keep::ring;
  return ahead && facts.hasOlder() ? rows::Launch::olderFirst : rows::Launch::programmatic;
}

/// Whether there is work for all resident blocks and all stages of their rings: where there is not,
/// the same kernel would be in the space many times.
bool isBusy(const rows::Schedule& s, const rows::Facts& facts, const Target& target) {
  if (facts.rows < 0)
    return true;
  const std::int64_t tiles = (facts.rows + s.rowsPerBlock() - 1) / s.rowsPerBlock();
  const std::int64_t slots = s.blocks * target.multiprocessors;
  return (s.blocks == 1 || slots - target.multiprocessors < tiles * s.cluster) &&
         (s.stages <= 2 || (s.stages - 1) * slots < tiles);
}

/// Blocks of a multiprocessor.
constexpr std::array<std::int64_t, 9> kBlockCounts{1, 2, 3, 4, 5, 6, 8, 12, 16};

/// Until `visit` says that it has seen enough; whether it has. `least`: only what asks least of a
/// multiprocessor, one block that stages no columns; if none of that fits, nothing does.
template <class Visit>
bool eachTuple(const rows::Facts& facts, const Target& target, Visit visit, bool least = false) {
  const std::span blockCounts(kBlockCounts.begin(), least ? 1 : kBlockCounts.size());
  rows::Schedule s;
  const std::vector<Keeping> keepings = keepChoices(facts, target);
  auto eachRest = [&](std::int64_t cluster) {
    s.cluster = cluster;
    for (std::int64_t rows : {1, 2, 4, 8})
      for (std::int64_t blocks : blockCounts)
        for (auto [keep, stages] : keepings)
          for (auto columns : {rows::Columns::global, rows::Columns::shared}) {
            if (keep == rows::Keep::ring && std::max(rows, blocks) > 4)
              continue; // never among the best
            if (s.overlaps(facts.width) && rows > 1)
              continue;
            if (cluster > 1 && (keep == rows::Keep::global || columns == rows::Columns::shared))
              continue; // there is nothing that half a row would save
            if (least && columns == rows::Columns::shared)
              continue;
            s.rows = rows;
            s.blocks = blocks;
            s.keep = keep;
            s.stages = stages;
            s.columns = columns;
            s.grid = facts.hasSums() || keep == rows::Keep::ring ? rows::Grid::resident
                                                                 : rows::Grid::oneShot;
            s.launch = launchFor(s, facts, target);
            if (isBusy(s, facts, target) && visit(s))
              return true;
          }
    return false;
  };
  // Half a row is of use where whole ones fill shared memory.
  const bool clusters =
      facts.width > kWide && facts.reductions > 0 && !facts.hasSums() && target.maxCluster > 1;
  std::int64_t overlapping = 16; // the vector of 16 bytes
  for (const auto& stream : facts.inputs)
    overlapping = std::min<std::int64_t>(overlapping, 16 / std::max(1, stream.bytes));
  for (s.vector = 1; s.vector <= 16; s.vector *= 2) {
    if (s.overlaps(facts.width) &&
        !(facts.packed && s.vector == overlapping && s.vector <= facts.width))
      continue;
    for (std::int64_t lanes : laneChoices(facts.width, s.vector)) {
      s.lanes = lanes;
      for (std::int64_t threads : kThreadCounts)
        if (s.threads = threads;
            threads % lanes == 0 ? eachRest(1) : 2 * threads == lanes && clusters && eachRest(2))
          return true;
      // One row a block where that is none of them.
      if (s.threads = lanes; lanes > 64 &&
                             std::ranges::find(kThreadCounts, lanes) == kThreadCounts.end() &&
                             eachRest(1))
        return true;
    }
  }
  return false;
}

} // namespace

namespace {

/// Sorts into a space what a visit of tuples finds.
class Sorter {
 public:
  explicit Sorter(bool explain) : explain(explain) {}
  template <class Check>
  void add(const rows::Schedule& schedule, const std::optional<Cost>& cost, Check check) {
    ++space.tuples;
    if (cost) {
      space.feasible.push_back({schedule, *cost});
    } else if (explain) {
      std::vector<rows::Violation> violations = check();
      Space::Refused& refused = space.refused[violations.front().rule];
      ++refused.count;
      refused.worst = violations.front().message;
    }
  }
  /// Costs with their places are sorted, which are small, and the candidates moved once.
  /// `microseconds`: that the cheapest should take.
  Space take(double microseconds) {
    std::vector<std::pair<double, std::size_t>> order;
    order.reserve(space.feasible.size());
    for (const Candidate& candidate : space.feasible)
      order.emplace_back(candidate.cost.total, order.size());
    std::ranges::sort(order);
    std::vector<Candidate> sorted;
    sorted.reserve(order.size());
    for (const auto& [total, place] : order) {
      sorted.push_back(space.feasible[place]);
      sorted.back().microseconds = microseconds * slowdown(total / order.front().first);
    }
    space.feasible = std::move(sorted);
    return std::move(space);
  }

 private:
  bool explain;
  Space space;
};

std::optional<Cost> costIfFits(const rows::Schedule& schedule, const rows::Facts& facts,
                               const Target& target) {
  if (!fits(schedule, facts, target))
    return std::nullopt;
  return costOf(schedule, facts, target, kTypicalRows);
}

} // namespace

Space enumerate(const rows::Facts& facts, const Target& target, bool explain) {
  Sorter sorter(explain);
  eachTuple(facts, target, [&](const rows::Schedule& schedule) {
    sorter.add(schedule, costIfFits(schedule, facts, target),
               [&] { return check(schedule, facts, target); });
    return false;
  });
  return sorter.take(cheapestMicroseconds(workOf(facts, kTypicalRows), target));
}

std::optional<Candidate> cheapest(const rows::Facts& facts, const Target& target) {
  std::optional<Candidate> best;
  eachTuple(facts, target, [&](const rows::Schedule& schedule) {
    const std::optional<Cost> cost = costIfFits(schedule, facts, target);
    if (cost && (!best || cost->total < best->cost.total))
      best = {schedule, *cost};
    return false;
  });
  if (best)
    best->microseconds = cheapestMicroseconds(workOf(facts, kTypicalRows), target);
  return best;
}

Space enumerate(const segments::Facts& facts, const Target& target, double elements, bool explain) {
  Sorter sorter(explain);
  rows::Schedule s = segments::defaultSchedule(facts, target);
  const rows::Schedule usual = s;
  std::set<std::int64_t> blockCounts(kBlockCounts.begin(), kBlockCounts.end());
  blockCounts.insert(usual.blocks);
  for (std::int64_t vector : {usual.vector, usual.vector / 2})
    for (std::int64_t threads : {64, 128, 256, 512})
      for (std::int64_t rows : {1, 2, 4, 8})
        for (std::int64_t blocks : blockCounts) {
          s.vector = std::max<std::int64_t>(vector, 1);
          s.threads = s.lanes = threads;
          s.rows = rows;
          s.blocks = blocks;
          std::vector<rows::Violation> broken = segments::check(s, facts, target);
          std::optional<Cost> cost;
          if (broken.empty())
            cost = costOf(s, facts, target, elements);
          sorter.add(s, cost, [&] { return broken; });
        }
  Space space = sorter.take(cheapestMicroseconds(workOf(facts, elements), target));
  auto isUsual = [&](const Candidate& candidate) { return candidate.schedule == usual; };
  std::ranges::stable_partition(space.feasible, isUsual);
  return space;
}

} // namespace kiln::autotune

bool kiln::rows::anyFits(const Facts& facts, const Target& target) {
  auto fit = [&](const Schedule& schedule) { return fits(schedule, facts, target); };
  return autotune::eachTuple(facts, target, fit, true);
}

kiln::rows::Schedule kiln::rows::defaultSchedule(const Facts& facts, const Target& target) {
  if (std::optional<autotune::Candidate> best = autotune::cheapest(facts, target))
    return best->schedule;
  const autotune::Space space = autotune::enumerate(facts, target);
  std::string reasons;
  for (const auto& [rule, refused] : space.refused)
    reasons += fmt::format("\n  {} by {}: {}", refused.count, rule, refused.worst);
  throw Error(ErrorKind::infeasible,
              fmt::format("no schedule of {} fits {}:{}", space.tuples, target.arch, reasons));
}
