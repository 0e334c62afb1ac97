// See FusionRuns.h. Neighbours in the text are convex: nothing that is made behind a run leads into
// it. A group that is there already may reach from before a run to behind it, and would then wait
// for itself, so operations between those of one group stay alone.
#include "codegen/passes/FusionRuns.h"

using namespace mlir;

namespace kiln::passes {
namespace {

constexpr size_t kMostGroups = 256;
constexpr size_t kLongestRun = 32; // small beside what a kernel takes, which it then fills well

class Runs {
 public:
  Runs(Block& block, std::list<Group>& groups,
       llvm::function_ref<std::string(const Group&)> reasonAgainst)
      : block(block), groups(groups), reasonAgainst(reasonAgainst),
        length(std::min(kLongestRun, llvm::divideCeil(groups.size(), kMostGroups))) {}

  void run() {
    if (length < 2)
      return;
    findAlone();
    SmallVector<Operation*> run;
    for (Operation& op : block.without_terminator()) {
      if (isRematerializable(&op))
        continue;
      const bool joins = alone.contains(&op);
      if (!run.empty() && (!joins || run.size() == length || !areAlike(run.back(), &op))) {
        add(run);
        run.clear();
      }
      if (joins)
        run.push_back(&op);
    }
    add(run);
    groups.remove_if([&](const Group& group) { return inRuns.contains(group.front()); });
    groups.splice(groups.begin(), made);
  }

 private:
  /// Elementwise operations that no group of several reaches around.
  void findAlone() {
    for (const Group& group : groups)
      if (group.size() == 1 && isPlainElementwise(group.front()))
        alone.insert(group.front());
    for (const Group& group : groups) {
      if (group.size() == 1)
        continue;
      Operation *first = group.front(), *last = group.front();
      for (Operation* op : group) {
        first = op->isBeforeInBlock(first) ? op : first;
        last = last->isBeforeInBlock(op) ? op : last;
      }
      for (Operation* op = first; op != last; op = op->getNextNode())
        alone.erase(op);
    }
  }

  static bool areAlike(Operation* a, Operation* b) {
    return ir::tensorType(a->getResult(0)).getShape() == ir::tensorType(b->getResult(0)).getShape();
  }

  void add(ArrayRef<Operation*> run) {
    if (run.size() < 2)
      return;
    Group group;
    group.insert(run.begin(), run.end());
    if (reasonAgainst(group).empty()) {
      inRuns.insert(run.begin(), run.end());
      made.push_back(std::move(group));
      return;
    }
    add(run.take_front(run.size() / 2));
    add(run.drop_front(run.size() / 2));
  }

  Block& block;
  std::list<Group>&groups, made;
  llvm::function_ref<std::string(const Group&)> reasonAgainst;
  const size_t length;
  llvm::DenseSet<Operation*> alone, inRuns;
};

} // namespace

void beginWithRuns(Block& block, std::list<Group>& groups,
                   llvm::function_ref<std::string(const Group&)> reasonAgainst) {
  Runs(block, groups, reasonAgainst).run();
}

} // namespace kiln::passes
