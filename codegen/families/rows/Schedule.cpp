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
std::int64_t stagePart(std::int64_t tileRows, std::int64_t elements, int elementBytes) {
  return (tileRows * elements * elementBytes + 127) / 128 * 128;
}
std::int64_t stageBytes(const Schedule& s, const Facts& facts) {
  std::int64_t bytes = facts.rowInputs * stagePart(s.rowsPerBlock(), 1, 8);
  for (const Facts::Stream& stream : facts.inputs)
    bytes += stagePart(s.rowsPerBlock(), facts.width, stream.bytes);
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
  if (s.keep == Keep::registers || s.keep == Keep::ring) {
    for (const Facts::Stream& stream : facts.inputs)
      if (!stream.transposed || !s.transposes()) // single elements do not share registers
        registers += elements * (s.vector > 1 ? stream.bytes : 4) / 4;
    registers += elements * facts.kept;
  }
  registers += facts.columnSums * s.chunks(facts.width) * s.vector;
  // Of each tile of random numbers the words of a vector; a key, two products, a place.
  registers += facts.randoms * (std::max<std::int64_t>(s.vector, 4) + 8);
  registers += s.vector * static_cast<std::int64_t>(1 + facts.columns.size() / 2);
  if (facts.passes == 1) // all inputs of a vector are at work at once
    registers += s.vector * static_cast<std::int64_t>(facts.inputs.size());
  // A few values and results find room; more of an element wait for readers, of a vector for
  // stores.
  constexpr std::int64_t kHeld = 16, kStored = 8;
  registers += std::max(facts.waiting - kHeld, std::int64_t{0}) * 3 / 2;
  registers += s.vector * std::max(std::ssize(facts.outputs) - kStored, std::ptrdiff_t{0});
  // Every spill raises the estimate for all schedules alike. A large tile may spill with all the
  // registers there are: a smaller one needs fewer.
  registers = registers * (4 + facts.spills) / 4;
  return std::max<std::int64_t>(registers, std::min(facts.spilledRegisters, 127) + 1);
}

namespace {

/// Rules that look at one schedule; each adds what is broken, or only notes the first that is.
struct Checker {
  const Schedule& s;
  const Facts& facts;
  const Target& target;
  bool explain = true;
  std::string_view first = {}; // that is broken
  std::vector<Violation> broken = {};

  template <class... Arguments>
  void require(bool holds, const char* rule, fmt::format_string<Arguments...> text,
               Arguments&&... arguments) {
    if (holds)
      return;
    if (first.empty())
      first = rule;
    if (explain)
      broken.push_back({rule, fmt::format(text, std::forward<Arguments>(arguments)...)});
  }

  void all() {
    shape();
    transposed();
    if (!first.empty() && !explain)
      return;
    threads();
    shared();
    registers();
    code();
    combinations();
  }

  void shape() {
    require(!s.overlaps(facts.width) || (facts.packed && s.vector <= facts.width), "vector",
            "vector = {} does not divide the row width {}", s.vector, facts.width);
    require(!s.overlaps(facts.width) || s.rows == 1, "vector",
            "vector = {} does not divide the row width {}: vectors then overlap the ends of rows, "
            "which takes rows = 1, not {}",
            s.vector, facts.width, s.rows);
    if (facts.isSteady(s))
      columnsOfOverlapping();
    const std::int64_t vectors = s.vectors(facts.width);
    std::int64_t useful = std::max<std::int64_t>(32, (vectors + 31) / 32 * 32);
    require(s.lanes <= useful, "lanes",
            "lanes = {} for rows of {} vectors leaves whole warps idle; at most {} are of use",
            s.lanes, vectors, useful);
    require(s.chunks(facts.width) <= 64 || s.keep == Keep::global, "lanes",
            "each thread would hold {} vectors of a row, 64 are allowed; take more lanes, or "
            "keep = global",
            s.chunks(facts.width));
  }

  /// A column has one place in a thread's vectors only if all its rows begin at the same place.
  void columnsOfOverlapping() {
    require(s.grid == Grid::resident, "vector",
            "vector = {} does not divide the row width {}: where something belongs to a column of "
            "all rows, that takes grid = resident",
            s.vector, facts.width);
    require(facts.columns.empty() || s.columns == Columns::shared, "vector",
            "vector = {} does not divide the row width {}: values that all rows share are then "
            "read from columns = shared",
            s.vector, facts.width);
    require(facts.columnSums == 0 || s.lanes >= 32, "vector",
            "vector = {} does not divide the row width {}: sums of columns then take whole warps "
            "for a row, lanes = {} shares one",
            s.vector, facts.width, s.lanes);
  }

  /// Sectors of 32 bytes hold 8 to 16 rows of a transposed tensor: as many, if that is at most 64
  /// KB.
  void transposed() {
    const std::int64_t fit = facts.transposedBytes() > 0 ? 65536 / facts.transposedBytes() : 0;
    const std::int64_t least = std::min<std::int64_t>(16, fit);
    require(s.rowsPerBlock() >= least || least < kTransposedRows, "rows",
            "a block of {} rows: tensors whose rows are neighbours in memory take at least {}, so "
            "that whole sectors move; take fewer lanes, more rows or more threads",
            s.rowsPerBlock(), least);
  }

  void threads() {
    const std::int64_t all = s.allThreads();
    require(all <= target.threadsPerBlock, "threads", "{} threads a block asked, {} allows {}", all,
            target.arch, target.threadsPerBlock);
    require(all * s.blocks <= target.threadsPerSM, "threads",
            "{} blocks of {} threads are {} a multiprocessor, {} allows {}", s.blocks, all,
            all * s.blocks, target.arch, target.threadsPerSM);
    require(s.blocks <= target.blocksPerSM, "blocks",
            "{} blocks a multiprocessor asked, {} allows {}", s.blocks, target.arch,
            target.blocksPerSM);
  }

  void shared() {
    std::int64_t bytes = sharedBytes(s, facts);
    require(bytes <= target.sharedPerBlock, "shared memory",
            "{} bytes of shared memory asked, {} allows {} a block", bytes, target.arch,
            target.sharedPerBlock);
    std::int64_t all = s.blocks * (bytes + target.sharedReserved);
    require(all <= target.sharedPerSM, "shared memory",
            "{} blocks need {} bytes of shared memory, {} has {} a multiprocessor", s.blocks, all,
            target.arch, target.sharedPerSM);
  }

  void registers() {
    // A multiprocessor is four partitions with registers and warps of their own.
    std::int64_t warps = (s.allThreads() / 32 * s.blocks + 3) / 4;
    std::int64_t available = target.registersPerSM / 4 / (warps * 32) / 8 * 8;
    available = std::min<std::int64_t>(available, target.registersPerThread);
    std::int64_t needed = estimatedRegisters(s, facts);
    require(needed <= available, "registers",
            "about {} registers a thread needed, {} blocks of {} threads leave {} on {}", needed,
            s.blocks, s.allThreads(), available, target.arch);
  }

  /// All that a thread does is unrolled: where that is much for one element, compiling many takes
  /// seconds, and there is no memory to wait for.
  void code() {
    constexpr std::int64_t kUsual = 192, kMost = 3072;
    const std::int64_t elements = s.rows * s.chunks(facts.width) * s.vector;
    require(
        facts.operations <= kUsual || elements <= (facts.width + 1023) / 1024 ||
            elements * facts.operations <= kMost,
        "code",
        "about {} instructions for each of {} elements of a thread, {} in all are allowed where "
        "one takes more than {}; take fewer rows, a smaller vector or more lanes",
        facts.operations, elements, kMost, kUsual);
  }

  void ring() {
    require(s.grid == Grid::resident, "ring",
            "keep = ring needs grid = resident: tiles to loop over");
    require(target.has.bulkCopies, "ring", "keep = ring needs sm_90 or newer, the target is {}",
            target.arch);
    require(facts.dense, "ring",
            "keep = ring needs inputs whose rows lie one after another, aligned to 16 bytes; take "
            "keep = shared");
    for (const Facts::Stream& stream : facts.inputs) {
      const std::int64_t bytes = s.rowsPerBlock() * facts.width * stream.bytes;
      require(
          bytes % 16 == 0, "ring",
          "keep = ring moves multiples of 16 bytes: {} rows a block of {} elements are {}; take "
          "a multiple of {} rows",
          s.rowsPerBlock(), facts.width, bytes,
          16 / std::gcd<std::int64_t>(16, facts.width * stream.bytes));
    }
    require(!s.overlaps(facts.width), "ring",
            "keep = ring needs a vector that divides the row width {}, vector = {} does not",
            facts.width, s.vector);
    require(s.stages >= 2, "ring", "stages = {}: a ring has at least 2", s.stages);
  }

  void cluster() {
    require(target.maxCluster >= s.cluster, "cluster",
            "cluster = {} needs sm_90 or newer, the target is {}", s.cluster, target.arch);
    require(s.grid == Grid::oneShot, "cluster",
            "cluster = {} needs grid = one_shot: what blocks of a cluster hand to each other has "
            "room for one tile",
            s.cluster);
    require(facts.reductions > 0, "cluster",
            "cluster = {} is for rows that are reduced; these are not", s.cluster);
  }

  void combinations() {
    if (s.keep == Keep::ring)
      ring();
    if (s.cluster > 1)
      cluster();
    require(s.launch != Launch::olderFirst || facts.hasOlder(), "launch",
            "launch = older_first needs an input that is known to be older than the predecessor; "
            "mark the argument with kiln.older if it is");
    require(s.launch != Launch::olderFirst || s.grid == Grid::oneShot || s.keep == Keep::ring,
            "launch", "launch = older_first needs grid = one_shot or keep = ring");
    require(!facts.hasSums() || s.grid == Grid::resident, "grid",
            "column sums need grid = resident: each block writes one line of partial sums");
    bool stageable = !facts.columns.empty() &&
                     (facts.columnsPass > 0 || facts.hasSums() || s.overlaps(facts.width));
    require(s.columns == Columns::global || stageable, "columns",
            "columns = shared needs values that all rows share, and time to copy them: a row "
            "reduction before their first use, or a loop over tiles");
    require(s.launch == Launch::plain || target.has.programmaticLaunch, "launch",
            "launch = programmatic needs sm_90 or newer, the target is {}", target.arch);
  }
};

} // namespace

std::vector<Violation> check(const Schedule& schedule, const Facts& facts, const Target& target) {
  Checker checker{schedule, facts, target};
  checker.all();
  return std::move(checker.broken);
}

std::string_view brokenRule(const Schedule& schedule, const Facts& facts, const Target& target) {
  Checker checker{schedule, facts, target, false};
  checker.all();
  return checker.first;
}

} // namespace kiln::rows
