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

} // namespace

double bytesReadOf(const Facts& facts, double) {
  const double both = static_cast<double>(facts.width + facts.valueWidth) * facts.bytes;
  const double bias = facts.biasBytes * facts.queries * facts.keys;
  const double forward = queryElements(facts) * static_cast<double>(facts.width) * facts.bytes +
                         keyElements(facts) * both + bias;
  if (facts.kind == Kind::forward)
    return forward;
  return forward + queryElements(facts) * (static_cast<double>(facts.valueWidth) * facts.bytes + 8);
}

double bytesWrittenOf(const Facts& facts, double) {
  switch (facts.kind) {
  case Kind::forward:
    return queryElements(facts) * (static_cast<double>(facts.valueWidth) * facts.outBytes + 4);
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

model::Work workOf(const Facts& facts, double count) {
  model::Work work;
  work.bytesRead = bytesReadOf(facts, count);
  work.bytesWritten = bytesWrittenOf(facts, count);
  work.rows = queryElements(facts);
  const double scores =
      facts.heads * padded(facts.queries) * padded(facts.keys) * (facts.isCausal ? 0.5 : 1.0);
  work.multiplyAdds = scores * productsOf(facts, Products::warps);
  work.tileElements = scores * (facts.kind == Kind::forward ? 1.0 : 5.0 / 3);
  work.tiles = facts.heads * std::ceil(facts.queries / 64);
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
                 k.tie * static_cast<double>(s.blocks);
  return result;
}

model::Cost costOf(const Schedule& s, const Facts& facts, const Target& target, double count,
                   const model::CostConstants& k) {
  model::Cost result;
  for (const Part& part : partsOf(s, facts))
    result += costOfPart(part.schedule, part.facts, target, count, k);
  return result;
}

model::Space spaceOf(const Facts& facts, const Target& target, double count,
                     model::Listing listing) {
  model::Sorter sorter(listing);
  Schedule s;
  s.launch = target.has.programmaticLaunch ? Launch::programmatic : Launch::plain;
  using Values = std::vector<std::int64_t>;
  const auto visit = [&] {
    if (check(s, facts, target).empty())
      sorter.add(s.general(), costOf(s, facts, target, count));
    else
      sorter.refuse([&] { return check(s, facts, target); });
  };
  const auto each = [&](const Values& queries, const Values& keys, const Values& stages,
                        const Values& blocks, const Values& groups) {
    for (std::int64_t q : queries)
      for (std::int64_t k : keys)
        for (std::int64_t stage : stages)
          for (std::int64_t block : blocks)
            for (std::int64_t group : groups) {
              s.queries = q, s.keys = k, s.stages = stage, s.blocks = block, s.groups = group;
              visit();
            }
  };
  const Values tiles = {16, 32, 64, 128}, blocks = {1, 2, 3, 4, 6, 8};
  if (facts.kind == Kind::biasGradient)
    each(tiles, tiles, {1}, blocks, {1, 2, 4, 8, 16, 32});
  else
    each(tiles, tiles, {1, 2, 3}, blocks, facts.sumsBias ? Values{1, 4, 16} : Values{1});
  constexpr double few = 16; // rows of a head, of which tiles are mostly empty
  if (facts.queries <= few && facts.keys <= few) {
    s.products = Products::threads;
    const Values rows = {64, 128, 32, 256, 16}, one = {16}; // of equals the first is taken
    const bool overKeys = facts.kind != Kind::keyGradient;
    each(overKeys ? rows : one, overKeys ? one : rows, {1}, {1, 2, 4, 8, 16}, {1});
  }
  const bool isAll = facts.sumsQueries && !facts.sumsBias;
  if ((facts.kind == Kind::forward || isAll) && facts.knownKeys > 0 && facts.knownKeys <= 256) {
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
    if (const std::int64_t wider = whole(facts.keys, isAll ? 32 : 48); wider != keys[0])
      keys.push_back(wider);
    each(queries, keys, {1}, blocks, {1});
  }
  s.products = Products::warpgroups;
  if (facts.kind == Kind::forward && facts.isMapped && target.has.warpgroupMatrix)
    for (Grid grid : {Grid::resident, Grid::one_shot}) {
      s.grid = grid;
      const bool stays = isResident(s);
      each({64, 128, 192}, stays ? Values{64, 96, 128} : Values{32, 64, 80, 96, 128, 192},
           stays ? Values{2, 3} : Values{2, 3, 4}, {1, 2, 3}, {1});
    }
  if (takesTurns(s, facts) && facts.isMapped && target.has.warpgroupMatrix)
    each({64, 128}, {128}, {2, 3, 4}, {1}, {1});
  const bool canHold = facts.isBiasMapped || facts.biasBytes == 0;
  if (facts.isMapped && facts.isBiasMapped && facts.width == 8 && target.has.warpgroupMatrix) {
    s.products = Products::warps, s.bias = Bias::held;
    if (facts.sumsQueries && facts.sumsBias)
      each({128, 256}, {128}, {2, 3}, {1}, {1, 2, 4, 8, 16, 32, 64, 128});
    for (std::int64_t side : facts.kind == Kind::forward ? Values{1, 2, 3, 4} : Values{}) {
      s.side = side;
      each({64, 128, 256}, {32, 64, 128, 256}, {2, 3}, {1, 2}, {1, 2, 4, 8, 16, 32, 64, 128});
    }
    s.products = Products::warpgroups, s.side = 1;
  }
  if (facts.isMapped && canHold && target.has.warpgroupMatrix) {
    const Values own = {64, 128, 192, 256}, walked = {32, 64, 128};
    const bool overKeys = facts.kind != Kind::keyGradient;
    const bool one = takesOneHead(facts);
    Values groups = one ? Values{1} : Values{1, 2, 4, 8, 16, 32, 64, 128, 256};
    if (facts.sharing > 0 && std::ranges::find(groups, facts.sharing) == groups.end())
      groups.push_back(facts.sharing); // a block for each head
    const bool canWiden = facts.kind == Kind::forward || facts.kind == Kind::queryGradient;
    for (Bias bias : {Bias::held, Bias::widened}) {
      s.bias = bias;
      if (bias == Bias::widened && (!canWiden || facts.biasBytes == 0))
        continue;
      for (std::int64_t side : one ? Values{1} : Values{1, 2, 3, 4}) {
        s.side = side;
        each(overKeys ? own : walked, overKeys ? walked : own, {2, 3, 4, 6}, {1, 2}, groups);
      }
    }
  }
  return sorter.take(model::cheapestMicroseconds(workOf(facts, count), target));
}

} // namespace kiln::attention
