// The rules of schedules of the row family, each with the message it gives; see Schedule.h. They
// say what cannot run or is not compiled in reasonable time. What is only slow is a matter of
// cost/.
#include "codegen/families/rows/Schedule.h"

#include <algorithm>

#include <fmt/format.h>

namespace kiln::rows {

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
    for (auto rules : {&Checker::shape, &Checker::transposed, &Checker::threads, &Checker::shared,
                       &Checker::registers, &Checker::code, &Checker::combinations}) {
      (this->*rules)();
      if (!first.empty() && !explain)
        return;
    }
  }

  void shape() {
    require(!s.overlaps(facts.width) || (facts.packed && s.vector <= facts.width), "vector",
            "vector = {} does not divide the row width {}", s.vector, facts.width);
    require(!s.overlaps(facts.width) || s.rows == 1, "vector",
            "vector = {} does not divide the row width {}: vectors then overlap the ends of rows, "
            "which takes rows = 1, not {}",
            s.vector, facts.width, s.rows);
    // Who writes a result where it reads an operand counts on it (runtime/fuse).
    require(s.vector > 1 || !facts.neighbours || facts.width % 2 != 0, "vector",
            "vector = 1: columns that are read for each other belong to one thread where rows of "
            "{} let them; take 2 or more",
            facts.width);
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
    require(facts.columns.empty() || s.columns == Columns::shared || s.keep == Keep::ring, "vector",
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

  /// All that a thread does is unrolled: beyond this much, compiling takes seconds and a
  /// multiprocessor's instruction cache is too small. Where much is done for one element, there is
  /// no memory to wait for either.
  void code() {
    constexpr std::int64_t kUsual = 192, kMost = 8192, kMostOfLong = 3072;
    const bool isLong = facts.operations > kUsual;
    const std::int64_t elements = s.rows * s.chunks(facts.width) * s.vector;
    const std::int64_t most = isLong ? kMostOfLong : kMost;
    require(elements <= (facts.width + 1023) / 1024 || elements * facts.operations <= most, "code",
            "about {} instructions for each of {} elements of a thread, {} in all are allowed{}; "
            "take fewer rows, a smaller vector or more lanes",
            facts.operations, elements, most,
            isLong ? fmt::format(" where one takes more than {}", kUsual) : "");
  }

  void ring() {
    require(s.grid == Grid::resident, "ring",
            "keep = ring needs grid = resident: tiles to loop over");
    require(target.has.bulkCopies, "ring", "keep = ring needs sm_90 or newer, the target is {}",
            target.arch);
    require(facts.dense, "ring",
            "keep = ring needs inputs whose rows lie one after another, aligned to 16 bytes; take "
            "keep = shared");
    if (s.overlaps(facts.width))
      ringOfOverlapping();
    require(s.stages >= 2, "ring", "stages = {}: a ring has at least 2", s.stages);
  }

  /// Vectors of memory are read where they lie in 16 bytes that came whole.
  void ringOfOverlapping() {
    require(facts.isSteady(s), "ring",
            "keep = ring needs a vector that divides the row width {}, vector = {} does not; where "
            "something belongs to a column of all rows, it may overlap the ends of rows",
            facts.width, s.vector);
    for (const Facts::Stream& stream : facts.inputs)
      require(s.vector * stream.bytes <= 16, "ring",
              "keep = ring has vectors that overlap the ends of rows of at most 16 bytes: vector = "
              "{} of {} bytes each is {}",
              s.vector, stream.bytes, s.vector * stream.bytes);
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
