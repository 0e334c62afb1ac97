// The schedule of a kernel over lists of tensors: what it must satisfy, and the default. A block
// works on chunks of the tensors; `lanes` = `threads` threads share a chunk, each moves `vector`
// elements at a time, and the block takes `rows` chunks one after another.
#pragma once

#include "codegen/rows/Schedule.h"

namespace kiln::segments {

using rows::Schedule;
using rows::Violation;

/// Elements of a chunk. The table is built for it, so it is the same for all kernels of a program.
inline constexpr std::int64_t chunkElements = 1024;

/// What the choice depends on: the lists that a kernel moves.
struct Facts {
  int inputs = 0, outputs = 0;         // lists read and written
  int widestBytes = 4;                 // of an element of any of them
  int bytesRead = 0, bytesWritten = 0; // an element, all of them together
  int spilledRegisters = 0;            // a thread: with so few the assembler spilled; 0: not known
  int spills = 0;                      // schedules that did
};

std::vector<Violation> check(const Schedule& schedule, const Facts& facts, const Target& target);

/// Registers a thread will need, roughly; the assembler's count decides.
int estimatedRegisters(const Facts& facts);

/// One 16-byte vector a thread of the widest list, and as many resident threads as registers
/// allow. A kernel that only sums takes several chunks a block, so that partial sums stay few.
/// Throws Error(infeasible) where the assembler spilled with all registers that there are.
Schedule defaultSchedule(const Facts& facts, const Target& target);

} // namespace kiln::segments
