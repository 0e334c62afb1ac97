// Who makes and who reads what on a tape.
#pragma once

#include "runtime/compile/Tape.h"

#include <set>

namespace kiln::compiled {

class Flow {
 public:
  /// `dead`: operations that do not count. `reads`: of operations that read something else.
  Flow(const Tape& tape, const std::vector<bool>& dead, const Reads& reads = {});

  int makerOf(Slot slot) const { return makers[static_cast<std::size_t>(slot)]; } // below 0: none
  const std::vector<unsigned>& readersOf(Slot slot) const {
    return readers[static_cast<std::size_t>(slot)];
  }
  bool isResult(Slot slot) const { return results.contains(slot); }
  bool isReadOnce(Slot slot) const { return readersOf(slot).size() == 1 && !isResult(slot); }
  /// Whether all that read a tensor take it however it lies in memory.
  bool isAnyLayout(Slot slot) const;
  /// Whether a tensor comes of a product, or goes into one, in a few steps of whatever kind.
  bool comesOfProduct(Slot slot, int steps) const;
  bool goesIntoProduct(Slot slot, int steps) const;

  const std::set<Slot>& allResults() const { return results; }

 private:
  bool isAnyLayoutTo(unsigned reader) const;

  const Tape& tape;
  std::vector<int> makers;
  std::vector<std::vector<unsigned>> readers;
  std::set<Slot> results;
};

} // namespace kiln::compiled
