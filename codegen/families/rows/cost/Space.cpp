// The search space of a kernel of rows; see Cost.h.
#include "codegen/families/rows/cost/Cost.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>

namespace kiln::rows {
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
  Keep keep;
  std::int64_t stages;
};
std::vector<Keeping> keepChoices(const Facts& facts, const Target& target) {
  std::vector<Keeping> choices{{Keep::registers, 0}, {Keep::shared, 0}};
  if (facts.width > kWide)
    choices.push_back({Keep::global, 0});
  // A ring is worth its barriers where blocks loop over columns, and where no other access is wide.
  if (facts.dense && (facts.columnSums > 0 || facts.hasOddRows()) && target.has.bulkCopies)
    for (std::int64_t stages : {2, 3, 4, 5})
      choices.push_back({Keep::ring, stages});
  return choices;
}

/// The best launch that the target and the rest of the schedule allow: it costs nothing.
Launch launchFor(const Schedule& s, const Facts& facts, const Target& target) {
  if (!target.has.programmaticLaunch)
    return Launch::plain;
  bool ahead = s.grid == Grid::oneShot || s.keep == Keep::ring;
  return ahead && facts.hasOlder() ? Launch::olderFirst : Launch::programmatic;
}

/// Whether there is work for all resident blocks and all stages of their rings: where there is not,
/// the same kernel would be in the space many times.
bool isBusy(const Schedule& s, const Facts& facts, const Target& target) {
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
bool eachTuple(const Facts& facts, const Target& target, Visit visit, bool least = false) {
  const std::span blockCounts(kBlockCounts.begin(), least ? 1 : kBlockCounts.size());
  Schedule s;
  const std::vector<Keeping> keepings = keepChoices(facts, target);
  auto eachRest = [&](std::int64_t cluster) {
    s.cluster = cluster;
    for (std::int64_t rows : {1, 2, 4, 8})
      for (std::int64_t blocks : blockCounts)
        for (auto [keep, stages] : keepings)
          for (auto columns : {Columns::global, Columns::shared}) {
            if (keep == Keep::ring && std::max(rows, blocks) > 4)
              continue; // never among the best
            if (s.overlaps(facts.width) && (rows > 1 || keep == Keep::ring))
              continue;
            if (cluster > 1 && (keep == Keep::global || columns == Columns::shared))
              continue; // there is nothing that half a row would save
            if (least && columns == Columns::shared)
              continue;
            s.rows = rows;
            s.blocks = blocks;
            s.keep = keep;
            s.stages = stages;
            s.columns = columns;
            s.grid = facts.hasSums() || keep == Keep::ring ||
                             (s.overlaps(facts.width) && facts.hasColumns())
                         ? Grid::resident
                         : Grid::oneShot;
            s.launch = launchFor(s, facts, target);
            if (isBusy(s, facts, target) && visit(s))
              return true;
          }
    return false;
  };
  // Half a row is of use where whole ones fill shared memory.
  const bool clusters =
      facts.width > kWide && facts.reductions > 0 && !facts.hasSums() && target.has.clusters;
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

std::optional<Cost> costIfFits(const Schedule& schedule, const Facts& facts, const Target& target) {
  if (!fits(schedule, facts, target))
    return std::nullopt;
  return costOf(schedule, facts, target, model::kTypicalRows);
}

} // namespace

model::Space enumerate(const Facts& facts, const Target& target, bool explain) {
  model::Sorter sorter(explain);
  eachTuple(facts, target, [&](const Schedule& schedule) {
    if (const std::optional<Cost> cost = costIfFits(schedule, facts, target))
      sorter.add(schedule.general(), *cost);
    else
      sorter.refuse([&] { return check(schedule, facts, target); });
    return false;
  });
  return sorter.take(cheapestMicroseconds(workOf(facts, model::kTypicalRows), target));
}

bool anyFits(const Facts& facts, const Target& target) {
  auto fit = [&](const Schedule& schedule) { return fits(schedule, facts, target); };
  return eachTuple(facts, target, fit, true);
}

Schedule defaultSchedule(const Facts& facts, const Target& target) {
  std::optional<Schedule> best;
  double least = 0;
  eachTuple(facts, target, [&](const Schedule& schedule) {
    const std::optional<Cost> cost = costIfFits(schedule, facts, target);
    if (cost && (!best || cost->total < least)) {
      best = schedule;
      least = cost->total;
    }
    return false;
  });
  if (!best)
    failWithReasons(enumerate(facts, target), target);
  return *best;
}

} // namespace kiln::rows
