// See Clocks.h. Constants are fitted to timed schedules, by hand where few were timed.
#include "codegen/families/attention/cost/Clocks.h"

#include "codegen/families/attention/Resources.h"

#include <algorithm>
#include <cmath>

namespace kiln::attention {

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
  // Of a causal head half of the tiles, and those on the diagonal whole; of blocks that stay each
  // warpgroup takes those that its own rows see.
  const double ofDiagonal = isResident(s) ? 1.0 : std::max(1.0, walk.rows / walk.step);
  const double seen = std::min(all, 0.5 * (all + ofDiagonal));
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
  walk.cluster = holdsBias(s) ? static_cast<double>(clusterOf(s, facts)) : 1;
  walk.resident = std::min(static_cast<double>(s.blocks),
                           std::ceil(walk.blocks / static_cast<double>(target.multiprocessors)));
  return walk;
}

namespace {

/// What a step takes of blocks that stay, as a share of what is told of the others, and clocks of a
/// tile, by 200 timed forwards of rows of 64 and 128 elements; narrower ones were not timed. Three
/// warpgroups take turns, which pays in long steps. Two, of rows of 128, gain what lies between
/// tiles: they took 0.88, 0.94 and 0.99 of the time of others where a tile has 4, 8 and 16 steps,
/// and 1.02, 1.04 and 1.05 where it has 32, 64 and 128.
double residentShare(const Walk& walk, const Schedule& s, const Facts& facts) {
  if (facts.width < 64)
    return 1.15;
  const std::int64_t groups = computingGroups(s, facts);
  const bool isSmall = walk.resident > 2 || (groups == 1 && facts.isCausal);
  const bool isLong = groups == 2 && !facts.isCausal && walk.longest > 24;
  double share = isSmall ? 1.14 : isLong ? 1.05 : 0.96;
  if (groups > 2)
    share = s.keys > 64 ? 0.88 : 1.1;
  return facts.isCausal ? 1.05 * share : share;
}
double residentTile(const Facts& facts) {
  return facts.isCausal ? 1200 : 2200;
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
  // Of causal heads blocks that have the same rows of each have more to do than others.
  const bool holdsNothing = holdsBias(s) && facts.biasBytes == 0;
  const double taken = holdsNothing ? headsOfBlock(s, facts) : 1;
  if (holdsNothing && walk.resident == 1)
    ofStep *= taken > 1 ? 1.15 : 1.06;
  else if (taken > 1 && facts.kind == Kind::forward && facts.isCausal)
    ofStep *= 1.2;
  const double heads = facts.kind == Kind::forward && taken > 1 ? 700 * taken : 0;
  const double begins = 20 * static_cast<double>(s.stages);
  if (isResident(s))
    return walk.stepsInAll(target) * ofStep * residentShare(walk, s, facts) +
           walk.rounds(target) * residentTile(facts) + 2500 + begins;
  const double apart = facts.canTakeTurns ? 1.45 : 1.0; // beside turns, as said above
  return (walk.stepsInAll(target) * ofStep + walk.rounds(target) * (2500 + heads + begins)) * apart;
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

/// A step of a warp that has a scheduler of its own, where nothing hides what its products and
/// powers wait for: of one causal head of 4096 to 16384 rows it took 18 to 25 clocks a key forward,
/// of 64 elements, and 34 to 67 of 128. In fp32 a step of 16 keys took 2900 clocks of 64 elements
/// and 5400 of 128, one of 32 keys 2500 of 32 and 4400 of 64, a fifth more without a stage ahead;
/// where the code of a step outgrows the cache of instructions, of 64 keys with 64 elements, a
/// third more, and so forth.
double stepOfLoneWarp(const Walk& walk, const Schedule& s, const Facts& facts) {
  const double width = static_cast<double>(facts.width + facts.valueWidth);
  const double step = 600 + walk.step * (6 + 0.14 * width);
  if (facts.bytes == 2)
    return step * (facts.kind == Kind::forward ? 1.0 : 1.3);
  constexpr double cached = 4096, load = 900; // products of a row; clocks
  const double outgrown = std::max(std::log2(walk.step * width / cached), 0.0);
  return step * (1.9 + 0.009 * width) * (1.0 + 0.35 * outgrown) *
             (facts.kind == Kind::forward ? 1.0 : 1.9) +
         (s.stages < 2 ? load : 0.0);
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
  double ofStep = std::max(busy, (busy + overhead) * std::sqrt(8.0 / std::max(warps, 1.0)) /
                                     std::max(1.0, walk.resident) * 0.8);
  constexpr double schedulers = 4;
  if (warps <= 2 * schedulers) {
    const double two = facts.bytes == 4 ? 1.55 : 0.75; // warps a scheduler
    ofStep = std::max(ofStep, stepOfLoneWarp(walk, s, facts) * (warps <= schedulers ? 1.0 : two) /
                                  walk.resident);
  } else if (facts.bytes == 4) {
    // Each sum of eight products is added up by threads: of 32 heads of 1024 rows of 64 ten
    // schedules took 189 to 237 us where this told 27.
    constexpr double addedUp = 7;
    ofStep *= addedUp;
  }
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
  const double widths = static_cast<double>(facts.width + facts.valueWidth);
  const double places = facts.heads * facts.places / target.multiprocessors;
  const double issued =
      instructionsByThreads(facts, walk.blocks * walk.rows) / target.multiprocessors / 32 / 2.5;
  constexpr double bytesOfClock = 48; // from the L2
  const double loaded = places * widths * facts.bytes / bytesOfClock;
  const double seen = facts.places * facts.heads / std::max(walk.blocks * walk.rows, 1.0);
  const double waited = walk.rounds(target) * (1500 + std::ceil(seen / 4) * 800);
  return std::max({issued, loaded, waited});
}

/// Where blocks have all keys of a head: what warps issue for 16 x 16 places, for 16 rows of theirs
/// and for the gradients of 16 queries, and how much of the time enough of them issue. Each tile of
/// queries whose gradients are summed is waited for.
double clocksByHeads(const Walk& walk, const Schedule& s, const Facts& facts,
                     const Target& target) {
  const bool isForward = facts.kind == Kind::forward;
  const double ofWarp = static_cast<double>(rowsOfWarp(s, facts));
  const double warps = walk.rows / ofWarp, walked = isForward ? facts.keys : facts.queries;
  const double tiles = isForward ? 1 : std::ceil(walked / walk.step);
  const double steps = std::ceil(std::min(walked, tiles * walk.step) / 16);
  const double finished = isForward ? 0 : std::ceil(walk.step / ofWarp / warps) * tiles;
  const double width = static_cast<double>(facts.width + facts.valueWidth) / 64;
  const double ofPlaces = isForward ? 50 + 22 * width : 50 + 48 * width;
  const double issued = walk.rows / 16 * (steps * ofPlaces + 450 + finished * 130 * width);
  const double resident = warps * walk.resident;
  const double busy = std::min(isForward ? 0.47 + 0.0028 * resident : 0.7, 0.04 * resident);
  const double alone = 1 + 0.7 / (warps * warps); // blocks of one warp, which begin one by one
  const double rounds = std::max(walk.blocks / walk.places(target), 1.0);
  return walk.resident * rounds * (issued / (4 * busy) * alone + tiles * 1200 / walk.resident);
}

} // namespace

double instructionsByThreads(const Facts& facts, double rows) {
  const auto lanes = static_cast<double>(lanesOfRow(facts));
  const double widths = static_cast<double>(facts.width + facts.valueWidth);
  const double ofPlace = 30 + (facts.kind == Kind::forward ? 2 : 4) * widths / lanes;
  return (facts.heads * facts.places * ofPlace + rows * 300) * lanes;
}

double clocksOf(const Walk& walk, const Schedule& s, const Facts& facts, const Target& target) {
  const auto by = s.products == Products::warpgroups ? clocksByWarpgroups
                  : s.products == Products::threads  ? clocksByThreads
                  : s.products == Products::heads    ? clocksByHeads
                                                     : clocksByWarps;
  return holdsBiasByWarps(s) ? clocksByWarpsHolding(walk, s, facts, target)
                             : by(walk, s, facts, target);
}

} // namespace kiln::attention
