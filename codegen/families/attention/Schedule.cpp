// See Schedule.h.
#include "codegen/families/attention/Schedule.h"

#include "codegen/families/attention/cost/Cost.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace kiln::attention {
namespace {

constexpr std::string_view kLaunches[] = {"plain", "programmatic"};
constexpr std::string_view kProducts[] = {"warps", "warpgroups"};
constexpr std::string_view kBiases[] = {"read", "held"};
constexpr Knob kKnobs[] = {{"queries"},
                           {"keys"},
                           {"stages"},
                           {"blocks"},
                           {"launch", kLaunches},
                           {"groups", {}, true, 1},
                           {"products", kProducts, true, 0},
                           {"bias", kBiases, true, 0},
                           {"side", {}, true, 1}};

std::string problemOf(const kiln::Schedule& general) {
  const Schedule s = Schedule::of(general);
  for (auto [name, size] : {std::pair("queries", s.queries), std::pair("keys", s.keys)})
    if (size < 16 || size > 256 || size % 16 != 0)
      return fmt::format("{} = {}: a multiple of 16 from 16 to 256 is allowed", name, size);
  if (s.stages < 1 || s.stages > 8)
    return fmt::format("stages = {}: 1 to 8 are allowed", s.stages);
  if (s.blocks < 1 || s.blocks > 32)
    return fmt::format("blocks = {}: 1 to 32 blocks a multiprocessor are allowed", s.blocks);
  if (s.groups < 1 || s.groups > 1024)
    return fmt::format("groups = {}: 1 to 1024 groups of heads are allowed", s.groups);
  if (s.side < 1 || s.side > 4)
    return fmt::format("side = {}: 1 to 4 heads side by side are allowed", s.side);
  return "";
}

/// Of a tile of rows in shared memory: MatrixTile in device/matrix_tile.cuh.
std::int64_t tileBytes(std::int64_t rows, std::int64_t width, int bytes) {
  const std::int64_t depth = 32 / bytes, steps = (width + depth - 1) / depth;
  return rows * ((2 * steps) | 1) * 16;
}

bool walksOverQueries(const Facts& facts) {
  return facts.kind == Kind::keyGradient;
}
/// A block's own rows, and those of a tile that it walks over.
std::int64_t ownRows(const Schedule& s, const Facts& facts) {
  return walksOverQueries(facts) ? s.keys : s.queries;
}
std::int64_t stepRows(const Schedule& s, const Facts& facts) {
  return walksOverQueries(facts) ? s.queries : s.keys;
}

} // namespace

constinit const ScheduleForm scheduleForm = {
    .family = "attention", .knobs = kKnobs, .problemOf = problemOf};

Schedule Schedule::of(const kiln::Schedule& schedule) {
  const auto& v = schedule.values;
  return {v[0],
          v[1],
          v[2],
          v[3],
          v[5],
          static_cast<Launch>(v[4]),
          static_cast<Products>(v[6]),
          static_cast<Bias>(v[7]),
          v[8]};
}

kiln::Schedule Schedule::general() const {
  const auto narrow = [](auto value) { return static_cast<std::int32_t>(value); };
  return {&scheduleForm,
          {narrow(queries), narrow(keys), narrow(stages), narrow(blocks), narrow(launch),
           narrow(groups), narrow(products), narrow(bias), narrow(side)}};
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

double headsOfBlock(const Schedule& s, const Facts& facts) {
  const double sharing =
      facts.sharing > 0 ? static_cast<double>(facts.sharing) : facts.heads / facts.biases;
  return std::ceil(std::ceil(sharing / static_cast<double>(s.groups)) /
                   static_cast<double>(s.side));
}
std::int64_t slotsOf(const Schedule& s, const Facts& facts) {
  return facts.sharing > 0 && headsOfBlock(s, facts) <= 1 ? 1 : 2;
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
  // head it spilled.
  const bool isOne = s.bias == Bias::held && s.side == 1 && slotsOf(s, facts) == 1;
  const std::int64_t loading = isOne                     ? (walksOverQueries(facts) ? 40 : 24)
                               : walksOverQueries(facts) ? 56
                               : groups > 2              ? 32
                               : s.bias == Bias::held    ? 40
                                                         : 24;
  return {begin, loading,
          std::min<std::int64_t>((begin * threads - 128 * loading) /
                                     std::max<std::int64_t>(128 * groups, 1) / 8 * 8,
                                 240)};
}

std::int64_t threadsOf(const Schedule& s, const Facts& facts) {
  if (s.products == Products::warpgroups)
    return 128 * (computingGroups(s, facts) + 1);
  return ownRows(s, facts) * 2;
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
    return std::max(widths, tileBytes(16, facts.valueWidth, facts.otherOutBytes));
  case Kind::biasGradient:
    return 0;
  }
  return 0;
}

/// SharedBiasMemory in device/attention_shared_bias.cuh.
static std::int64_t bytesHoldingBias(const Schedule& s, const Facts& facts) {
  const std::int64_t slots = slotsOf(s, facts);
  const std::int64_t rows = ownRows(s, facts), step = stepRows(s, facts);
  const std::int64_t held = rows * heldPlaces(s, facts) * 2;
  const std::int64_t width = paddedWidth(facts.width);
  const std::int64_t widths = width + paddedWidth(facts.valueWidth);
  const std::int64_t own = facts.kind == Kind::forward ? width : widths;
  const std::int64_t numbers = facts.kind == Kind::keyGradient ? s.stages * step * 8 : 0;
  const std::int64_t ofSide = (slots * rows * own + s.stages * step * widths) * facts.bytes +
                              rows / 16 * storeBytes(facts) + numbers +
                              (2 * slots + 4 * s.stages) * 8;
  return held + s.side * ofSide + 8;
}

std::int64_t sharedBytes(const Schedule& s, const Facts& facts) {
  const std::int64_t queries = tileBytes(s.queries, facts.width, facts.bytes);
  const std::int64_t gradients = tileBytes(s.queries, facts.valueWidth, facts.bytes);
  const std::int64_t keys = tileBytes(s.keys, facts.width, facts.bytes) +
                            tileBytes(s.keys, facts.valueWidth, facts.bytes);
  const std::int64_t stored = threadsOf(s, facts) / 32 * storeBytes(facts);
  if (s.bias == Bias::held)
    return bytesHoldingBias(s, facts);
  switch (facts.kind) {
  case Kind::forward:
    if (s.products == Products::warpgroups)
      return std::max(
                 (s.queries * paddedWidth(facts.width) +
                  s.stages * s.keys * (paddedWidth(facts.width) + paddedWidth(facts.valueWidth))) *
                     facts.bytes,
                 computingGroups(s, facts) * 4 * storeBytes(facts)) +
             (1 + 4 * s.stages) * 8;
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

std::int64_t estimatedRegisters(const Schedule& s, const Facts& facts) {
  const auto of = [&](std::int64_t width) {
    return ((s.products == Products::warpgroups ? paddedWidth(width) : width) + 7) / 8 * 4;
  };
  const std::int64_t scores = of(stepRows(s, facts));
  const std::int64_t bent = facts.hasSoftcap ? scores : 0;
  const std::int64_t operands = facts.bytes == 4 ? 40 : 16;
  // Addresses, rows' numbers, and what places are counted for.
  const std::int64_t others = 40 + (facts.hasDropout || facts.masksPlaces ? 16 : 0);
  switch (facts.kind) {
  case Kind::forward:
    if (s.products == Products::warpgroups) // probabilities of one tile beside scores of the next
      return others + of(facts.valueWidth) + scores * 3 / 2;
    return others + operands + of(facts.valueWidth) + scores * 3 / 2;
  case Kind::queryGradient:
    if (s.bias == Bias::held)
      return others + of(facts.width) + scores * 3;
    return others + operands + of(facts.width) + scores * 2 + bent;
  case Kind::keyGradient:
    if (s.bias == Bias::held)
      return others + of(facts.width) + of(facts.valueWidth) + scores * 3;
    return others + operands + (facts.hasKeys ? of(facts.width) : 0) +
           (facts.hasValues ? of(facts.valueWidth) : 0) + scores * 2 + bent;
  case Kind::biasGradient:
    if (s.bias == Bias::held) // sums stay live while places are counted and drawn for
      return others + scores * 3 + (facts.hasDropout ? 72 : facts.masksPlaces ? 24 : 0);
    return others + operands + scores * 3;
  }
  return 0;
}

/// What products of warpgroups ask for beyond the rest.
static std::string againstWarpgroups(const Schedule& s, const Facts& facts, const Target& target) {
  if (!target.has.warpgroupMatrix)
    return fmt::format("products = warpgroups needs sm_90a, the target is {}", target.arch);
  const bool exists = facts.kind == Kind::forward || s.bias == Bias::held;
  if (!exists || facts.bytes != 2)
    return "products = warpgroups is of bf16 or fp16, of forward kernels and, with bias = held, of "
           "gradients";
  if (!facts.isMapped)
    return "products = warpgroups needs queries, keys and values whose strides are known to be "
           "multiples of 16 bytes, and heads that lie in two strides";
  for (std::int64_t width : {facts.width, facts.valueWidth})
    if (width != 8 && width != 16 && width != 32 && width != 64 && width != 128 && width != 192 &&
        width != 256)
      return fmt::format(
          "products = warpgroups takes rows of 8, 16, 32, 64, 128, 192 or 256 elements, "
          "not {}",
          width);
  const bool turned = walksOverQueries(facts);
  const std::int64_t rows = ownRows(s, facts), steps = stepRows(s, facts);
  const std::int64_t mostRows = s.bias == Bias::held ? 256 : 192;
  if (rows % 64 != 0 || rows > mostRows)
    return fmt::format("{} = {}: multiples of 64 up to {} with products = warpgroups",
                       turned ? "keys" : "queries", rows, mostRows);
  const std::int64_t narrow = std::min(facts.width, facts.valueWidth);
  const std::int64_t step = narrow <= 16 ? 32 : 16; // swizzles repeat within a tile
  if (steps % step != 0 || (steps > 96 && steps != 128 && steps != 192 && steps != 256))
    return fmt::format("{} = {}: multiples of {} up to 96, 128, 192 or 256 with products = "
                       "warpgroups",
                       turned ? "queries" : "keys", steps, step);
  // An instruction's accumulators and what it is given must be there from the beginning.
  const std::int64_t summed = facts.kind == Kind::queryGradient ? facts.width
                              : facts.kind == Kind::forward     ? facts.valueWidth
                              : facts.kind == Kind::keyGradient
                                  ? std::max(facts.width, facts.valueWidth)
                                  : 0; // rows of results
  const std::int64_t wanted = std::max(steps, summed) / 2 + 30;
  if (const std::int64_t begin = registersOf(s, facts).begin; begin < wanted)
    return fmt::format("products = warpgroups: {} {} and rows of {} elements take {} registers a "
                       "thread, {} blocks begin with {}",
                       steps, turned ? "queries" : "keys", summed, wanted, s.blocks, begin);
  return "";
}

/// What holding the bias asks for beyond products of warpgroups.
static std::string againstHolding(const Schedule& s, const Facts& facts) {
  if (s.products != Products::warpgroups)
    return "bias = held needs products = warpgroups";
  if (facts.kind == Kind::keyGradient && (!facts.hasKeys || !facts.hasValues))
    return "bias = held computes gradients of keys and of values together, and one is not asked "
           "for";
  if (facts.kind == Kind::keyGradient && facts.heads != facts.keyHeads)
    return "bias = held of gradients of keys and values needs as many heads of keys as of queries";
  if (facts.hasSoftcap || !facts.hasPositiveScale)
    return "bias = held needs a positive scale and no softcap";
  if (facts.biasBytes == 0) // groups of heads are so many whatever the number of heads
    return facts.sharing > 0 ? ""
                             : "bias = held without a bias needs a number of heads that the "
                               "function's type tells";
  if (facts.kind == Kind::keyGradient && facts.knownQueries == 0)
    return "bias = held of gradients of keys and values needs a number of queries that the "
           "function's type tells, and not 0";
  if ((facts.kind == Kind::forward || facts.kind == Kind::queryGradient) && facts.knownKeys == 0)
    return "bias = held needs a number of keys that the function's type tells, and not 0";
  if (!facts.isBiasMapped)
    return "bias = held needs a bias of 2 bytes an element whose rows lie densely, at multiples of "
           "16 bytes, and heads that lie in two strides";
  return "";
}

std::vector<model::Violation> check(const Schedule& s, const Facts& facts, const Target& target) {
  std::vector<model::Violation> broken;
  const auto require = [&](bool holds, const char* rule, std::string message) {
    if (!holds)
      broken.push_back({rule, std::move(message)});
  };
  const std::int64_t threads = threadsOf(s, facts), bytes = sharedBytes(s, facts);
  const std::int64_t mostThreads = s.bias == Bias::held ? 1024 : 512;
  require(threads <= mostThreads, "threads",
          fmt::format("{} threads for these tiles, {} are allowed", threads, mostThreads));
  require(bytes <= target.sharedPerBlock, "shared memory",
          fmt::format("{} bytes for these tiles, {} allows {}", bytes, target.arch,
                      target.sharedPerBlock));
  require(s.blocks * (bytes + target.sharedReserved) <= target.sharedPerSM, "blocks",
          fmt::format("{} blocks of {} bytes of shared memory asked, {} has {} a multiprocessor",
                      s.blocks, bytes, target.arch, target.sharedPerSM));
  require(s.blocks * threads <= target.threadsPerSM && s.blocks <= target.blocksPerSM, "blocks",
          fmt::format("{} blocks of {} threads asked, {} allows {} blocks and {} threads a "
                      "multiprocessor",
                      s.blocks, threads, target.arch, target.blocksPerSM, target.threadsPerSM));
  const bool byWarpgroups = s.products == Products::warpgroups;
  if (byWarpgroups) {
    const std::string why = againstWarpgroups(s, facts, target);
    require(why.empty(), "products", why);
  }
  if (s.bias == Bias::held) {
    const std::string why = againstHolding(s, facts);
    require(why.empty(), "bias", why);
  }
  require(s.side == 1 || s.bias == Bias::held, "side",
          fmt::format("side = {}: blocks that hold a bias take heads side by side", s.side));
  const std::int64_t registers =
      byWarpgroups ? registersOf(s, facts).working
                   : std::min<std::int64_t>(target.registersPerThread,
                                            target.registersPerSM /
                                                std::max<std::int64_t>(s.blocks * threads, 1));
  // Each spill says that the estimate is too low.
  const std::int64_t wanted = estimatedRegisters(s, facts) * (8 + facts.spills) / 8;
  require(wanted <= registers, "registers",
          fmt::format("about {} registers a thread needed, {} blocks of {} threads leave {} on {}",
                      wanted, s.blocks, threads, registers, target.arch));
  const bool hasGroups = facts.kind == Kind::biasGradient || s.bias == Bias::held;
  require(hasGroups || s.groups == 1, "groups",
          fmt::format("groups = {}: the gradient of a bias has groups, and bias = held", s.groups));
  require(!hasGroups || facts.sharing == 0 || s.groups <= facts.sharing, "groups",
          fmt::format("groups = {}: {} heads share a bias", s.groups, facts.sharing));
  const bool holds = s.bias == Bias::held;
  require(holds || facts.kind != Kind::biasGradient || s.stages == 1, "stages",
          fmt::format("stages = {}: the gradient of a bias that is read has 1", s.stages));
  // The next tile's products begin before the last one's stage is free.
  require(!holds || s.stages >= 2, "stages",
          fmt::format("stages = {}: bias = held needs 2 or more", s.stages));
  require(s.launch == Launch::plain || target.has.programmaticLaunch, "launch",
          fmt::format("launch = programmatic needs sm_90 or newer, the target is {}", target.arch));
  require(target.has.warpMatrix && target.has.asyncCopies, "target",
          fmt::format("{} has no products of matrices by a warp", target.arch));
  return broken;
}

Schedule defaultSchedule(const Facts& facts, const Target& target) {
  const model::Space space = spaceOf(facts, target, 0.0, model::Listing::likely);
  if (space.feasible.empty())
    model::failWithReasons(spaceOf(facts, target, 0.0), target);
  return Schedule::of(space.feasible.front().schedule);
}

} // namespace kiln::attention
