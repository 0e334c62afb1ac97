// See FusionGraph.h.
#include "codegen/passes/FusionGraph.h"

using namespace mlir;

namespace kiln::passes {

/// The values that `op` reads that no free operation makes, in the order in which they are found.
static SmallVector<Value, 2> readsOf(Operation* op) {
  llvm::SetVector<Value> reads;
  llvm::DenseSet<Operation*> seen;
  SmallVector<Value> work(llvm::reverse(op->getOperands()));
  while (!work.empty()) {
    Value value = work.pop_back_val();
    Operation* from = value.getDefiningOp();
    if (!from || !isRematerializable(from))
      reads.insert(value);
    else if (seen.insert(from).second)
      llvm::append_range(work, llvm::reverse(from->getOperands()));
  }
  return SmallVector<Value, 2>(reads.begin(), reads.end());
}

FusionGraph::FusionGraph(Block& block, std::list<Group>& groups) : groups_(groups) {
  for (Group& group : groups) {
    for (Operation* op : group)
      nodes_[op] = groupOfNode_.size();
    groupOfNode_.push_back(&group);
  }
  for (Operation& op : block.without_terminator())
    if (isa<ir::KernelOp>(op)) {
      nodes_[&op] = groupOfNode_.size();
      groupOfNode_.push_back(nullptr);
    }
  connect(block);
}

void FusionGraph::connect(Block& block) {
  const unsigned count = groupOfNode_.size();
  next_.assign(count, llvm::BitVector(count));
  after_.assign(count, llvm::BitVector(count));
  for (Operation& op : block.without_terminator()) {
    if (!nodes_.contains(&op))
      continue;
    for (Value value : reads_[&op] = readsOf(&op))
      if (Operation* maker = value.getDefiningOp(); maker && nodeOf(maker) != nodeOf(&op))
        next_[nodeOf(maker)].set(nodeOf(&op));
  }
  // Groups are convex, so those that nothing unfinished reads are never used up.
  std::vector<unsigned> readers(count, 0), ready;
  std::vector<llvm::SmallVector<unsigned, 2>> makers(count);
  for (unsigned node = 0; node < count; ++node) {
    readers[node] = next_[node].count();
    for (unsigned reader : next_[node].set_bits())
      makers[reader].push_back(node);
    if (readers[node] == 0)
      ready.push_back(node);
  }
  while (!ready.empty()) {
    unsigned node = ready.back();
    ready.pop_back();
    for (unsigned maker : makers[node]) {
      after_[maker].set(node);
      after_[maker] |= after_[node];
      if (--readers[maker] == 0)
        ready.push_back(maker);
    }
  }
}

Group* FusionGraph::groupOf(Operation* op) const {
  auto found = nodes_.find(op);
  return found == nodes_.end() ? nullptr : groupOfNode_[found->second];
}

/// Whether a path from one to the other leads through a third.
bool FusionGraph::comesBack(unsigned from, unsigned to) const {
  if (!after_[from].test(to))
    return false;
  return llvm::any_of(next_[from].set_bits(),
                      [&](unsigned between) { return between != to && after_[between].test(to); });
}

bool FusionGraph::mayMerge(const Group* a, const Group* b) const {
  const unsigned first = nodeOf(a->front()), second = nodeOf(b->front());
  return !comesBack(first, second) && !comesBack(second, first);
}

void FusionGraph::merge(Group* a, Group* b) {
  const unsigned kept = nodeOf(a->front()), gone = nodeOf(b->front());
  for (Operation* op : *b)
    nodes_[op] = kept;
  a->insert(b->begin(), b->end());
  for (auto* relation : {&next_, &after_}) {
    (*relation)[kept] |= (*relation)[gone];
    (*relation)[kept].reset(kept);
    (*relation)[kept].reset(gone);
    (*relation)[gone].reset();
  }
  for (unsigned node = 0; node < next_.size(); ++node) {
    if (next_[node].test(gone)) {
      next_[node].reset(gone);
      next_[node].set(kept);
    }
    if (!after_[node].test(gone) && !after_[node].test(kept))
      continue;
    after_[node].reset(gone);
    after_[node].set(kept);
    after_[node] |= after_[kept];
  }
  groupOfNode_[gone] = nullptr;
  groups_.remove_if([&](const Group& group) { return &group == b; });
}

} // namespace kiln::passes
