// See Schedule.h.
#include "codegen/families/attention/Schedule.h"

#include "codegen/families/attention/cost/Cost.h"

#include <algorithm>
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

std::int64_t heldKeys(const Schedule& s, const Facts& facts) {
  constexpr std::int64_t panel = 64;
  const std::int64_t keys = (facts.knownKeys + s.keys - 1) / s.keys * s.keys;
  return (keys + panel - 1) / panel * panel;
}

std::int64_t computingGroups(const Schedule& s) {
  return s.queries / 64 * s.side;
}

Registers registersOf(const Schedule& s) {
  constexpr std::int64_t all = 65536; // of a multiprocessor of sm_90a
  const std::int64_t groups = computingGroups(s);
  const std::int64_t threads = 128 * (groups + 1);
  const std::int64_t begin =
      std::min<std::int64_t>(all / std::max<std::int64_t>(s.blocks * threads, 1) / 8 * 8, 256);
  // Who loads for heads that share a bias counts heads and tiles.
  const std::int64_t loading = groups > 2 ? 32 : s.bias == Bias::held ? 40 : 24;
  return {begin, loading,
          std::min<std::int64_t>((begin * threads - 128 * loading) /
                                     std::max<std::int64_t>(128 * groups, 1) / 8 * 8,
                                 240)};
}

std::int64_t threadsOf(const Schedule& s, const Facts& facts) {
  if (s.products == Products::warpgroups)
    return 128 * (computingGroups(s) + 1);
  return (walksOverQueries(facts) ? s.keys : s.queries) * 2;
}

/// SharedBiasMemory in device/attention_shared_bias.cuh.
static std::int64_t bytesHoldingBias(const Schedule& s, const Facts& facts) {
  constexpr std::int64_t slots = 2; // of queries
  const std::int64_t held = s.queries * heldKeys(s, facts) * 2;
  const bool differentiates = facts.kind == Kind::queryGradient;
  const std::int64_t own = facts.width + (differentiates ? facts.valueWidth : 0);
  const std::int64_t stored = differentiates ? facts.width : facts.valueWidth;
  const std::int64_t ofSide =
      (slots * s.queries * own + s.stages * s.keys * (facts.width + facts.valueWidth)) *
          facts.bytes +
      s.queries / 16 * tileBytes(16, stored, facts.outBytes) + (2 * slots + 4 * s.stages) * 8;
  return held + s.side * ofSide + 8;
}

std::int64_t sharedBytes(const Schedule& s, const Facts& facts) {
  const std::int64_t queries = tileBytes(s.queries, facts.width, facts.bytes);
  const std::int64_t gradients = tileBytes(s.queries, facts.valueWidth, facts.bytes);
  const std::int64_t keys = tileBytes(s.keys, facts.width, facts.bytes) +
                            tileBytes(s.keys, facts.valueWidth, facts.bytes);
  const std::int64_t warps = threadsOf(s, facts) / 32;
  const std::int64_t widths = tileBytes(16, facts.width, facts.outBytes);
  const std::int64_t valueWidths = tileBytes(16, facts.valueWidth, facts.outBytes);
  switch (facts.kind) {
  case Kind::forward:
    if (s.bias == Bias::held)
      return bytesHoldingBias(s, facts);
    if (s.products == Products::warpgroups)
      return std::max(
          (s.queries * facts.width + s.stages * s.keys * (facts.width + facts.valueWidth)) *
                  facts.bytes +
              (1 + 4 * s.stages) * 8,
          (warps - 4) * valueWidths);
    return std::max(queries + s.stages * keys, warps * valueWidths);
  case Kind::queryGradient:
    if (s.bias == Bias::held)
      return bytesHoldingBias(s, facts);
    return std::max(queries + gradients + s.stages * keys, warps * widths);
  case Kind::keyGradient:
    return std::max(keys + s.stages * (queries + gradients + s.queries * 8),
                    warps * std::max(widths, tileBytes(16, facts.valueWidth, facts.otherOutBytes)));
  case Kind::biasGradient:
    return queries + gradients + keys;
  }
  return 0;
}

std::int64_t estimatedRegisters(const Schedule& s, const Facts& facts) {
  const auto of = [](std::int64_t width) { return (width + 7) / 8 * 4; };
  const std::int64_t scores = of(walksOverQueries(facts) ? s.queries : s.keys);
  const std::int64_t bent = facts.hasSoftcap ? scores : 0;
  const std::int64_t operands = facts.bytes == 4 ? 40 : 16;
  constexpr std::int64_t others = 40; // addresses, rows' numbers
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
    return others + operands + (facts.hasKeys ? of(facts.width) : 0) +
           (facts.hasValues ? of(facts.valueWidth) : 0) + scores * 2 + bent;
  case Kind::biasGradient:
    return others + operands + scores * 3;
  }
  return 0;
}

/// What products of warpgroups ask for beyond the rest.
static std::string againstWarpgroups(const Schedule& s, const Facts& facts, const Target& target) {
  if (!target.has.warpgroupMatrix)
    return fmt::format("products = warpgroups needs sm_90a, the target is {}", target.arch);
  const bool exists =
      facts.kind == Kind::forward || (facts.kind == Kind::queryGradient && s.bias == Bias::held);
  if (!exists || facts.bytes != 2)
    return "products = warpgroups is of bf16 or fp16, of forward kernels and, with bias = held, of "
           "gradients of queries";
  if (!facts.isMapped)
    return "products = warpgroups needs queries, keys and values whose strides are known to be "
           "multiples of 16 bytes, and heads that lie in two strides";
  for (std::int64_t width : {facts.width, facts.valueWidth})
    if (width != 16 && width != 32 && width != 64 && width != 128 && width != 192 && width != 256)
      return fmt::format(
          "products = warpgroups takes rows of 16, 32, 64, 128, 192 or 256 elements, "
          "not {}",
          width);
  const std::int64_t mostQueries = s.bias == Bias::held ? 256 : 192;
  if (s.queries % 64 != 0 || s.queries > mostQueries)
    return fmt::format("queries = {}: multiples of 64 up to {} with products = warpgroups",
                       s.queries, mostQueries);
  const std::int64_t narrow = std::min(facts.width, facts.valueWidth);
  const std::int64_t step = narrow == 16 ? 32 : 16; // swizzles repeat within a tile
  if (s.keys % step != 0 || (s.keys > 96 && s.keys != 128 && s.keys != 192 && s.keys != 256) ||
      s.keys == 112)
    return fmt::format("keys = {}: multiples of {} up to 96, 128, 192 or 256 with products = "
                       "warpgroups",
                       s.keys, step);
  // An instruction's accumulators and what it is given must be there from the beginning.
  const std::int64_t summed =
      facts.kind == Kind::queryGradient ? facts.width : facts.valueWidth; // rows of results
  const std::int64_t wanted = std::max(s.keys, summed) / 2 + 30;
  if (const std::int64_t begin = registersOf(s).begin; begin < wanted)
    return fmt::format("products = warpgroups: {} keys and rows of {} elements take {} registers a "
                       "thread, {} blocks begin with {}",
                       s.keys, summed, wanted, s.blocks, begin);
  return "";
}

/// What holding the bias asks for beyond products of warpgroups.
static std::string againstHolding(const Schedule& s, const Facts& facts) {
  if ((facts.kind != Kind::forward && facts.kind != Kind::queryGradient) || facts.biasBytes == 0)
    return "bias = held is of forward kernels and gradients of queries that have a bias";
  if (s.products != Products::warpgroups)
    return "bias = held needs products = warpgroups";
  if (facts.knownKeys == 0)
    return "bias = held needs a number of keys that the function's type tells, and not 0";
  if (!facts.isBiasMapped)
    return "bias = held needs a bias of 2 bytes an element whose rows lie densely, at multiples of "
           "16 bytes, and heads that lie in two strides";
  if (facts.hasSoftcap || !facts.hasPositiveScale)
    return "bias = held needs a positive scale and no softcap";
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
      byWarpgroups ? registersOf(s).working
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
  require(facts.kind != Kind::biasGradient || s.stages == 1, "stages",
          fmt::format("stages = {}: the gradient of a bias has 1", s.stages));
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
