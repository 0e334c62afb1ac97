// See Schedule.h.
#include "codegen/families/rows/Schedule.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

namespace kiln::rows {

namespace {

constexpr std::string_view kGrids[] = {"one_shot", "resident"};
constexpr std::string_view kKeeps[] = {"registers", "shared", "global", "ring"};
constexpr std::string_view kLaunches[] = {"plain", "programmatic", "older_first"};
constexpr std::string_view kColumns[] = {"global", "shared"};

constexpr Knob kKnobs[] = {{"lanes"},
                           {"vector"},
                           {"rows"},
                           {"threads"},
                           {"blocks"},
                           {"grid", kGrids},
                           {"keep", kKeeps},
                           {"launch", kLaunches},
                           {"columns", kColumns, /*optional=*/true},
                           {"stages", {}, /*optional=*/true},
                           {"cluster", {}, /*optional=*/true, /*usual=*/1}};

bool isPowerOfTwo(std::int64_t n) {
  return n > 0 && (n & (n - 1)) == 0;
}

/// What no kernel and no target allow.
std::string problemOf(const kiln::Schedule& general) {
  const Schedule s = Schedule::of(general);
  if (s.lanes < 1 || s.lanes > 1024 || (s.lanes < 32 ? !isPowerOfTwo(s.lanes) : s.lanes % 32 != 0))
    return fmt::format("lanes = {}: a row is shared by 1, 2, 4, 8, 16 threads or a multiple of 32 "
                       "up to 1024",
                       s.lanes);
  if (s.vector > 16 || !isPowerOfTwo(s.vector))
    return fmt::format("vector = {}: a power of two up to 16 is allowed", s.vector);
  if (s.rows < 1 || s.rows > 16)
    return fmt::format("rows = {}: 1 to 16 rows a thread are allowed", s.rows);
  if (s.threads < 32 || s.threads > 1024 || s.threads % 32 != 0)
    return fmt::format("threads = {}: a multiple of 32 from 32 to 1024 is allowed", s.threads);
  if (s.cluster != 1 && s.cluster != 2)
    return fmt::format("cluster = {}: 1 or 2 blocks share a row", s.cluster);
  if (s.cluster == 1 && s.threads % s.lanes != 0)
    return fmt::format("lanes = {} does not divide threads = {}", s.lanes, s.threads);
  if (s.cluster > 1 && s.lanes != s.threads * s.cluster)
    return fmt::format("lanes = {}: all threads of a cluster of {} blocks share a row, {} for "
                       "threads = {}",
                       s.lanes, s.cluster, s.threads * s.cluster, s.threads);
  if (s.blocks < 1 || s.blocks > 32)
    return fmt::format("blocks = {}: 1 to 32 blocks a multiprocessor are allowed", s.blocks);
  if (s.keep == Keep::ring ? s.stages < 2 || s.stages > 16 : s.stages != 0)
    return fmt::format("stages = {}: keep = ring has 2 to 16, others have none", s.stages);
  return "";
}

} // namespace

constinit const ScheduleForm scheduleForm = {
    .family = "rows", .isImplied = true, .knobs = kKnobs, .problemOf = problemOf};

Schedule Schedule::of(const kiln::Schedule& schedule) {
  const auto& v = schedule.values;
  return {v[0],
          v[1],
          v[2],
          v[3],
          v[4],
          static_cast<Grid>(v[5]),
          static_cast<Keep>(v[6]),
          static_cast<Launch>(v[7]),
          static_cast<Columns>(v[8]),
          v[9],
          v[10]};
}

kiln::Schedule Schedule::general() const {
  const auto narrow = [](auto value) { return static_cast<std::int32_t>(value); };
  return {&scheduleForm,
          {narrow(lanes), narrow(vector), narrow(rows), narrow(threads), narrow(blocks),
           narrow(grid), narrow(keep), narrow(launch), narrow(columns), narrow(stages),
           narrow(cluster)}};
}

std::int64_t Schedule::blocksOfOneShift(std::int64_t width) const {
  return vector / std::gcd(vector, width * rowsPerBlock());
}

std::string toText(const Schedule& schedule) {
  return kiln::toText(schedule.general());
}

std::int64_t Facts::transposedBytes() const {
  std::int64_t bytes = 0;
  for (const auto* streams : {&inputs, &outputs})
    for (const Stream& stream : *streams)
      bytes += stream.transposed ? stream.bytes * width : 0;
  return bytes;
}

bool Facts::hasOddRows() const {
  return std::any_of(inputs.begin(), inputs.end(),
                     [&](const Stream& s) { return width * s.bytes % 16 != 0; });
}

bool Facts::hasNarrowRows() const {
  return hasColumns() && std::any_of(inputs.begin(), inputs.end(),
                                     [&](const Stream& s) { return width * s.bytes % 8 != 0; });
}

bool Facts::isLoose(const Schedule& s) const {
  return s.keep == Keep::ring && std::any_of(inputs.begin(), inputs.end(), [&](const Stream& x) {
           return s.overlaps(width) || s.rowsPerBlock() * width * x.bytes % 16 != 0;
         });
}

bool Facts::hasOlder() const {
  return std::any_of(inputs.begin(), inputs.end(), [](const Stream& s) { return s.older; });
}

double Facts::bytes(double rowCount) const {
  double perRow = 4.0 * (rowInputs + rowOutputs);
  for (const Stream& stream : inputs)
    perRow += stream.again ? 0.0 : static_cast<double>(stream.bytes * width);
  for (const Stream& stream : outputs)
    perRow += static_cast<double>(stream.bytes * width);
  return perRow * rowCount;
}

std::int64_t fragmentBytes(const Schedule& s, std::int64_t width, int elementBytes) {
  return s.keep == Keep::shared ? s.rows * s.chunks(width) * s.vector * s.threads * elementBytes
                                : 0;
}
std::int64_t exchangeBytes(const Schedule& s, int values) {
  return s.lanes > 32 ? values * s.rows * s.cluster * (s.threads / 32) * 4 : 0;
}
std::int64_t rowStoreBytes(const Schedule& s, int values) {
  return s.rowsPerBlock() < 8 ? 0 : values * s.rowsPerBlock() * 8;
}
std::int64_t stagePart(std::int64_t tileRows, std::int64_t elements, int elementBytes, bool loose) {
  return (tileRows * elements * elementBytes + (loose ? 30 : 0) + 127) / 128 * 128;
}
std::int64_t stageBytes(const Schedule& s, const Facts& facts) {
  const bool loose = facts.isLoose(s);
  std::int64_t bytes = loose ? 0 : facts.rowInputs * stagePart(s.rowsPerBlock(), 1, 8, false);
  for (const Facts::Stream& stream : facts.inputs)
    bytes += stagePart(s.rowsPerBlock(), facts.width, stream.bytes, loose);
  return bytes;
}
std::int64_t transposedBytes(const Schedule& s, std::int64_t width, int elementBytes) {
  std::int64_t unit = std::min<std::int64_t>(s.vector, 16 / elementBytes);
  return s.rowsPerBlock() * (width / unit | 1) * unit * elementBytes;
}
/// Where vectors overlap the ends of rows, each group of lanes has a copy, as its rows are shifted.
std::int64_t columnBytes(const Schedule& s, std::int64_t width, int elementBytes) {
  if (s.columns != Columns::shared)
    return 0;
  const std::int64_t elements = s.overlaps(width) ? s.threads * s.chunks(width) * s.vector : width;
  return (elements * elementBytes + 15) / 16 * 16;
}
std::int64_t columnSumBytes(const Schedule& s, std::int64_t width) {
  std::int64_t teams = s.threads / std::max<std::int64_t>(s.lanes, 32);
  if (s.overlaps(width) && s.keep == Keep::ring)
    return teams * s.chunks(width) * s.lanes * s.vector * 4;
  return teams > 1 ? teams * width * 4 : 0;
}

std::int64_t sharedBytes(const Schedule& s, const Facts& facts) {
  std::int64_t tile = 0;
  for (const Facts::Stream& stream : facts.inputs)
    tile += stream.transposed && s.transposes() ? transposedBytes(s, facts.width, stream.bytes)
                                                : fragmentBytes(s, facts.width, stream.bytes);
  for (const Facts::Stream& stream : facts.outputs)
    if (stream.transposed && s.transposes())
      tile += transposedBytes(s, facts.width, stream.bytes);
  if (s.keep == Keep::ring) // and two barriers for each stage
    tile += s.stages * (stageBytes(s, facts) + 16);
  for (const Facts::Stream& stream : facts.columns)
    tile += columnBytes(s, facts.width, stream.bytes);
  tile += facts.kept * fragmentBytes(s, facts.width, 4);
  tile += exchangeBytes(s, facts.reductions) + rowStoreBytes(s, facts.rowOutputs);
  std::int64_t after = 0; // sums reuse the memory of the tiles
  if (facts.columnSums)
    after = columnSumBytes(s, facts.width);
  if (facts.totalSums)
    after = std::max<std::int64_t>(after, 128);
  return std::max(tile, after);
}

std::int64_t estimatedRegisters(const Schedule& s, const Facts& facts) {
  std::int64_t elements = s.rows * s.chunks(facts.width) * s.vector;
  std::int64_t registers = 20 + (facts.reductions + facts.rowInputs) * s.rows;
  // Single elements do not share registers, nor those that a ring's reader widens.
  const bool widens = s.keep == Keep::ring && s.overlaps(facts.width);
  if (s.keep == Keep::registers || s.keep == Keep::ring) {
    for (const Facts::Stream& stream : facts.inputs)
      if (!stream.transposed || !s.transposes())
        registers += elements * (s.vector > 1 && !widens ? stream.bytes : 4) / 4;
    registers += elements * facts.kept;
  }
  registers += facts.columnSums * s.chunks(facts.width) * s.vector;
  if (facts.holdsColumns(s))
    for (const Facts::Stream& stream : facts.columns)
      registers += s.chunks(facts.width) * s.vector * (s.vector > 1 ? stream.bytes : 4) / 4;
  // Of each tile of random numbers the words of a vector; a key, two products, a place.
  registers += facts.randoms * (std::max<std::int64_t>(s.vector, 4) + 8);
  const std::size_t loaded = facts.holdsColumns(s) ? 0 : facts.columns.size(); // of columns
  registers += s.vector * static_cast<std::int64_t>(1 + loaded / 2);
  if (facts.passes == 1) // all inputs of a vector are at work at once
    registers += s.vector * static_cast<std::int64_t>(facts.inputs.size());
  // A few values and results find room; more of an element wait for readers, of a vector for
  // stores.
  constexpr std::int64_t kHeld = 16, kStored = 8;
  registers += std::max(facts.waiting - kHeld, std::int64_t{0}) * 3 / 2;
  registers += s.vector * std::max(std::ssize(facts.outputs) - kStored, std::ptrdiff_t{0});
  // In long code the assembler has more at work at once than waits, and a spill is found out only
  // after seconds.
  if (facts.isLong())
    registers = registers * 3 / 2;
  // Every spill raises the estimate for all schedules alike. A large tile may spill with all the
  // registers there are: a smaller one needs fewer.
  registers = registers * (4 + facts.spills) / 4;
  return std::max<std::int64_t>(registers, std::min(facts.spilledRegisters, 127) + 1);
}

} // namespace kiln::rows
