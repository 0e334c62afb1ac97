// See Flow.h.
#include "runtime/compile/Flow.h"

#include <algorithm>

namespace kiln::compiled {

Flow::Flow(const Tape& tape, const std::vector<bool>& dead, const Reads& reads)
    : tape(tape), makers(tape.values.size(), -1), readers(tape.values.size()) {
  for (unsigned i = 0; i < tape.ops.size(); ++i) {
    const auto make = [&](Slot slot) {
      makers[static_cast<std::size_t>(slot)] = static_cast<int>(i);
    };
    const auto read = [&](Slot slot) { readers[static_cast<std::size_t>(slot)].push_back(i); };
    Tape::forEach(tape.ops[i].results, make);
    if (const auto other = reads.find(i); other != reads.end())
      std::for_each(other->second.begin(), other->second.end(), read);
    else if (!dead[i])
      Tape::forEach(tape.ops[i].arguments, read);
  }
  Tape::forEach(tape.results, [&](Slot slot) { results.insert(slot); });
}

/// Where a reader copies what does not lie as it wants, no other operation may write into the copy.
bool Flow::isAnyLayoutTo(unsigned reader) const {
  const Op& op = tape.ops[reader];
  if (op.is({"aten::linear", "aten::matmul", "aten::mm", "aten::bmm", "aten::einsum"}))
    return true;
  if (op.is({"aten::transpose", "aten::permute", "aten::mT", "aten::swapaxes", "aten::movedim",
             "aten::unsqueeze"}))
    return isAnyLayout(op.result());
  if (!op.is({"aten::contiguous", "aten::reshape", "aten::flatten"}))
    return false;
  const Slot copy = op.result();
  const auto& its = readersOf(copy);
  return !tape.value(copy).isWrittenInPlace && !isResult(copy) &&
         std::none_of(its.begin(), its.end(),
                      [&](unsigned next) { return tape.ops[next].oldSlot == copy; });
}

bool Flow::isAnyLayout(Slot slot) const {
  const auto& its = readersOf(slot);
  return !isResult(slot) && std::all_of(its.begin(), its.end(),
                                        [&](unsigned reader) { return isAnyLayoutTo(reader); });
}

namespace {

bool isProduct(const Op& op) {
  return op.is(
      {"aten::matmul", "aten::mm", "aten::bmm", "aten::baddbmm", "aten::addmm", "aten::einsum"});
}

} // namespace

bool Flow::comesOfProduct(Slot slot, int steps) const {
  const int maker = makerOf(slot);
  if (maker < 0 || steps == 0)
    return false;
  const Op& op = tape.ops[static_cast<std::size_t>(maker)];
  bool comes = isProduct(op);
  if (!comes)
    Tape::forEach(op.arguments, [&](Slot of) { comes = comes || comesOfProduct(of, steps - 1); });
  return comes;
}

bool Flow::goesIntoProduct(Slot slot, int steps) const {
  const auto goes = [&](unsigned reader) {
    const Op& op = tape.ops[reader];
    bool into = isProduct(op);
    if (!into && steps > 0)
      Tape::forEach(op.results, [&](Slot of) { into = into || goesIntoProduct(of, steps - 1); });
    return into;
  };
  return std::any_of(readersOf(slot).begin(), readersOf(slot).end(), goes);
}

} // namespace kiln::compiled
