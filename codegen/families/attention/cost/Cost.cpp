// See Cost.h.
#include "codegen/families/attention/cost/Cost.h"

#include "codegen/families/attention/Resources.h"
#include "codegen/families/attention/cost/Clocks.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace kiln::attention {
namespace {

/// Elements of rows of queries (or outputs), and of keys (or values).
double queryElements(const Facts& facts) {
  return facts.heads * facts.queries;
}
double keyElements(const Facts& facts) {
  return facts.keyHeads * facts.keys;
}

/// Of keys and values, which one kernel leaves to another.
double bytesOfSums(const Facts& facts) {
  return keyElements(facts) * static_cast<double>(facts.width + facts.valueWidth) * 4;
}

} // namespace

double bytesReadOf(const Facts& facts, double) {
  const double both = static_cast<double>(facts.width + facts.valueWidth) * facts.bytes;
  const double bias = facts.biasBytes * facts.queries * facts.keys;
  const double forward = queryElements(facts) * static_cast<double>(facts.width) * facts.bytes +
                         keyElements(facts) * both + bias;
  if (facts.kind == Kind::forward)
    return forward;
  return forward +
         queryElements(facts) * (static_cast<double>(facts.valueWidth) * facts.bytes + 8) +
         (resumesKeys(facts) ? bytesOfSums(facts) : 0.0);
}

double bytesWrittenOf(const Facts& facts, double) {
  switch (facts.kind) {
  case Kind::forward:
    return queryElements(facts) *
           (static_cast<double>(facts.valueWidth) * (facts.outBytes + facts.epilogueBytes) + 4);
  case Kind::queryGradient:
    return queryElements(facts) * static_cast<double>(facts.width) * facts.outBytes;
  case Kind::keyGradient:
    return keyElements(facts) *
               ((facts.hasKeys ? static_cast<double>(facts.width) * facts.outBytes : 0.0) +
                (facts.hasValues ? static_cast<double>(facts.valueWidth) * facts.otherOutBytes
                                 : 0.0)) +
           (facts.sumsQueries
                ? queryElements(facts) * static_cast<double>(facts.width) * facts.queryOutBytes
                : 0.0) +
           (leavesKeys(facts) ? bytesOfSums(facts) : 0.0) +
           (facts.sumsBias ? facts.biases * facts.queries * facts.keys * 4 : 0.0);
  case Kind::biasGradient:
    return facts.queries * facts.keys * 4;
  }
  return 0;
}

/// Rows of whole tiles.
static double padded(double rows) {
  const double tile = rows > 256 ? 64 : rows > 64 ? 32 : 16; // few rows are left to warps
  return std::ceil(rows / tile) * tile;
}

/// Whether threads have a row each, of queries and of keys: heads have so few that tiles are mostly
/// empty.
static bool isForThreads(const Facts& facts) {
  constexpr double few = 16;
  return facts.queries <= few && facts.keys <= few;
}

/// All gradients of so many keys are those of clusters of three blocks, beside which every fourth
/// multiprocessor is idle: 1 where it is not.
static double idleBesideClusters(const Facts& facts) {
  return facts.sumsQueries && facts.sumsBias && facts.knownKeys > kMostOfWholeQueries ? 4.0 / 3
                                                                                      : 1.0;
}

/// Rows of 64 elements and more by warpgroups, of which the causal rule at most hides scores: a
/// forward of known sizes, or gradients in turns. Of those that were timed, rows known at run time
/// had 1024 queries, and lay further apart.
static bool isOfLanguageModels(const Facts& facts) {
  const bool isPlain = facts.isMapped && facts.biasBytes == 0 && !facts.hasMask &&
                       !facts.hasDropout && !facts.hasSoftcap && !facts.hasWindow &&
                       facts.bytes == 2 && facts.width >= 64 && facts.width == facts.valueWidth;
  const bool isLong = std::min(facts.queries, facts.keys) >= 512;
  return isPlain && isLong &&
         (facts.kind == Kind::forward ? facts.knownKeys > 0
                                      : facts.sumsQueries && facts.canTakeTurns);
}

/// Of these products and powers are side by side, each tile of queries has a beginning and an end,
/// and tiles on the diagonal are computed whole; by 44 cells of 512 to 16384 rows of 64 and 128.
static void addLanguageModels(const Facts& facts, model::Work& work) {
  const bool isForward = facts.kind == Kind::forward;
  const double diagonal = isForward ? 256 : 320;
  const double seen =
      facts.isCausal ? std::min(0.5 * (1 + diagonal / std::max(facts.keys, 1.0)), 1.0) : 1.0;
  const double scores = facts.heads * padded(facts.queries) * padded(facts.keys) * seen;
  const double ofTile = static_cast<double>(facts.width) * (isForward ? 125 : 300);
  work.multiplyAdds = scores * productsOf(facts, Products::warpgroups) * (isForward ? 0.61 : 0.95);
  work.tileElements = scores * (isForward ? 0.71 : 0.88) + work.tiles * ofTile;
}

static void addTiles(const Facts& facts, model::Work& work) {
  work.tiles = facts.heads * std::ceil(facts.queries / 64);
  if (isOfLanguageModels(facts))
    return addLanguageModels(facts, work);
  const double waiting = idleBesideClusters(facts);
  const double scores =
      facts.heads * padded(facts.queries) * padded(facts.keys) * (facts.isCausal ? 0.5 : 1.0);
  work.multiplyAdds = scores * productsOf(facts, Products::warps) * waiting;
  work.tileElements = scores * (facts.kind == Kind::forward ? 1.0 : 5.0 / 3) * waiting;
}

model::Work workOf(const Facts& facts, double count) {
  model::Work work;
  work.bytesRead = bytesReadOf(facts, count);
  work.bytesWritten = bytesWrittenOf(facts, count);
  if (facts.sumsQueries && facts.sumsBias && facts.knownQueries > queriesOfPart(facts)) {
    work.bytesRead += bytesOfSums(facts); // in two parts
    work.bytesWritten += bytesOfSums(facts);
  }
  work.rows = queryElements(facts);
  if (isForThreads(facts)) {
    const bool overKeys = facts.kind != Kind::keyGradient;
    const double rows = overKeys ? queryElements(facts) : keyElements(facts);
    // As long as they wait for one another, by four shapes that were timed.
    work.operations = instructionsByThreads(facts, rows) * (facts.kind == Kind::forward ? 3 : 5);
  } else {
    addTiles(facts, work);
  }
  work.hasSums = facts.kind == Kind::biasGradient || facts.sumsBias;
  work.summed = work.hasSums ? facts.queries * facts.keys : 0.0;
  const double places = facts.heads * facts.places;
  const double multiplyAdds = places * productsOf(facts, Products::warps);
  // Numbers of fp32 are sums of two of tf32, of which three products count.
  if (facts.bytes == 4)
    work.matrixOperations[std::size_t(MatrixType::tf32)] = 3 * 2 * multiplyAdds;
  else
    work.matrixOperations[std::size_t(MatrixType::f16)] = 2 * multiplyAdds;
  work.exponentials = places * (facts.hasSoftcap ? 2 : 1);
  return work;
}

/// What decides between schedules that are told the same. Of blocks of threads small ones are the
/// best: 60 us of 147,456 rows of four heads by blocks of 16 rows, 102 by large ones.
static double tieOf(const Schedule& s, const Facts& facts) {
  return static_cast<double>(s.products == Products::threads ? ownRows(s, facts) : s.blocks);
}

static model::Cost costOfPart(const Schedule& s, const Facts& facts, const Target& target,
                              double count, const model::CostConstants& k) {
  const Walk walk = walkOf(s, facts, target);
  model::Cost result;
  result.waves = walk.blocks / (static_cast<double>(target.multiprocessors) * walk.resident);
  const double clocks = clocksOf(walk, s, facts, target);
  const double bandwidth = target.memoryGBs * 1e3 * k.reachable;
  const double bytes = bytesReadOf(facts, count) + bytesWrittenOf(facts, count);
  result.copy = k.launch + bytes / bandwidth;
  result.moving = bytes / bandwidth;
  result.waiting = clocks / (target.clockGHz * 1e3);
  result.starting = k.launch + (s.launch == Launch::plain ? k.plainLaunch : 0.0);
  if (facts.kind == Kind::biasGradient || facts.sumsBias)
    result.summing = k.finish + facts.queries * facts.keys * 4 *
                                    static_cast<double>(s.groups * s.side) * 2 / bandwidth;
  if (takesTurns(s,
                 facts)) // kernels before and after, of which the latter reads sums and rounds them
    result.summing =
        2 * k.launch + queryElements(facts) *
                           (static_cast<double>(facts.width) * (4 + facts.queryOutBytes) + 16) /
                           bandwidth;
  result.total = result.starting + std::max(result.moving, result.waiting) + result.summing +
                 k.tie * tieOf(s, facts);
  return result;
}

model::Cost costOf(const Schedule& s, const Facts& facts, const Target& target, double count,
                   const model::CostConstants& k) {
  model::Cost result;
  for (const Part& part : partsOf(s, facts))
    result += costOfPart(part.schedule, part.facts, target, count, k);
  return result;
}

namespace {

/// All schedules that may be feasible, by what computes products.
class SpaceOfKernel {
 public:
  SpaceOfKernel(const Facts& facts, const Target& target, double count, model::Listing listing)
      : facts(facts), target(target), count(count), listing(listing), sorter(listing) {}
  /// Where by the estimate of registers none fits, those that need the fewest more: unless the
  /// assembler has spilled, as then such ones were tried.
  double visitAll() {
    for (const double more : {1.0, 1.1, 1.2, 1.3}) {
      ofRegisters = more;
      sorter = model::Sorter(listing);
      addAll();
      if (!sorter.isEmpty() || facts.spills > 0)
        break;
    }
    return ofRegisters;
  }
  model::Space take() {
    visitAll();
    return sorter.take(model::cheapestMicroseconds(workOf(facts, count), target));
  }

 private:
  using Values = std::vector<std::int64_t>;

  void addAll() {
    s = {};
    s.launch = target.has.programmaticLaunch ? Launch::programmatic : Launch::plain;
    addWarps();
    addThreads();
    addHeads();
    if (target.has.warpgroupMatrix && facts.isMapped) {
      addWarpgroups();
      addWarpsHolding();
      addHolding();
    }
  }
  void visit() {
    const auto broken = [&] { return check(s, facts, target, ofRegisters); };
    if (broken().empty())
      sorter.add(s.general(), costOf(s, facts, target, count));
    else
      sorter.refuse(broken);
  }
  void each(const Values& queries, const Values& keys, const Values& stages, const Values& blocks,
            const Values& groups) {
    for (std::int64_t q : queries)
      for (std::int64_t k : keys)
        for (std::int64_t stage : stages)
          for (std::int64_t block : blocks)
            for (std::int64_t group : groups) {
              s.queries = q, s.keys = k, s.stages = stage, s.blocks = block, s.groups = group;
              visit();
            }
  }

  void addWarps() {
    const Values tiles = {16, 32, 64, 128};
    if (facts.kind == Kind::biasGradient)
      each(tiles, tiles, {1}, blocks, {1, 2, 4, 8, 16, 32});
    else
      each(tiles, tiles, {1, 2, 3}, blocks, facts.sumsBias ? Values{1, 4, 16} : Values{1});
  }
  void addThreads() {
    if (!isForThreads(facts))
      return;
    s.products = Products::threads;
    const Values rows = {64, 128, 32, 256, 16}, one = {16}; // of equals the first is taken
    const bool overKeys = facts.kind != Kind::keyGradient;
    each(overKeys ? rows : one, overKeys ? one : rows, {1}, {1, 2, 4, 8, 16}, {1});
  }
  void addHeads() {
    const bool isAll = facts.sumsQueries && !facts.sumsBias;
    const bool isWhole = facts.knownKeys > 0 && facts.knownKeys <= 256;
    if (!isWhole || (facts.kind != Kind::forward && !isAll))
      return;
    s.products = Products::heads;
    // By 16 and by 32 rows a warp.
    const auto whole = [](double rows, std::int64_t of) {
      return std::min<std::int64_t>((static_cast<std::int64_t>(rows) + of - 1) / of * of, 256);
    };
    Values queries = {16, 32, 48, 64, 96, 128, 192, 256};
    for (std::int64_t of : {16, 32})
      if (const std::int64_t all = whole(facts.queries, of);
          std::ranges::find(queries, all) == queries.end())
        queries.push_back(all);
    Values keys = {whole(facts.keys, 16)};
    if (const std::int64_t wider = whole(facts.keys, 32); isAll && wider != keys[0])
      keys.push_back(wider);
    each(queries, keys, {1}, blocks, {1});
  }
  void addWarpgroups() {
    s.products = Products::warpgroups;
    if (takesTurns(s, facts))
      each({64, 128}, {128}, {2, 3, 4}, {1}, {1});
    if (facts.kind != Kind::forward)
      return;
    s.grid = Grid::resident;
    each({64, 128, 192}, {64, 96, 128}, {2, 3}, {1, 2, 3}, {1});
    s.grid = Grid::oneShot;
    each({64, 128, 192}, {32, 64, 80, 96, 128, 192}, {2, 3, 4}, {1, 2, 3}, {1});
  }
  /// Of narrow rows, whose bias is one more product.
  void addWarpsHolding() {
    if (!facts.isBiasMapped || facts.width != 8)
      return;
    s.products = Products::warps, s.bias = Bias::held;
    const Values groups = {1, 2, 4, 8, 16, 32, 64, 128};
    if (facts.sumsQueries && facts.sumsBias)
      each({128, 256}, {128}, {2, 3}, {1}, groups);
    for (std::int64_t side : facts.kind == Kind::forward ? Values{1, 2, 3, 4} : Values{}) {
      s.side = side;
      each({64, 128, 256}, {32, 64, 128, 256}, {2, 3}, {1, 2}, groups);
    }
    s.side = 1;
  }
  void addHolding() {
    if (!facts.isBiasMapped && facts.biasBytes > 0)
      return;
    s.products = Products::warpgroups;
    const Values own = {64, 128, 192, 256}, walked = {32, 64, 128};
    const bool overKeys = facts.kind != Kind::keyGradient;
    const bool one = takesOneHead(facts);
    Values groups = one ? Values{1} : Values{1, 2, 4, 8, 16, 32, 64, 128, 256};
    if (facts.sharing > 0 && std::ranges::find(groups, facts.sharing) == groups.end())
      groups.push_back(facts.sharing); // a block for each head
    const bool canWiden =
        (facts.kind == Kind::forward || facts.kind == Kind::queryGradient) && facts.biasBytes > 0;
    for (Bias bias : canWiden ? std::vector{Bias::held, Bias::widened} : std::vector{Bias::held}) {
      s.bias = bias;
      for (std::int64_t side : one ? Values{1} : Values{1, 2, 3, 4}) {
        s.side = side;
        each(overKeys ? own : walked, overKeys ? walked : own, {2, 3, 4, 6}, {1, 2}, groups);
      }
    }
  }

  const Facts& facts;
  const Target& target;
  double count;
  model::Listing listing;
  model::Sorter sorter;
  double ofRegisters = 1; // that the estimate may be
  Schedule s;
  const Values blocks = {1, 2, 3, 4, 6, 8};
};

} // namespace

double registersTaken(const Facts& facts, const Target& target) {
  return SpaceOfKernel(facts, target, 0.0, model::Listing::likely).visitAll();
}

model::Space spaceOf(const Facts& facts, const Target& target, double count,
                     model::Listing listing) {
  return SpaceOfKernel(facts, target, count, listing).take();
}

} // namespace kiln::attention
