// The schedule of a row kernel as plain numbers: what it must satisfy (Rules.cpp) and what it
// needs. Every constraint is stated once, with the message it gives; the tuner enumerates from the
// same list. No MLIR.
#pragma once

#include "codegen/model/Space.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kiln::rows {

enum class Grid { oneShot, resident };
enum class Keep { registers, shared, global, ring };
enum class Launch { plain, programmatic, olderFirst };
enum class Columns { global, shared };

/// The fewest rows of a block that are worth moving together where rows are neighbours in memory.
inline constexpr std::int64_t kTransposedRows = 8;

/// The knobs as typed values.
struct Schedule {
  /// Threads that share a row: a power of two up to 32, or a multiple of 32.
  std::int64_t lanes = 32;
  /// Neighbouring columns that a thread handles together: a power of two that divides the row
  /// width; or, where rows lie one after another, vectors of memory that overlap the ends of rows.
  std::int64_t vector = 1;
  std::int64_t rows = 1;      // that a thread works on at once
  std::int64_t threads = 128; // of a block
  std::int64_t blocks = 1;    // that must fit on a multiprocessor: limits the registers
  /// One block for each tile of rows, or as many blocks as are resident.
  Grid grid = Grid::oneShot;
  /// Where rows are kept between the passes over them: in registers, in shared memory, or nowhere
  /// (global): each pass reads them again, and only that has no limit to the width. Through a ring
  /// of `stages` tiles in shared memory they come into registers: one more warp of the block keeps
  /// it filled by bulk copies, as long as dense rows lie one after another.
  Keep keep = Keep::registers;
  /// Plain, or programmatic (the launch overlaps the end of the predecessor), and then perhaps
  /// older first: inputs known to be older than the predecessor are loaded before it has ended.
  Launch launch = Launch::programmatic;
  /// Values that all rows share (gamma) are read from global memory each time, or from a copy in
  /// shared memory that is made while the first rows are on their way. Threads whose tiles come
  /// through a ring and are of narrow rows read them from global memory once.
  Columns columns = Columns::global;
  std::int64_t stages = 0; // of the ring
  /// Blocks that share their rows, 1 or 2: of 2 each holds half of every row, so that wider rows
  /// fit into shared memory, and `lanes` are the threads of both.
  std::int64_t cluster = 1;
  bool operator==(const Schedule&) const = default;

  /// From the general form, which is of this family, and back.
  static Schedule of(const kiln::Schedule& schedule);
  kiln::Schedule general() const;

  /// Whether vectors are those of memory, which overlap the ends of rows.
  bool overlaps(std::int64_t width) const { return width % vector != 0; }
  /// A resident grid of a multiple of so many blocks gives each thread rows that all begin at the
  /// same place of such a vector. What all rows share then has one place in it too.
  std::int64_t blocksOfOneShift(std::int64_t width) const;
  /// That a row may touch, or has.
  std::int64_t vectors(std::int64_t width) const {
    return (width + (overlaps(width) ? 2 * (vector - 1) : 0)) / vector;
  }
  std::int64_t chunks(std::int64_t width) const { return (vectors(width) + lanes - 1) / lanes; }
  /// Of a block, or of the cluster whose blocks share them.
  std::int64_t rowsPerBlock() const { return threads * cluster / lanes * rows; }
  /// Whether tiles of transposed tensors pass through shared memory; else single elements are
  /// moved.
  bool transposes() const { return rowsPerBlock() >= kTransposedRows; }
  /// With the warp that keeps a ring filled.
  std::int64_t allThreads() const { return threads + (keep == Keep::ring ? 32 : 0); }
};
std::string toText(const Schedule& schedule); // "#kiln.schedule<lanes = 16, ...>"
extern const ScheduleForm scheduleForm;

/// What the choice of a schedule depends on.
struct Facts {
  struct Stream {
    int bytes = 4;                 // of an element as stored
    std::int64_t widest = 1;       // elements that alignment lets one access move, up to 16
    bool again = false;            // reads what another stream has just read
    bool older = false;            // than the predecessor of the launch
    bool repeats = false;          // has the same rows again, along a leading dimension
    std::int64_t distinctRows = 0; // of such; 0: known at run time
    bool transposed = false;       // rows are neighbours in memory, columns are not
  };
  std::int64_t width = 1;
  std::int64_t rows = -1;     // -1: known at run time only
  std::vector<Stream> inputs; // tensors read once an element
  std::vector<Stream> outputs;
  std::vector<Stream> columns;       // rows that are the same for all rows
  int rowInputs = 0, rowOutputs = 0; // values of 4 bytes, one a row
  bool packed = false; // rows of all that differs by row and column lie one after another
  bool dense = false;  // all inputs that differ by row: rows one after another, the first aligned
  bool neighbours = false; // columns 2i and 2i + 1 are read for each other
  int kept = 0;            // computed values of 4 bytes kept from one pass to the next
  int randoms = 0;         // tiles of random numbers
  int columnSums = 0, totalSums = 0;
  int columnsPass = 0;    // the first pass that reads `columns`
  int reductions = 0;     // values exchanged between lanes, all passes
  int widestExchange = 0; // values in one exchange
  int passes = 1;
  int operations = 0;       // scalar instructions an element, all passes, roughly
  int operationsAgain = 0;  // of these, what equals another, which the compiler sees
  int columnOperations = 0; // those that are the same for all rows of a thread
  int waiting = 0;          // computed values of an element that are read later, at most at once
  int exponentials = 0;     // and hyperbolic tangents, of an element
  int erfs = 0;  // error functions an element: long polynomials, counted as operations too
  int roots = 0; // and square roots: each is refined, and may have to be scaled
  int spilledRegisters = 0; // a thread: with so few the assembler spilled; 0: not known
  int spills = 0;           // schedules that did

  /// Whether it issues instructions all the time, and takes long to compile.
  bool isLong() const { return operations >= 128; }
  /// Whether rows begin between the multiples of 16 bytes, where no wide access can.
  bool hasOddRows() const;
  /// Whether they begin between the multiples of 8 bytes while something belongs to a column of all
  /// rows: where a thread reads its columns, and what they go with, there is no wide access then.
  bool hasNarrowRows() const;
  /// Whether there is anything to load ahead of the predecessor's end.
  bool hasOlder() const;
  /// Of a row, in tensors whose rows are neighbours in memory.
  std::int64_t transposedBytes() const;
  bool hasSums() const { return columnSums + totalSums > 0; }
  /// Whether anything belongs to a column of all rows.
  bool hasColumns() const { return !columns.empty() || columnSums > 0; }
  /// Whether vectors overlap the ends of rows and something belongs to a column: the rows of a
  /// thread must then all begin at the same place of a vector.
  bool isSteady(const Schedule& schedule) const { return schedule.overlaps(width) && hasColumns(); }
  /// Whether tiles that come through a ring begin and end between the multiples of 16 bytes.
  bool isLoose(const Schedule& schedule) const;
  /// Whether threads hold the columns of weights that they have in registers: where many
  /// instructions are issued for single elements, each of these would be a further one a row.
  bool holdsColumns(const Schedule& schedule) const {
    return schedule.columns == Columns::global && schedule.keep == Keep::ring &&
           (hasNarrowRows() || isLoose(schedule));
  }
  /// Whether blocks must take several tiles each.
  bool mustLoop(const Schedule& schedule) const {
    return hasSums() || schedule.keep == Keep::ring || isSteady(schedule);
  }
  /// Bytes moved for `rowCount` rows, each tensor once.
  double bytes(double rowCount) const;
};

using model::Violation;
std::vector<Violation> check(const Schedule& schedule, const Facts& facts, const Target& target);
/// The rule that check() tells first; empty: nothing is broken. Fast, for enumerating.
std::string_view brokenRule(const Schedule& schedule, const Facts& facts, const Target& target);
inline bool fits(const Schedule& schedule, const Facts& facts, const Target& target) {
  return brokenRule(schedule, facts, target).empty();
}

/// Bytes of dynamic shared memory, by use. Places are assigned by kiln-place.
std::int64_t fragmentBytes(const Schedule& schedule, std::int64_t width, int elementBytes);
std::int64_t exchangeBytes(const Schedule& schedule, int values);
std::int64_t rowStoreBytes(const Schedule& schedule, int values);
/// A stage of a ring: every input that differs by row.
std::int64_t stageBytes(const Schedule& schedule, const Facts& facts);
/// Of it, an input of so many elements a row; values of rows take 8 bytes whatever they are, and
/// are not in stages of loose tiles, which have up to 15 bytes of neighbours at either end.
std::int64_t stagePart(std::int64_t tileRows, std::int64_t elements, int elementBytes, bool loose);
std::int64_t transposedBytes(const Schedule& schedule, std::int64_t width, int elementBytes);
std::int64_t columnBytes(const Schedule& schedule, std::int64_t width, int elementBytes);
std::int64_t columnSumBytes(const Schedule& schedule, std::int64_t width);
std::int64_t sharedBytes(const Schedule& schedule, const Facts& facts);

/// Registers a thread will need, roughly; the assembler's count decides.
std::int64_t estimatedRegisters(const Schedule& schedule, const Facts& facts);

} // namespace kiln::rows
