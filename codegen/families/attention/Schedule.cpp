// See Schedule.h.
#include "codegen/families/attention/Schedule.h"

#include "codegen/families/attention/Resources.h"
#include "codegen/families/attention/cost/Cost.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace kiln::attention {
namespace {

constexpr std::string_view kLaunches[] = {"plain", "programmatic"};
constexpr std::string_view kProducts[] = {"warps", "warpgroups", "threads", "heads"};
constexpr std::string_view kBiases[] = {"read", "held", "widened"};
constexpr std::string_view kGrids[] = {"one_shot", "resident"};
constexpr Knob kKnobs[] = {{"queries"},
                           {"keys"},
                           {"stages"},
                           {"blocks"},
                           {"launch", kLaunches},
                           {"groups", {}, true, 1},
                           {"products", kProducts, true, 0},
                           {"bias", kBiases, true, 0},
                           {"side", {}, true, 1},
                           {"grid", kGrids, true, 0}};

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
          v[8],
          static_cast<Grid>(v[9])};
}

kiln::Schedule Schedule::general() const {
  const auto narrow = [](auto value) { return static_cast<std::int32_t>(value); };
  return {&scheduleForm,
          {narrow(queries), narrow(keys), narrow(stages), narrow(blocks), narrow(launch),
           narrow(groups), narrow(products), narrow(bias), narrow(side), narrow(grid)}};
}

/// What products of warpgroups ask for beyond the rest.
static std::string againstWarpgroups(const Schedule& s, const Facts& facts, const Target& target) {
  if (!target.has.warpgroupMatrix)
    return fmt::format("products = warpgroups needs sm_90a, the target is {}", target.arch);
  const bool exists = facts.kind == Kind::forward || holdsBias(s) || takesTurns(s, facts);
  if (!exists || facts.bytes != 2)
    return "products = warpgroups is of bf16 or fp16, of forward kernels, of all gradients without "
           "a bias and, with bias = held, of gradients";
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
  const std::int64_t mostRows = holdsBias(s) ? 256 : 192;
  if (rows % 64 != 0 || rows > mostRows)
    return fmt::format("{} = {}: multiples of 64 up to {} with products = warpgroups",
                       turned ? "keys" : "queries", rows, mostRows);
  const std::int64_t narrow = std::min(facts.width, facts.valueWidth);
  const std::int64_t step = narrow <= 16 ? 32 : 16; // swizzles repeat within a tile
  if (steps % step != 0 || (steps > 96 && steps != 128 && steps != 192 && steps != 256))
    return fmt::format("{} = {}: multiples of {} up to 96, 128, 192 or 256 with products = "
                       "warpgroups",
                       turned ? "queries" : "keys", steps, step);
  if (takesTurns(s, facts) && steps % 64 != 0)
    return fmt::format("queries = {}: multiples of 64 with products = warpgroups of all gradients",
                       steps);
  if (takesTurns(s, facts) && steps * facts.width % (32 * rows) != 0)
    return fmt::format("products = warpgroups of all gradients: the gradients of {} queries are {} "
                       "pieces of 64 x 32, which {} warpgroups of 64 keys cannot share",
                       steps, steps * facts.width / 2048, rows / 64);
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

/// What products of threads ask for beyond the rest.
static std::string againstThreads(const Schedule& s, const Facts& facts) {
  if (facts.kind == Kind::biasGradient || facts.sumsBias || facts.sumsQueries)
    return "products = threads is of forward kernels, of gradients of queries, and of gradients of "
           "keys and values, each by itself";
  if (stepRows(s, facts) != 16 || s.stages != 1)
    return fmt::format("products = threads has no tiles of {} and no stages: {} = 16 and stages = "
                       "1, not {} and {}",
                       walksOverQueries(facts) ? "queries" : "keys",
                       walksOverQueries(facts) ? "queries" : "keys", stepRows(s, facts), s.stages);
  if (threadsOf(s, facts) % 32 != 0)
    return fmt::format("products = threads has {} for a row of {} elements, and {} rows are not "
                       "whole warps of 32",
                       lanesOfRow(facts), std::max(facts.width, facts.valueWidth),
                       ownRows(s, facts));
  return "";
}

/// What blocks that have all keys of a head ask for beyond the rest.
static std::string againstHeads(const Schedule& s, const Facts& facts) {
  const bool isForward = facts.kind == Kind::forward;
  if (!isForward && (!facts.sumsQueries || facts.sumsBias || facts.biasBytes > 0))
    return "products = heads is of forward kernels and of the gradients of queries, keys and "
           "values in one kernel without a bias";
  if (facts.bytes != 2)
    return "products = heads is of bf16 or fp16";
  if (!isForward && (facts.hasSoftcap || !facts.hasPositiveScale))
    return "products = heads of gradients needs a positive scale and no softcap";
  if (facts.knownKeys == 0 || facts.knownKeys > s.keys)
    return fmt::format(
        "products = heads needs a number of keys that the function's type tells, not "
        "0, and that is no more than keys = {}, not {}",
        s.keys, facts.knownKeys > 0 ? std::to_string(facts.knownKeys) : "?");
  if (const std::int64_t rows = rowsOfWarp(s, facts); !isForward && s.queries % rows != 0)
    return fmt::format("products = heads of keys = {} takes queries by {}, not {}", s.keys, rows,
                       s.queries);
  if (s.stages != 1)
    return fmt::format("products = heads has no stages: stages = 1, not {}", s.stages);
  return "";
}

/// What holding the bias asks for beyond products of warpgroups.
static std::string againstHolding(const Schedule& s, const Facts& facts) {
  if (s.products != Products::warpgroups && s.products != Products::warps)
    return "bias = held needs products = warpgroups, or of warps";
  if (facts.kind == Kind::keyGradient && (!facts.hasKeys || !facts.hasValues))
    return "bias = held computes gradients of keys and of values together, and one is not asked "
           "for";
  if (facts.kind == Kind::keyGradient && facts.sharingKeys > 1)
    return "bias = held of gradients of keys and values needs as many heads of keys as of queries";
  if (facts.sumsQueries) {
    const bool fits = s.products == Products::warps || kGroupOfQueries % s.queries == 0;
    if (s.side != 1 || !fits)
      return fmt::format("bias = held of all gradients in one kernel takes tiles of 16, 32 or 64 "
                         "queries, not {}, and one head at a time, not {}",
                         s.queries, s.side);
    if (const int most = facts.knownKeys > kMostOfWholeQueries ? 3 : 2; clusterOf(s, facts) > most)
      return fmt::format("bias = held of all gradients in one kernel takes {} keys in {} blocks "
                         "at most, and keys = {} makes {}",
                         facts.knownKeys, most == 2 ? "two" : "three", s.keys, clusterOf(s, facts));
  }
  if (facts.hasSoftcap || !facts.hasPositiveScale)
    return "bias = held needs a positive scale and no softcap";
  if (takesOneHead(facts) && (s.groups != 1 || s.side != 1))
    return "bias = held without a bias takes one head a block where the function's type does not "
           "tell how many there are: groups = 1 and side = 1";
  const bool isOverKeys = facts.kind == Kind::forward || facts.kind == Kind::queryGradient;
  if (s.bias == Bias::widened && (!isOverKeys || facts.biasBytes == 0))
    return "bias = widened is of forward kernels and of gradients of queries, of heads that have "
           "a bias";
  if (facts.biasBytes == 0)
    return "";
  if (facts.kind == Kind::keyGradient && facts.knownQueries == 0)
    return "bias = held of gradients of keys and values needs a number of queries that the "
           "function's type tells, and not 0";
  if (isOverKeys && facts.knownKeys == 0)
    return "bias = held needs a number of keys that the function's type tells, and not 0";
  if (!facts.isBiasMapped)
    return "bias = held needs a bias of 2 bytes an element whose rows lie densely, at multiples of "
           "16 bytes, and heads that lie in two strides";
  return "";
}

/// What products of warps ask for beyond that: of narrow rows, whose products have depth left.
static std::string againstWarpsHolding(const Schedule& s, const Facts& facts,
                                       const Target& target) {
  if (!target.has.warpgroupMatrix)
    return fmt::format("bias = held needs sm_90a, the target is {}", target.arch);
  const bool isAll = facts.sumsQueries && facts.sumsBias;
  if ((facts.kind != Kind::forward && !isAll) || s.bias != Bias::held || facts.biasBytes == 0)
    return "bias = held with products = warps is of heads that have a bias, of forward kernels and "
           "of all gradients in one";
  if (facts.bytes != 2 || facts.width != 8 || facts.valueWidth != 8)
    return fmt::format("bias = held with products = warps takes rows of 8 elements of bf16 or "
                       "fp16, not {} and {}",
                       facts.width, facts.valueWidth);
  if (!facts.isMapped)
    return "bias = held needs queries, keys and values whose strides are known to be multiples of "
           "16 bytes, and heads that lie in two strides";
  if (facts.hasDropout || facts.masksPlaces)
    return "bias = held with products = warps has no dropout and no masks of queries";
  if (!facts.isBiasOfProducts)
    return "bias = held with products = warps needs a bias in bf16 and a scale below 0.99 whose "
           "inverse bf16 has, but for less than 2^-11 of it";
  if (isAll && (s.keys != 128 || s.queries % 128 != 0 || s.queries < facts.knownQueries))
    return fmt::format("bias = held with products = warps takes all gradients of 128 keys and of "
                       "all queries, by 128, not of {} and {} of {}",
                       s.keys, s.queries, facts.knownQueries);
  if (isAll && s.queries > 128 && clusterOf(s, facts) == 1) // the assembler spills
    return fmt::format(
        "bias = held with products = warps takes all gradients of up to 128 keys with "
        "queries = 128 alone, not {}",
        s.queries);
  if (facts.kind == Kind::forward && facts.hasMask && s.keys > 128) // the assembler spills
    return fmt::format("bias = held with products = warps takes masks of up to 128 keys a tile, "
                       "not of {}",
                       s.keys);
  if (s.queries % 64 != 0 || s.keys % 32 != 0)
    return fmt::format("bias = held with products = warps takes queries by 64 and keys by 32, not "
                       "{} and {}",
                       s.queries, s.keys);
  return "";
}

static std::vector<model::Violation> checkPart(const Schedule& s, const Facts& facts,
                                               const Target& target, double ofRegisters) {
  std::vector<model::Violation> broken;
  const auto require = [&](bool holds, const char* rule, std::string message) {
    if (!holds)
      broken.push_back({rule, std::move(message)});
  };
  const std::int64_t threads = threadsOf(s, facts), bytes = sharedBytes(s, facts);
  const std::int64_t mostThreads = holdsBias(s) ? 1024 : 512;
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
  if (s.products == Products::threads) {
    const std::string why = againstThreads(s, facts);
    require(why.empty(), "products", why);
  }
  if (hasHeads(s)) {
    const std::string why = againstHeads(s, facts);
    require(why.empty(), "products", why);
  }
  if (holdsBiasByWarps(s)) {
    const std::string why = againstWarpsHolding(s, facts, target);
    require(why.empty(), "products", why);
  }
  if (holdsBias(s)) {
    const std::string why = againstHolding(s, facts);
    require(why.empty(), "bias", why);
  }
  require(!isResident(s) || (byWarpgroups && facts.kind == Kind::forward && !holdsBias(s)), "grid",
          "grid = resident is of forward kernels, with products = warpgroups and bias = read");
  require(s.side == 1 || holdsBias(s), "side",
          fmt::format("side = {}: blocks that hold a bias take heads side by side", s.side));
  const std::int64_t registers =
      byWarpgroups || holdsBias(s)
          ? registersOf(s, facts).working
          : std::min<std::int64_t>(target.registersPerThread,
                                   target.registersPerSM /
                                       std::max<std::int64_t>(s.blocks * threads, 1));
  // Each spill says that the estimate is too low, and the next that it is more so.
  const int eighths = 8 + facts.spills * (facts.spills + 1) / 2;
  const std::int64_t wanted = estimatedRegisters(s, facts) * eighths / 8;
  require(static_cast<double>(wanted) <= static_cast<double>(registers) * ofRegisters, "registers",
          fmt::format("about {} registers a thread needed, {} blocks of {} threads leave {} on {}",
                      wanted, s.blocks, threads, registers, target.arch));
  const bool hasGroups = facts.kind == Kind::biasGradient || holdsBias(s);
  require(hasGroups || s.groups == 1, "groups",
          fmt::format("groups = {}: the gradient of a bias has groups, and bias = held", s.groups));
  require(!hasGroups || facts.sharing == 0 || s.groups <= facts.sharing, "groups",
          fmt::format("groups = {}: {} heads share a bias", s.groups, facts.sharing));
  const bool holds = holdsBias(s);
  require(holds || facts.kind != Kind::biasGradient || s.stages == 1, "stages",
          fmt::format("stages = {}: the gradient of a bias that is read has 1", s.stages));
  // The next tile's products begin before the last one's stage is free.
  require(!holds || s.stages >= 2, "stages",
          fmt::format("stages = {}: bias = held needs 2 or more", s.stages));
  require(!takesTurns(s, facts) || s.stages >= 2, "stages",
          fmt::format("stages = {}: all gradients in one kernel need 2 or more", s.stages));
  require(s.launch == Launch::plain || target.has.programmaticLaunch, "launch",
          fmt::format("launch = programmatic needs sm_90 or newer, the target is {}", target.arch));
  require(target.has.warpMatrix && target.has.asyncCopies, "target",
          fmt::format("{} has no products of matrices by a warp", target.arch));
  return broken;
}

std::vector<model::Violation> check(const Schedule& s, const Facts& facts, const Target& target,
                                    double ofRegisters) {
  std::vector<model::Violation> broken;
  for (const Part& part : partsOf(s, facts))
    for (model::Violation& violation : checkPart(part.schedule, part.facts, target, ofRegisters))
      broken.push_back(std::move(violation));
  return broken;
}

std::vector<model::Violation> check(const Schedule& s, const Facts& facts, const Target& target) {
  std::vector<model::Violation> broken = check(s, facts, target, 1.0);
  if (std::ranges::any_of(broken, [](const auto& one) { return one.rule == "registers"; }))
    broken = check(s, facts, target, registersTaken(facts, target));
  return broken;
}

Schedule defaultSchedule(const Facts& facts, const Target& target) {
  const model::Space space = spaceOf(facts, target, 0.0, model::Listing::likely);
  if (space.feasible.empty())
    model::failWithReasons(spaceOf(facts, target, 0.0), target);
  return Schedule::of(space.feasible.front().schedule);
}

} // namespace kiln::attention
