// The schedule of a row kernel as plain numbers: what it must satisfy and what it needs.
// Every constraint is stated once, here, with the message it gives; the tuner enumerates from
// the same list. No MLIR.
#pragma once

#include "codegen/backend/Target.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kiln::rows {

enum class Grid { oneShot, resident };
enum class Keep { registers, shared, global, ring };
enum class Launch { plain, programmatic, olderFirst };
enum class Columns { global, shared };

/// The fewest rows of a block that are worth moving together where rows are neighbours in memory.
inline constexpr std::int64_t kTurnedRows = 8;

/// See #kiln.schedule for the meaning of each knob.
struct Schedule {
  std::int64_t lanes = 32, vector = 1, rows = 1, threads = 128, blocks = 1;
  Grid grid = Grid::oneShot;
  Keep keep = Keep::registers;
  Launch launch = Launch::programmatic;
  Columns columns = Columns::global;
  std::int64_t stages = 0;  // of the ring
  std::int64_t cluster = 1; // blocks that share their rows
  bool operator==(const Schedule&) const = default;

  /// Whether vectors are those of memory, which overlap the ends of rows.
  bool overlaps(std::int64_t width) const { return width % vector != 0; }
  std::int64_t chunks(std::int64_t width) const {
    const std::int64_t span = width + (overlaps(width) ? vector - 1 : 0);
    return (span + lanes * vector - 1) / (lanes * vector);
  }
  /// Of a block, or of the cluster whose blocks share them.
  std::int64_t rowsPerBlock() const { return threads * cluster / lanes * rows; }
  /// Whether tiles of turned tensors pass through shared memory; else single elements are moved.
  bool turns() const { return rowsPerBlock() >= kTurnedRows; }
  /// With the warp that keeps a ring filled.
  std::int64_t allThreads() const { return threads + (keep == Keep::ring ? 32 : 0); }
};
std::string toText(const Schedule& schedule); // "#kiln.schedule<lanes = 16, ...>"

/// What the choice of a schedule depends on.
struct Facts {
  struct Stream {
    int bytes = 4;           // of an element as stored
    std::int64_t widest = 1; // elements that alignment lets one access move, up to 16
    bool again = false;      // reads what another stream has just read
    bool older = false;      // than the predecessor of the launch
    bool turned = false;     // rows are neighbours in memory, columns are not
  };
  std::int64_t width = 1;
  std::int64_t rows = -1;     // -1: known at run time only
  std::vector<Stream> inputs; // tensors read once an element
  std::vector<Stream> outputs;
  std::vector<Stream> columns;       // rows that are the same for all rows
  int rowInputs = 0, rowOutputs = 0; // values of 4 bytes, one a row
  bool packed = false; // rows of all that is full lie one after another, and nothing is by column
  bool dense = false;  // all inputs that differ by row: rows one after another, the first aligned
  int kept = 0;        // computed values of 4 bytes kept from one pass to the next
  int randoms = 0;     // tiles of random numbers
  int columnSums = 0, totalSums = 0;
  int columnsPass = 0;    // the first pass that reads `columns`
  int reductions = 0;     // values exchanged between lanes, all passes
  int widestExchange = 0; // values in one exchange
  int passes = 1;
  int operations = 0;       // scalar instructions an element, all passes, roughly
  int columnOperations = 0; // those that are the same for all rows of a thread
  int waiting = 0;          // computed values of an element that are read later, at most at once
  int erfs = 0; // error functions an element: long polynomials, counted as operations too
  int spilledRegisters = 0; // a thread: with so few the assembler spilled; 0: not known
  int spills = 0;           // schedules that did

  /// Whether rows begin between the multiples of 16 bytes, where no wide access can.
  bool hasOddRows() const;
  /// Whether there is anything to load ahead of the predecessor's end.
  bool hasOlder() const;
  /// Of a row, in tensors whose rows are neighbours in memory.
  std::int64_t turnedBytes() const;
  bool hasSums() const { return columnSums + totalSums > 0; }
  /// Bytes moved for `rowCount` rows, each tensor once.
  double bytes(double rowCount) const;
};

/// One broken rule: the knob, what was asked, what is allowed.
struct Violation {
  std::string rule;    // "shared memory", "registers", ...: groups the histogram of `plan`
  std::string message; // with the numbers
};
std::vector<Violation> check(const Schedule& schedule, const Facts& facts, const Target& target);
/// Whether nothing is broken; fast, for enumerating.
bool fits(const Schedule& schedule, const Facts& facts, const Target& target);

/// The schedule to run without tuning: the one predicted to be fastest. Throws Error(infeasible)
/// with the reasons if there is none. Defined in autotune/, which knows what schedules cost;
/// declared here, where it is asked.
Schedule defaultSchedule(const Facts& facts, const Target& target);
/// Whether there is one. Defined there too.
bool anyFits(const Facts& facts, const Target& target);

/// Bytes of dynamic shared memory, by use. Places are assigned by kiln-place.
std::int64_t fragmentBytes(const Schedule& schedule, std::int64_t width, int elementBytes);
std::int64_t exchangeBytes(const Schedule& schedule, int values);
std::int64_t rowStoreBytes(const Schedule& schedule, int values);
/// A stage of a ring: every input that differs by row.
std::int64_t stageBytes(const Schedule& schedule, const Facts& facts);
/// Of it, an input of so many elements a row; values of rows take 8 bytes whatever they are.
std::int64_t stagePart(std::int64_t tileRows, std::int64_t elements, int elementBytes);
std::int64_t turnedBytes(const Schedule& schedule, std::int64_t width, int elementBytes);
std::int64_t columnBytes(const Schedule& schedule, std::int64_t width, int elementBytes);
std::int64_t columnSumBytes(const Schedule& schedule, std::int64_t width);
std::int64_t sharedBytes(const Schedule& schedule, const Facts& facts);

/// Registers a thread will need, roughly; the assembler's count decides.
std::int64_t estimatedRegisters(const Schedule& schedule, const Facts& facts);

} // namespace kiln::rows
