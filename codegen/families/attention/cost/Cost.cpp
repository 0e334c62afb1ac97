// See Cost.h.
#include "codegen/families/attention/cost/Cost.h"

#include "codegen/families/attention/Resources.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace kiln::attention {
namespace {

/// Multiply-adds a score.
double productsOf(const Facts& facts, Products by) {
  const auto of = [&](std::int64_t width) {
    return static_cast<double>(by == Products::warpgroups ? paddedWidth(width) : width);
  };
  const double width = of(facts.width), valueWidth = of(facts.valueWidth);
  switch (facts.kind) {
  case Kind::forward:
    return width + valueWidth;
  case Kind::queryGradient:
    return 2 * width + valueWidth;
  case Kind::keyGradient:
    return (facts.hasKeys ? 2 * width + valueWidth : width) + (facts.hasValues ? valueWidth : 0) +
           (facts.sumsQueries ? width : 0);
  case Kind::biasGradient:
    return width + valueWidth;
  }
  return 0;
}

/// How blocks walk: each has a tile of `rows` and takes `steps` tiles of `step` of the others;
/// where attention is causal so many on average, and `longest` at most.
struct Walk {
  double rows, step, blocks, steps, longest;
  double resident; // blocks on a multiprocessor
  double places(const Target& target) const {
    return static_cast<double>(target.multiprocessors) * resident;
  }
  double rounds(const Target& target) const { // of resident blocks
    return std::ceil(blocks / places(target));
  }
  /// That a place on a multiprocessor takes one after the other. Blocks of different lengths begin
  /// when others end, the longest first, so that they even out as far as the longest lets them.
  double stepsInAll(const Target& target) const {
    if (steps == longest)
      return rounds(target) * steps;
    return std::max(longest, (blocks / places(target) + 0.25) * steps);
  }
};
Walk walkOf(const Schedule& s, const Facts& facts, const Target& target) {
  const bool overKeys = facts.kind != Kind::keyGradient;
  const double own = overKeys ? facts.queries : facts.keys;
  const double walked = overKeys ? facts.keys : facts.queries;
  const double heads = overKeys ? facts.heads : facts.keyHeads;
  const double sharedHeads = overKeys ? 1.0 : static_cast<double>(facts.sharingKeys);
  Walk walk{};
  walk.rows = static_cast<double>(overKeys ? s.queries : s.keys);
  walk.step = static_cast<double>(overKeys ? s.keys : s.queries);
  const bool areSideBySide = s.products == Products::threads; // rows of all heads
  walk.blocks =
      areSideBySide ? std::ceil(heads * own / walk.rows) : heads * std::ceil(own / walk.rows);
  const double all = std::ceil(walked / walk.step);
  // Of a causal head half of the tiles, and those on the diagonal whole.
  const double seen = std::min(all, 0.5 * (all + std::max(1.0, walk.rows / walk.step)));
  walk.longest = all * sharedHeads;
  walk.steps = facts.isCausal ? seen * sharedHeads : walk.longest;
  if (holdsBias(s)) {
    const double taken = headsOfBlock(s, facts);
    const double groups = takesOneHead(facts) ? facts.heads : static_cast<double>(s.groups);
    walk.blocks = facts.biases * std::ceil(own / walk.rows) * groups;
    walk.steps *= taken;
    walk.longest *= taken;
  }
  if (facts.kind == Kind::biasGradient) {
    walk.blocks = facts.biases * std::ceil(own / walk.rows) * std::ceil(walked / walk.step) *
                  static_cast<double>(s.groups);
    walk.steps = walk.longest = headsOfBlock(s, facts);
  }
  walk.resident = std::min(static_cast<double>(s.blocks),
                           std::ceil(walk.blocks / static_cast<double>(target.multiprocessors)));
  return walk;
}

/// Clocks of a multiprocessor by products of warpgroups: of a tile tensor cores and exponentials
/// work side by side, and each waits a little for the other, less where several blocks do.
double clocksByWarpgroups(const Walk& walk, const Schedule& s, const Facts& facts,
                          const Target& target) {
  const double scores = 64 * walk.step;
  const double products =
      scores * productsOf(facts, Products::warpgroups) * 2 / std::max(target.matrixOps[0], 1);
  const double powers = scores / 16 + scores * 4 / 128;
  // Warpgroups that share the multiprocessor.
  const double side = static_cast<double>(computingGroups(s, facts)) * walk.resident;
  // Gradients free a stage behind the products of the next tile: with 2 each step waits for it.
  const double waitsForStage = facts.kind == Kind::queryGradient ? 1000
                               : facts.kind != Kind::keyGradient ? 0
                               : facts.sumsQueries               ? 180
                               : facts.sumsBias                  ? 70
                                                                 : 1000;
  // Warpgroups that take turns meet at each tile: of 4096 queries and keys one took 2.17 us of 64
  // queries and 128 elements, and 1.5 or 2.6 us of 64 or 128 queries and 64 elements, where kernels
  // of their own, whose steps the rest of this is fitted to, take 1.45 times as long as it tells.
  // Of causal heads blocks of different lengths wait for each other.
  if (takesTurns(s, facts))
    return walk.stepsInAll(target) * (700 + side * (0.65 * products + 0.77 * powers)) *
               (facts.isCausal ? 1.1 : 1.0) +
           walk.rounds(target) * 4800;
  const double waits =
      waitsForStage * std::pow(0.1, static_cast<double>(s.stages - 2)) / walk.resident;
  constexpr double bytesOfClock = 48; // from the L2, of tiles that many blocks load
  const double loads =
      static_cast<double>(s.side) * walk.resident * walk.step *
      static_cast<double>(paddedWidth(facts.width) + paddedWidth(facts.valueWidth)) * facts.bytes /
      bytesOfClock;
  // Beside sums of the bias's gradient a warpgroup has no registers for the next tile's products,
  // and waits for both.
  const double alone = products + powers + (facts.sumsBias ? 900 : 300);
  const double waiting = std::max(0.4 - 0.09 * (walk.resident - 1), 0.15);
  double ofStep = waits + std::max({side * products, side * powers, alone, loads}) +
                  waiting * side * std::min(products, powers) + 60 * side;
  // Forward, two warpgroups leave gaps that three fill, of long steps, each of which has a
  // beginning and an end. A bias that is ready for accumulators is felt by these three.
  if (facts.kind == Kind::forward && facts.biasBytes > 0 && holdsBias(s)) {
    ofStep += 70 * side;
    if (side < 3)
      ofStep *= 1.15;
    else if (s.bias == Bias::widened && s.keys >= 128)
      ofStep *= 0.95;
  }
  // Where nothing is held, taking heads one after the other was slower than blocks for each, by
  // single blocks, which leave a multiprocessor to the end of a head and the next one's beginning.
  const bool holdsNothing = holdsBias(s) && facts.biasBytes == 0;
  if (holdsNothing && walk.resident == 1)
    ofStep *= headsOfBlock(s, facts) > 1 ? 1.15 : 1.06;
  return walk.stepsInAll(target) * ofStep +
         walk.rounds(target) * (2500 + 20 * static_cast<double>(s.stages));
}

/// Registers of a thread that the assembler will spill. A gradient of keys takes more than the
/// rules estimate, by the pieces of rows that wait for their products: for rows of 32 elements 26
/// were counted, of 64 to 128 elements 44 to 48, with and without a bias or a mask.
double spilledOf(const Schedule& s, const Facts& facts, const Target& target) {
  if (facts.kind != Kind::keyGradient)
    return 0.0;
  const std::int64_t row = std::min<std::int64_t>(std::max(facts.width, facts.valueWidth), 64);
  const std::int64_t wanted = estimatedRegisters(s, facts) + row * 3 / 4;
  const std::int64_t left = std::min<std::int64_t>(
      target.registersPerThread,
      target.registersPerSM / std::max<std::int64_t>(s.blocks * threadsOf(s, facts), 1));
  return static_cast<double>(std::max<std::int64_t>(wanted - left, 0));
}

/// By products of warps, at half the tensor cores' rate, and what threads do to scores. Few warps
/// wait for each other, and for what they load.
double clocksByWarps(const Walk& walk, const Schedule& s, const Facts& facts,
                     const Target& target) {
  const double rate =
      facts.bytes == 4 ? target.matrixOps[1] / 2.0 / 3.0 : target.matrixOps[0] / 2.0;
  const double scores = walk.rows * walk.step;
  const double products = scores * productsOf(facts, Products::warps) * 2 / std::max(rate, 1.0);
  const double arithmetic = scores * (facts.kind == Kind::forward ? 12 : 20) / 128;
  const double warps = walk.resident * walk.rows / 16;
  const double busy = std::max(products, arithmetic) + 0.4 * std::min(products, arithmetic);
  const double overhead = 450.0 / static_cast<double>(std::min<std::int64_t>(s.stages, 2));
  const double ofStep = std::max(busy, (busy + overhead) * std::sqrt(8.0 / std::max(warps, 1.0)) /
                                           std::max(1.0, walk.resident) * 0.8);
  // What spills is stored and loaded for every tile, and the compiler refuses it.
  const double spills = 1.0 + spilledOf(s, facts, target) / 16;
  // Of blocks with one step others begin meanwhile: with a warp each, every 280 clocks on an H200.
  const double begins = walk.longest > 1 ? 1500 : std::min(1500.0, 210 + 11.5 * (walk.rows - 16));
  return walk.resident * (walk.stepsInAll(target) * ofStep * spills + walk.rounds(target) * begins);
}

/// By products of warps in blocks that hold the bias: exponentials bind, and warps fill each
/// other's waits. Of 256 queries and keys a head took 5200 clocks of an H200 by 16 warps of one
/// block, and no fewer by 24; blocks of fewer queries load keys more often. All gradients took 0.75
/// of the time by warpgroups, and are told so: what is told of those is too little for such narrow
/// rows.
double clocksByWarpsHolding(const Walk& walk, const Schedule& s, const Facts& facts,
                            const Target& target) {
  if (facts.sumsQueries)
    return walk.stepsInAll(target) * walk.rows * walk.step / 7.5 + walk.rounds(target) * 8000;
  const double warps = walk.resident * walk.rows * static_cast<double>(s.side) / 16;
  const double scores = walk.resident * walk.rows * static_cast<double>(s.side) * walk.step;
  const double waits = std::pow(16.0 / std::min(warps, 16.0), 0.3);
  const double loads = 1.0 + 0.08 * std::log2(256.0 / walk.rows);
  const double ofTile = walk.step < 256 ? 40.0 + 10.0 * 256.0 / walk.step : 0.0;
  return walk.stepsInAll(target) * (scores / 12.6 * waits * loads + ofTile) +
         walk.rounds(target) * (2500 + walk.rows * 12);
}

/// By threads that have a row: what they issue for a place and for a row, what they load for a
/// place, and how long a row waits for what it loads, four places at a time.
double clocksByThreads(const Walk& walk, const Schedule& s, const Facts& facts,
                       const Target& target) {
  const auto lanes = static_cast<double>(lanesOfRow(facts));
  const double widths = static_cast<double>(facts.width + facts.valueWidth);
  const double places = facts.heads * facts.places / target.multiprocessors;
  const double rows = walk.blocks * walk.rows / target.multiprocessors;
  const double ofPlace = 30 + (facts.kind == Kind::forward ? 2 : 4) * widths / lanes;
  const double issued = (places * ofPlace + rows * 300) * lanes / 32 / 2.5;
  constexpr double bytesOfClock = 48; // from the L2
  const double loaded = places * widths * facts.bytes / bytesOfClock;
  const double seen = facts.places * facts.heads / std::max(walk.blocks * walk.rows, 1.0);
  const double waited = walk.rounds(target) * (1500 + std::ceil(seen / 4) * 800);
  return std::max({issued, loaded, waited});
}

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
  const double tile = rows > 64 ? 64 : 16;
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
  const auto by = s.products == Products::warpgroups ? clocksByWarpgroups
                  : s.products == Products::threads  ? clocksByThreads
                                                     : clocksByWarps;
  const double clocks = holdsBias(s) && s.products == Products::warps
                            ? clocksByWarpsHolding(walk, s, facts, target)
                            : by(walk, s, facts, target);
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
  s.products = Products::warpgroups;
  if (facts.kind == Kind::forward && facts.isMapped && target.has.warpgroupMatrix)
    each({64, 128, 192}, {32, 64, 80, 96, 128, 192}, {2, 3, 4}, {1, 2, 3}, {1});
  if (takesTurns(s, facts) && facts.isMapped && target.has.warpgroupMatrix)
    each({64, 128}, {128}, {2, 3, 4}, {1}, {1});
  const bool canHold = facts.isBiasMapped || facts.biasBytes == 0;
  if (facts.sumsQueries && facts.sumsBias && facts.isMapped && facts.isBiasMapped &&
      facts.width == 8 && target.has.warpgroupMatrix) {
    s.products = Products::warps, s.bias = Bias::held;
    each({128, 256}, {128}, {2, 3}, {1}, {1, 2, 4, 8, 16, 32, 64});
    s.products = Products::warpgroups;
  }
  if (facts.kind == Kind::forward && facts.isMapped && facts.isBiasMapped && facts.width == 8 &&
      target.has.warpgroupMatrix) {
    s.products = Products::warps, s.bias = Bias::held;
    for (std::int64_t side : {1, 2, 3, 4}) {
      s.side = side;
      each({64, 128, 256}, {32, 64, 128, 256}, {2, 3}, {1, 2}, {1, 2, 4, 8, 16, 32, 64, 128});
    }
    s.products = Products::warpgroups;
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
