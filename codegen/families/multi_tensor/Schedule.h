// The schedule of a kernel over lists of tensors: its knobs, what it must satisfy, and the default.
// A block works on chunks of the tensors: all its threads share a chunk, each moves `vector`
// elements at a time, and the block takes `chunks` of them one after another. Of several parts,
// `vector` is that of the part with the widest elements; the others move as many bytes.
#pragma once

#include "codegen/families/rows/Schedule.h"

#include <map>

namespace kiln::multi_tensor {

using rows::Launch;
using rows::Violation;

/// The knobs as typed values.
struct Schedule {
  std::int64_t vector = 1;
  std::int64_t chunks = 1;
  std::int64_t threads = 128; // of a block
  std::int64_t blocks = 1;    // that must fit on a multiprocessor: limits the registers
  Launch launch = Launch::programmatic;
  bool operator==(const Schedule&) const = default;

  /// From the general form, which is of this family, and back.
  static Schedule of(const kiln::Schedule& schedule);
  kiln::Schedule general() const;
};
extern const ScheduleForm scheduleForm;

/// Elements of a chunk. The table is built for it, so it is the same for all kernels of a program.
inline constexpr std::int64_t chunkElements = 1024;

/// What the choice depends on: the lists that a kernel moves.
struct Facts {
  int inputs = 0, outputs = 0;         // lists read and written: of the part with most of both
  int widestBytes = 4;                 // of an element of any of them
  int bytesRead = 0, bytesWritten = 0; // an element, all of them together
  int mostRead = 0;                    // an element, of the part that reads most
  int parts = 1;                       // whose blocks work side by side
  int narrowestBytes = 4;              // the widest element of the part where that is least
  int spilledRegisters = 0;            // a thread: with so few the assembler spilled; 0: not known
  int spills = 0;                      // schedules that did
  bool hasSums = false;
};

std::vector<Violation> check(const Schedule& schedule, const Facts& facts, const Target& target);

/// What a kernel of several parts asks for, each as if it were alone; registers are those of one
/// part, for a block works on one.
Facts together(const std::map<int, Facts>& parts);

/// Elements that a thread of a part moves at a time whose widest has so many bytes.
inline std::int64_t vectorOf(std::int64_t vector, const Facts& facts, int widestBytes) {
  return vector * facts.widestBytes / widestBytes;
}

/// Kernels that only take sums have the blocks that fit, which share all chunks.
inline bool isResident(const Facts& facts) {
  return facts.hasSums && facts.bytesWritten == 0;
}

/// Chunks whose loads are on their way together.
inline std::int64_t loadsTogether(const Schedule& schedule, const Facts& facts) {
  return isResident(facts) ? schedule.chunks : 1;
}

/// Chunks that a block looks up at a time; 0: it has one.
inline std::int64_t lookedUp(const Schedule& schedule, const Facts& facts) {
  if (isResident(facts))
    return std::min<std::int64_t>(64, schedule.threads) / schedule.chunks * schedule.chunks;
  return schedule.chunks > 1 ? schedule.chunks : 0;
}

/// Registers a thread will need, roughly; the assembler's count decides.
int estimatedRegisters(const Schedule& schedule, const Facts& facts);

/// One 16-byte vector a thread of the widest list, and as many resident threads as registers
/// allow. Kernels that only take sums load two chunks ahead, which leaves room for more threads: on
/// an H200 100 MiB take 28.3 us, with four chunks 29.8. Those that store, too, have several chunks
/// a block, so that partial sums stay few. Throws Error(infeasible) where the assembler spilled
/// with all registers that there are.
Schedule defaultSchedule(const Facts& facts, const Target& target);

} // namespace kiln::multi_tensor
