// See Resources.h.
#include "codegen/families/attention/Resources.h"

#include <algorithm>
#include <cmath>

namespace kiln::attention {

bool walksOverQueries(const Facts& facts) {
  return facts.kind == Kind::keyGradient;
}
std::int64_t ownRows(const Schedule& s, const Facts& facts) {
  return walksOverQueries(facts) ? s.keys : s.queries;
}
std::int64_t stepRows(const Schedule& s, const Facts& facts) {
  return walksOverQueries(facts) ? s.queries : s.keys;
}

/// Of a tile of rows in shared memory: MatrixTile in device/matrix_tile.cuh.
static std::int64_t tileBytes(std::int64_t rows, std::int64_t width, int bytes) {
  const std::int64_t depth = 32 / bytes, steps = (width + depth - 1) / depth;
  return rows * ((2 * steps) | 1) * 16;
}

std::int64_t paddedWidth(std::int64_t width) {
  return std::max<std::int64_t>(width, 16);
}

std::int64_t heldPlaces(const Schedule& s, const Facts& facts) {
  constexpr std::int64_t panel = 64;
  if (facts.biasBytes == 0)
    return 0;
  const std::int64_t all = facts.kind == Kind::biasGradient  ? s.keys // a tile of keys
                           : facts.kind == Kind::keyGradient ? facts.knownQueries
                                                             : facts.knownKeys;
  const std::int64_t step = stepRows(s, facts);
  const std::int64_t places = (all + step - 1) / step * step;
  return (places + panel - 1) / panel * panel;
}

bool takesOneHead(const Facts& facts) {
  return facts.biasBytes == 0 && facts.sharing == 0;
}
double headsOfBlock(const Schedule& s, const Facts& facts) {
  if (takesOneHead(facts))
    return 1;
  const double sharing =
      facts.sharing > 0 ? static_cast<double>(facts.sharing) : facts.heads / facts.biases;
  return std::ceil(std::ceil(sharing / static_cast<double>(s.groups)) /
                   static_cast<double>(s.side));
}
std::int64_t slotsOf(const Schedule& s, const Facts& facts) {
  const bool isKnown = facts.sharing > 0 || takesOneHead(facts);
  return isKnown && headsOfBlock(s, facts) <= 1 ? 1 : 2;
}

bool takesTurns(const Schedule& s, const Facts& facts) {
  return facts.sumsQueries && facts.canTakeTurns && s.products == Products::warpgroups &&
         !holdsBias(s);
}

bool hasHeads(const Schedule& s) {
  return s.products == Products::heads;
}
std::int64_t rowsOfWarp(const Schedule& s, const Facts& facts) {
  return ownRows(s, facts) % 32 == 0 ? 32 : 16;
}
std::int64_t stepOfHeads(const Schedule& s, const Facts& facts) {
  const bool isWide =
      facts.kind != Kind::forward && rowsOfWarp(s, facts) == 16 && stepRows(s, facts) % 32 == 0;
  return isWide ? 32 : 16;
}

std::int64_t queriesOfTurn(const Schedule& s, const Facts& facts) {
  return std::max(s.queries, 8192 / facts.width);
}

std::int64_t computingGroups(const Schedule& s, const Facts& facts) {
  return ownRows(s, facts) / 64 * s.side;
}

Registers registersOf(const Schedule& s, const Facts& facts) {
  constexpr std::int64_t all = 65536; // of a multiprocessor of sm_90a
  const std::int64_t groups = computingGroups(s, facts);
  const std::int64_t threads = 128 * (groups + 1);
  const std::int64_t begin =
      std::min<std::int64_t>(all / std::max<std::int64_t>(s.blocks * threads, 1) / 8 * 8, 256);
  // Who loads for heads that share a bias counts heads and tiles, if a block has more than one, and
  // for gradients of keys reads numbers of queries: with 24 registers, which were too few, of one
  // head it spilled. So did who loads for blocks that stay and knows their order.
  const bool isOne = holdsBias(s) && s.side == 1 && slotsOf(s, facts) == 1;
  const std::int64_t ofOne = takesOneHead(facts) ? 32 : 40; // the assembler's likings
  const bool isAllByWarps = holdsBiasByWarps(s) && facts.sumsQueries;
  const std::int64_t loading = takesTurns(s, facts) || isAllByWarps ? 24
                               : isOne                   ? (walksOverQueries(facts) ? ofOne : 24)
                               : facts.sumsQueries       ? 40 // the others need more
                               : walksOverQueries(facts) ? 56
                               : groups > 2 || isResident(s) ? 32
                               : holdsBias(s)                ? 40
                                                             : 24;
  return {begin, loading,
          std::min<std::int64_t>((begin * threads - 128 * loading) /
                                     std::max<std::int64_t>(128 * groups, 1) / 8 * 8,
                                 240)};
}

std::int64_t vectorsOfRow(const Facts& facts) {
  return (std::max(facts.width, facts.valueWidth) * facts.bytes + 15) / 16;
}
std::int64_t lanesOfRow(const Facts& facts) {
  std::int64_t lanes = 1;
  while (lanes < vectorsOfRow(facts) && lanes < 32)
    lanes *= 2;
  return lanes;
}

std::int64_t threadsOf(const Schedule& s, const Facts& facts) {
  if (s.products == Products::threads)
    return ownRows(s, facts) * lanesOfRow(facts);
  if (s.products == Products::warpgroups || holdsBias(s))
    return 128 * (computingGroups(s, facts) + 1);
  if (hasHeads(s))
    return ownRows(s, facts) / rowsOfWarp(s, facts) * 32;
  return ownRows(s, facts) * 2;
}

std::int64_t summedTiles(const Schedule& s, const Facts& facts) {
  if (!facts.sumsBias)
    return 0;
  const std::int64_t whole = facts.sumsQueries ? std::max(kGroupOfQueries, s.queries) : s.queries;
  return (facts.knownQueries + whole - 1) / whole * (whole / s.queries);
}
std::int64_t clusterOf(const Schedule& s, const Facts& facts) {
  return facts.sumsQueries ? (facts.knownKeys + s.keys - 1) / s.keys : 1;
}
std::int64_t tilesInRegisters(const Schedule& s, const Facts& facts) {
  const std::int64_t most = facts.sumsQueries ? 160 : 192; // queries of a thread's registers
  return std::min<std::int64_t>(summedTiles(s, facts), most / s.queries);
}

std::int64_t queriesOfPart(const Facts& facts) {
  const bool isWhole = std::max(facts.knownQueries, facts.knownKeys) <= kMostOfWholeQueries;
  return isWhole ? facts.knownQueries : std::min(facts.knownQueries, kQueriesOfPart);
}

/// Of all gradients in one kernel, one for each of these queries.
static std::vector<Part> partsOfQueries(const Schedule& s, const Facts& facts) {
  const std::int64_t all = facts.knownQueries, most = queriesOfPart(facts);
  if (all <= most || s.products != Products::warpgroups)
    return {{s, facts}};
  static constexpr const char* suffixes[] = {"_first", "_second"};
  std::vector<Part> parts;
  for (const char* suffix : suffixes) {
    Part part{s, facts, suffix};
    part.facts.isPart = true;
    part.facts.firstQuery = static_cast<std::int64_t>(parts.size()) * most;
    part.facts.knownQueries = std::min(most, all - part.facts.firstQuery);
    part.facts.queries = static_cast<double>(part.facts.knownQueries);
    part.facts.places *= part.facts.queries / facts.queries;
    parts.push_back(part);
  }
  return parts;
}

std::vector<Part> partsOf(const Schedule& s, const Facts& facts) {
  const bool isOne =
      facts.sumsBias ? holdsBias(s) : !facts.sumsQueries || takesTurns(s, facts) || hasHeads(s);
  if (isOne)
    return facts.sumsBias && facts.sumsQueries ? partsOfQueries(s, facts)
                                               : std::vector<Part>{{s, facts}};
  Part keys{s, facts};
  keys.facts.sumsBias = keys.facts.sumsQueries = false;
  std::vector<Part> parts{keys};
  if (facts.sumsBias) {
    Part bias{s, keys.facts, "_bias"};
    bias.facts.kind = Kind::biasGradient;
    bias.schedule.stages = 1;
    parts.push_back(bias);
    parts.front().schedule.groups = 1;
  }
  if (facts.sumsQueries) {
    Part queries{parts.front().schedule, keys.facts, "_queries"};
    if (!facts.sumsBias)
      std::swap(queries.schedule.queries, queries.schedule.keys);
    queries.facts.kind = Kind::queryGradient;
    queries.facts.outBytes = facts.queryOutBytes;
    parts.push_back(queries);
  }
  return parts;
}

/// What a warp stores rows of results through.
static std::int64_t storeBytes(const Facts& facts) {
  const std::int64_t widths = tileBytes(16, facts.width, facts.outBytes);
  switch (facts.kind) {
  case Kind::forward:
    return tileBytes(16, facts.valueWidth, facts.outBytes);
  case Kind::queryGradient:
    return widths;
  case Kind::keyGradient:
    return std::max({widths, tileBytes(16, facts.valueWidth, facts.otherOutBytes),
                     facts.sumsQueries ? tileBytes(16, facts.width, facts.queryOutBytes) : 0});
  case Kind::biasGradient:
    return 0;
  }
  return 0;
}

std::int64_t storedRowsBytes(const Facts& facts) {
  return tileBytes(16, facts.width, facts.queryOutBytes);
}

/// Of all gradients by products of warps: device/attention_shared_bias_all_warps.cuh.
static std::int64_t bytesOfAllByWarps(const Schedule& s, const Facts& facts) {
  constexpr std::int64_t row = 2 * 16 * 2; // of both tensors
  const std::int64_t slots = slotsOf(s, facts);
  const std::int64_t held = 2 * s.queries * s.keys; // of the bias
  const std::int64_t slopes = 2 * s.keys * 64 * 2;  // of score gradients
  const std::int64_t handed = clusterOf(s, facts) > 1 ? 2 * 64 * 8 * 4 + 4 * 8 : 0;
  const std::int64_t others = std::max<std::int64_t>(s.queries / 32 - 6, 0); // steps of sums
  const std::int64_t parts = 2 * 2 * s.keys * 8 * 4 + 5 * 8 + others * s.keys * 32 * 4;
  return held + slopes + slots * s.keys * row + s.stages * s.queries * (row + 12) + handed + parts +
         (2 * slots + 4 * s.stages) * 8 + 8;
}

/// SharedBiasMemory in device/attention_shared_bias.cuh.
static std::int64_t bytesHoldingBias(const Schedule& s, const Facts& facts) {
  const std::int64_t slots = slotsOf(s, facts);
  const std::int64_t rows = ownRows(s, facts), step = stepRows(s, facts);
  const std::int64_t held = rows * heldPlaces(s, facts) * (s.bias == Bias::widened ? 4 : 2);
  const std::int64_t width = paddedWidth(facts.width);
  const std::int64_t widths = width + paddedWidth(facts.valueWidth);
  const std::int64_t own = facts.kind == Kind::forward ? width : widths;
  const std::int64_t numbers = facts.kind == Kind::keyGradient ? s.stages * step * 8 : 0;
  const std::int64_t ofSide =
      (slots * rows * own + s.stages * step * widths) * facts.bytes +
      (s.products == Products::warps ? 0 : rows / 16 * storeBytes(facts)) + numbers +
      (summedTiles(s, facts) - tilesInRegisters(s, facts)) * rows * step * 4 +
      (2 * slots + 4 * s.stages) * 8;
  // Two groups of score gradients, and of a cluster what its blocks hand over.
  const std::int64_t slopes = facts.sumsQueries ? 2 * rows * kGroupOfQueries * 2 : 0;
  const std::int64_t handed = clusterOf(s, facts) > 1 ? 2 * kGroupOfQueries * width * 4 + 4 * 8 : 0;
  return held + s.side * ofSide + slopes + handed + 8;
}

/// TurnsMemory in device/attention_turns_walk.cuh.
static std::int64_t bytesTakingTurns(const Schedule& s, const Facts& facts) {
  const std::int64_t widths = (facts.width + facts.valueWidth) * facts.bytes;
  return (s.keys + s.stages * s.queries) * widths + 2 * s.keys * s.queries * facts.bytes +
         2 * queriesOfTurn(s, facts) * facts.width * 4 + s.stages * s.queries * 8 +
         (5 + 4 * s.stages) * 8;
}

/// attend_heads_bytes in device/attention_heads.cuh, HeadGradientMemory in
/// device/attention_heads_backward.cuh.
static std::int64_t bytesOfHeads(const Schedule& s, const Facts& facts) {
  const auto rows = [&](std::int64_t count) {
    return tileBytes(count, facts.width, facts.bytes) +
           tileBytes(count, facts.valueWidth, facts.bytes);
  };
  const std::int64_t store = storeBytes(facts) * ownRows(s, facts) / rowsOfWarp(s, facts);
  if (facts.kind == Kind::forward)
    return std::max(tileBytes(s.queries, facts.width, facts.bytes) + rows(s.keys), store);
  return rows(s.keys) + std::max(rows(s.queries), store) +
         tileBytes(s.keys, s.queries, facts.bytes) + s.queries * 8;
}

/// WarpgroupMemory in device/attention_warpgroups.cuh, ResidentMemory in
/// device/attention_resident.cuh.
static std::int64_t bytesOfWarpgroups(const Schedule& s, const Facts& facts) {
  const std::int64_t width = paddedWidth(facts.width);
  const std::int64_t groups = computingGroups(s, facts);
  const std::int64_t queries = s.queries * width * facts.bytes;
  const std::int64_t ring =
      s.stages * s.keys * (width + paddedWidth(facts.valueWidth)) * facts.bytes;
  const std::int64_t stored = groups * 4 * storeBytes(facts), barriers = 4 * s.stages * 8;
  if (isResident(s)) // and where two tiles of queries are
    return 2 * queries + ring + stored + barriers + (4 + (groups > 2 ? groups : 0) + 2) * 8;
  return std::max(queries + ring, stored) + barriers + 8;
}

std::int64_t sharedBytes(const Schedule& s, const Facts& facts) {
  const std::int64_t queries = tileBytes(s.queries, facts.width, facts.bytes);
  const std::int64_t gradients = tileBytes(s.queries, facts.valueWidth, facts.bytes);
  const std::int64_t keys = tileBytes(s.keys, facts.width, facts.bytes) +
                            tileBytes(s.keys, facts.valueWidth, facts.bytes);
  const std::int64_t stored = threadsOf(s, facts) / 32 * storeBytes(facts);
  if (holdsBiasByWarps(s) && walksOverQueries(facts))
    return bytesOfAllByWarps(s, facts);
  if (holdsBias(s))
    return bytesHoldingBias(s, facts);
  if (takesTurns(s, facts))
    return bytesTakingTurns(s, facts);
  if (hasHeads(s))
    return bytesOfHeads(s, facts);
  if (s.products == Products::threads)
    return 0;
  switch (facts.kind) {
  case Kind::forward:
    if (s.products == Products::warpgroups)
      return bytesOfWarpgroups(s, facts);
    return std::max(queries + s.stages * keys, stored);
  case Kind::queryGradient:
    return std::max(queries + gradients + s.stages * keys, stored);
  case Kind::keyGradient:
    return std::max(keys + s.stages * (queries + gradients + s.queries * 8), stored);
  case Kind::biasGradient:
    return queries + gradients + keys;
  }
  return 0;
}

} // namespace kiln::attention
