// The microseconds that a kernel should take. Costs (Cost.h) tell the schedules of one kernel from
// each other; how much of a cost all of them share is nothing that a search can see. So the level
// comes from the work that the kernel has whatever its schedule, which its cheapest one does about
// as fast as the machine can, and the others take as much longer as they cost more.
#pragma once

#include "codegen/backend/Target.h"
#include "codegen/model/CostConstants.h"

#include <array>

namespace kiln::model {

/// What a kernel must do, by any schedule.
struct Work {
  double bytesRead = 0, bytesWritten = 0;                  // of tensors
  double bytesAgain = 0;                                   // that caches have
  double rowValueBytes = 0;                                // values of rows, read and written
  double operations = 0, erfs = 0, roots = 0, randoms = 0; // of all elements; the first has all
  double chain = 0;                                        // operations of one element
  double oddRows = 0;        // of tensors, that begin between the multiples of 16 bytes
  bool hasRowsApart = false; // of a tensor, between which others lie
  bool hasWholeRows = false; // each of one block
  bool hasSums = false;      // down columns, or of everything: a second kernel
  double summed = 0;         // columns of them, together
  double rows = 0;           // which blocks share
  bool readsAhead = false;   // of the end of the kernel before
  bool prefetches = false;   // to the cache, ahead of that end
  std::array<double, 3> matrixOperations = {}; // of tensor cores, by MatrixType
  double exponentials = 0;                     // and hyperbolic tangents, which take as long
  // Of products by tensor cores, whole tiles of them: multiply-adds, elements that threads work on
  // (one with the work of a softmax), and tiles that begin and end.
  double multiplyAdds = 0, tileElements = 0, tiles = 0;
};

/// us of a part's special-function units at their nominal rate.
double exponentialsOf(const Work& work, const Target& target);

/// us by the cheapest schedule.
double cheapestMicroseconds(const Work& work, const Target& target,
                            const CostConstants& k = kCostConstants);

/// How many times as long a schedule takes that costs `ratio` times as much as the cheapest. Rises
/// with it: what ranks costs ranks times.
double slowdown(double ratio, const CostConstants& k = kCostConstants);

} // namespace kiln::model
