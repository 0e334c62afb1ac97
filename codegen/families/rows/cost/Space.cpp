// The search space of a kernel of rows; see Cost.h.
#include "codegen/families/rows/cost/CostTerms.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <span>

namespace kiln::rows {
namespace {

constexpr std::array<std::int64_t, 4> kRowCounts{1, 2, 4, 8};
/// Blocks of a multiprocessor.
constexpr std::array<std::int64_t, 9> kBlockCounts{1, 2, 3, 4, 5, 6, 8, 12, 16};

/// Threads of a block: powers of two, what rows of 1280 and 2560 take, and further ones of which a
/// whole number fills a multiprocessor (of 1536 threads, say).
std::vector<std::int64_t> threadCounts(const Target& target) {
  std::vector<std::int64_t> counts{64, 128, 256, 320, 512, 640, 1024};
  for (std::int64_t threads : {192, 384, 768})
    if (target.threadsPerSM % threads == 0)
      counts.push_back(threads);
  return counts;
}

/// Lane counts of use for a width: what a row's vectors can occupy. Those of a narrow row that
/// overlap its ends are a few more than a power of two, so that such lanes have one piece too many:
/// as many as fill few pieces are among them.
std::vector<std::int64_t> laneChoices(const Facts& facts, const Schedule& s) {
  std::vector<std::int64_t> lanes;
  std::int64_t vectors = facts.width / s.vector;
  for (std::int64_t l = 1; l <= 32; l *= 2)
    if (l == 1 || l / 2 < vectors)
      lanes.push_back(l);
  for (std::int64_t l = 64; l <= 1024; l += l < 256 ? 32 : l < 512 ? 64 : 128)
    if (l - 32 < vectors)
      lanes.push_back(l);
  for (std::int64_t pieces = 1; pieces <= 4 && s.overlaps(facts.width) && facts.hasNarrowRows();
       ++pieces) {
    const std::int64_t l = (s.vectors(facts.width) + 32 * pieces - 1) / (32 * pieces) * 32;
    if (l > 64 && l <= 1024 && std::ranges::find(lanes, l) == lanes.end())
      lanes.push_back(l);
  }
  return lanes;
}

/// What is chosen beside the sizes of blocks and tiles.
struct Manner {
  Keep keep;
  std::int64_t stages;
  Columns columns;
  Grid grid;
  Launch launch;

  void applyTo(Schedule& s) const {
    s.keep = keep, s.stages = stages, s.columns = columns, s.grid = grid, s.launch = launch;
  }
};

/// Those that some size may allow.
std::vector<Manner> mannersOf(const Facts& facts, const Target& target) {
  std::vector<std::pair<Keep, std::int64_t>> keepings{
      {Keep::registers, 0}, {Keep::shared, 0}, {Keep::global, 0}};
  if (facts.dense && target.has.bulkCopies)
    for (std::int64_t stages : {2, 3, 4, 5})
      keepings.emplace_back(Keep::ring, stages);
  std::vector<Launch> launches{Launch::plain};
  if (target.has.programmaticLaunch)
    launches.push_back(Launch::programmatic);
  if (target.has.programmaticLaunch && facts.hasOlder())
    launches.push_back(Launch::olderFirst);
  std::vector<Manner> manners;
  for (auto [keep, stages] : keepings)
    for (auto columns : {Columns::global, Columns::shared})
      for (auto grid : {Grid::oneShot, Grid::resident})
        for (Launch launch : launches) {
          const bool loops = grid == Grid::resident;
          if (!loops && (facts.hasSums() || keep == Keep::ring))
            continue;
          if (launch == Launch::olderFirst && loops && keep != Keep::ring)
            continue;
          if (columns == Columns::global || !facts.columns.empty())
            manners.push_back({keep, stages, columns, grid, launch});
        }
  return manners;
}

/// Whether there is work for all resident blocks, their loops and all stages of their rings: where
/// there is not, the same kernel would be in the space many times.
bool isBusy(const Schedule& s, const Facts& facts, const Target& target) {
  if (facts.rows < 0)
    return true;
  const std::int64_t tiles = (facts.rows + s.rowsPerBlock() - 1) / s.rowsPerBlock();
  const std::int64_t slots = s.blocks * target.multiprocessors;
  if (loopsNeedlessly(s, facts) && tiles <= slots) // one turn
    return false;
  return (s.blocks == 1 || slots - target.multiprocessors < tiles * s.cluster) &&
         (s.stages <= 2 || (s.stages - 1) * slots < tiles);
}

/// Which schedules a visit wants to see.
struct Wanted {
  bool likely = true, unlikely = true;
  const double* below = nullptr; // costs: a number that falls as better ones are found
  bool least = false; // only what asks least of a multiprocessor: one block that stages no columns

  bool sees(const Schedule& s, const Facts& facts, const Target& target) const {
    return likely == unlikely || (unlikelyTerm(s, facts, target) > 0.0) == unlikely;
  }
  /// Where what is refused need not be counted, the rule that refuses most, before all others.
  bool holds(const Schedule& s, const Target& target) const {
    return below == nullptr || s.allThreads() * s.blocks <= target.threadsPerSM;
  }
  /// Whether it may see one of any rows and blocks.
  bool enters(const Schedule& s, const Facts& facts, const Target& target) const {
    if (least && s.columns == Columns::shared)
      return false;
    // Of a ring rows and blocks decide whether it is likely.
    if (s.keep != Keep::ring && !sees(s, facts, target))
      return false;
    return below == nullptr || (!hasBetterTwin(s, facts, target) &&
                                leastCost(s, facts, target, typicalRows(facts)) < *below);
  }
};

/// Visits the schedules of a kernel: vectors, lanes and threads, then manners, rows and blocks.
template <class Visit> class Tuples {
 public:
  Tuples(const Facts& facts, const Target& target, const Wanted& wanted, Visit visit)
      : facts(facts), target(target), wanted(wanted), visit(visit),
        manners(mannersOf(facts, target)) {
    if (wanted.below != nullptr || !wanted.unlikely)
      std::erase_if(manners, [&](const Manner& manner) { // which no size makes better
        manner.applyTo(s);
        return s.launch != earliestLaunch(s, facts, target);
      });
  }

  /// Until `visit` says that it has seen enough; whether it has.
  bool each() {
    const std::vector<std::int64_t> counts = threadCounts(target);
    const bool clusters = facts.reductions > 0 && !facts.hasSums() && target.has.clusters;
    for (s.vector = 16; s.vector >= 1; s.vector /= 2) { // wide ones first, which mostly are best
      if (s.overlaps(facts.width) && (!facts.packed || s.vector > facts.width))
        continue;
      for (std::int64_t lanes : laneChoices(facts, s)) {
        s.lanes = lanes;
        for (std::int64_t threads : counts)
          if (s.threads = threads; threads % lanes == 0
                                       ? eachManner(1)
                                       : 2 * threads == lanes && clusters && eachManner(2))
            return true;
        // One row a block where that is none of them.
        if (s.threads = lanes;
            lanes > 64 && std::ranges::find(counts, lanes) == counts.end() && eachManner(1))
          return true;
      }
    }
    return false;
  }

 private:
  bool eachManner(std::int64_t cluster) {
    s.cluster = cluster;
    s.rows = s.blocks = 1;
    entered.clear();
    for (const Manner& manner : manners) {
      manner.applyTo(s);
      const bool isLegal = s.grid == Grid::oneShot ? !facts.mustLoop(s) : cluster == 1;
      if (isLegal && !(s.overlaps(facts.width) && s.keep == Keep::ring && !facts.hasNarrowRows()) &&
          wanted.enters(s, facts, target))
        entered.push_back(manner);
    }
    return !entered.empty() && eachSize();
  }

  bool eachSize() {
    const std::span blockCounts(kBlockCounts.begin(), wanted.least ? 1 : kBlockCounts.size());
    const std::span rowCounts(kRowCounts.begin(), s.overlaps(facts.width) ? 1 : kRowCounts.size());
    for (std::int64_t rows : rowCounts)
      for (std::int64_t blocks : blockCounts) {
        std::optional<bool> seesRing; // whatever its stages; its launch is the earliest
        for (const Manner& manner : entered) {
          s.rows = rows;
          s.blocks = blocks;
          manner.applyTo(s);
          if (!wanted.holds(s, target) || !isBusy(s, facts, target))
            continue;
          if (s.keep == Keep::ring && !seesRing)
            seesRing = wanted.sees(s, facts, target);
          if ((s.keep != Keep::ring || *seesRing) && visit(s))
            return true;
        }
      }
    return false;
  }

  const Facts& facts;
  const Target& target;
  const Wanted wanted;
  Visit visit;
  std::vector<Manner> manners;
  std::vector<Manner> entered; // of these vectors, lanes and threads
  Schedule s;
};

} // namespace

/// Each block adds a line to sums of columns, which weighs the more the wider and the fewer the
/// rows are: wide ones are rarely so many. Of backwards of 2560 columns and 8192 rows LayerNorm's
/// took 38.6 us by what is best for 65536, 35.7 by this, RMSNorm's 40.0 by the former.
double typicalRows(const Facts& facts) {
  constexpr double kOfWide = 8192;
  return facts.hasSums() && facts.width > 2048 ? kOfWide : model::kTypicalRows;
}

model::Space enumerate(const Facts& facts, const Target& target, model::Listing listing) {
  model::Sorter sorter(listing);
  struct Fallen {
    std::int64_t count = 0;
    Schedule last;
  };
  std::map<std::string_view, Fallen> fallen; // by rule
  const Wanted wanted{.unlikely = listing != model::Listing::likely};
  Tuples(facts, target, wanted, [&](const Schedule& schedule) {
    const std::string_view rule = brokenRule(schedule, facts, target);
    if (rule.empty()) {
      sorter.add(schedule.general(), costOf(schedule, facts, target, typicalRows(facts)));
    } else {
      Fallen& one = fallen[rule];
      ++one.count;
      one.last = schedule;
    }
    return false;
  }).each();
  for (const auto& [rule, one] : fallen)
    sorter.refuse(rule, one.count, check(one.last, facts, target).front().message);
  return sorter.take(cheapestMicroseconds(workOf(facts, model::kTypicalRows), target));
}

bool anyFits(const Facts& facts, const Target& target) {
  return Tuples(facts, target, {.unlikely = false, .least = true},
                [&](const Schedule& schedule) { return fits(schedule, facts, target); })
      .each();
}

/// The likely ones first: what they cost leaves few of the others to look at.
Schedule defaultSchedule(const Facts& facts, const Target& target) {
  std::optional<Schedule> best;
  double least = std::numeric_limits<double>::infinity();
  const auto look = [&](const Schedule& schedule) {
    if (!fits(schedule, facts, target))
      return false;
    const double cost = costOf(schedule, facts, target, typicalRows(facts)).total;
    if (cost < least) {
      best = schedule;
      least = cost;
    }
    return false;
  };
  Tuples(facts, target, {.unlikely = false, .below = &least}, look).each();
  Tuples(facts, target, {.likely = false, .below = &least}, look).each();
  if (!best)
    failWithReasons(enumerate(facts, target), target);
  return *best;
}

} // namespace kiln::rows
