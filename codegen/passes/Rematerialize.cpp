// See Rematerialize.h. A value is weighed with the elementwise operations of its own kernel that it
// comes from, up to values that are broadcast, reduced or read from memory. All its readers compute
// it again, or none does.
#include "codegen/passes/Rematerialize.h"

#include "codegen/family/Buffers.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace kiln::passes {
namespace {

constexpr size_t kMostAgain = 16; // that are computed again for one value

/// How a value comes from others: the operations in order, and what they read.
struct Cone {
  SmallVector<Operation*> operations;
  llvm::SetVector<Value> leaves;
};

class Rematerializer {
 public:
  Rematerializer(std::list<Group>& groups,
                 llvm::function_ref<std::string(const Group&)> reasonAgainst)
      : groups(groups), reasonAgainst(reasonAgainst) {
    for (Group& group : groups)
      for (Operation* op : group)
        groupOf[op] = &group;
  }

  void run() {
    SmallVector<Operation*> all;
    for (Group& group : groups)
      llvm::append_range(all, group);
    llvm::sort(all, [](Operation* a, Operation* b) { return a->isBeforeInBlock(b); });
    SmallVector<Operation*> replaced;
    for (Operation* op : all)
      if (isPlainElementwise(op) && consider(op))
        replaced.push_back(op);
    for (Operation* op : llvm::reverse(replaced)) // those first that others are for
      eraseIfUnused(op);
    groups.remove_if([](const Group& group) { return group.empty(); });
  }

 private:
  /// Whether all other kernels that read it compute it again.
  bool consider(Operation* op) {
    Value value = op->getResult(0);
    llvm::SetVector<Group*> readers;
    bool isStored = false; // whoever else reads it
    eachUser(value, [&](Operation* user) {
      Group* group = groupOf.lookup(user);
      isStored |= !group;
      if (group && group != groupOf.lookup(op))
        readers.insert(group);
    });
    if (readers.empty())
      return false;
    const Cone cone = coneOf(op);
    if (cone.operations.size() > kMostAgain)
      return false;
    double more = 0.0;
    for (Group* reader : readers)
      more += bytesToRead(cone, *reader);
    const double stores = isStored ? 0.0 : 1.0, loads = static_cast<double>(readers.size());
    return more < family::bytesOf(value) * (stores + loads) && computeAgain(op, cone, readers);
  }

  Cone coneOf(Operation* last) {
    Cone cone;
    llvm::DenseSet<Operation*> seen;
    follow(last->getResult(0), groupOf.lookup(last), seen, cone);
    return cone;
  }
  /// What a free operation reads is left as it is: its copies read it too.
  void follow(Value value, const Group* own, llvm::DenseSet<Operation*>& seen, Cone& cone) {
    Operation* op = value.getDefiningOp();
    const bool isCopied = op && isRematerializable(op);
    const bool isAgain =
        own && op && !isCopied && groupOf.lookup(op) == own && isPlainElementwise(op);
    if (!isCopied && !isAgain) {
      cone.leaves.insert(value);
      return;
    }
    if (!seen.insert(op).second)
      return;
    for (Value operand : op->getOperands())
      follow(operand, isCopied ? nullptr : own, seen, cone);
    if (isAgain)
      cone.operations.push_back(op);
  }

  /// More than the reader reads anyway; what nobody has stored yet is written as well.
  double bytesToRead(const Cone& cone, const Group& reader) {
    double bytes = 0.0;
    for (Value leaf : cone.leaves) {
      Operation* maker = leaf.getDefiningOp();
      const Group* own = maker ? groupOf.lookup(maker) : nullptr;
      bool isRead = own == &reader, isStored = !own;
      eachUser(leaf, [&](Operation* user) {
        isRead |= reader.contains(user);
        isStored |= groupOf.lookup(user) != own;
      });
      bytes += isRead ? 0.0 : family::bytesOf(leaf) * (isStored ? 1.0 : 2.0);
    }
    return bytes;
  }

  /// False, and nothing has changed, if one of the readers would no longer be one kernel, or one
  /// that makes what they read now, and has to store it.
  bool computeAgain(Operation* op, const Cone& cone, const llvm::SetVector<Group*>& readers) {
    Value value = op->getResult(0);
    llvm::SetVector<Group*> changed = readers;
    for (Value leaf : cone.leaves)
      if (Group* maker = groupOf.lookup(leaf.getDefiningOp()))
        changed.insert(maker);
    SmallVector<std::pair<Group*, Operation*>> made;
    SmallVector<std::pair<Group*, IRMapping>> maps;
    for (Group* reader : readers) {
      IRMapping map = copies[reader];
      for (Operation* from : cone.operations) {
        if (map.contains(from->getResult(0)))
          continue;
        OpBuilder builder(op->getContext());
        builder.setInsertionPointAfter(made.empty() ? op : made.back().second);
        made.push_back({reader, builder.clone(*from, map)});
        reader->insert(made.back().second);
        groupOf[made.back().second] = reader;
      }
      replaceIn(*reader, value, map.lookup(value));
      maps.push_back({reader, std::move(map)});
    }
    if (llvm::all_of(changed, [&](Group* group) { return reasonAgainst(*group).empty(); })) {
      for (auto& [reader, map] : maps)
        copies[reader] = std::move(map);
      return true;
    }
    for (auto& [reader, map] : maps)
      map.lookup(value).replaceAllUsesWith(value);
    for (auto& [reader, copy] : llvm::reverse(made)) {
      reader->remove(copy);
      groupOf.erase(copy);
      copy->erase();
    }
    return false;
  }

  /// In a group, which has its own copies of free operations, too.
  void replaceIn(const Group& reader, Value value, Value copy) {
    const llvm::SetVector<Operation*> users(value.user_begin(), value.user_end());
    for (Operation* user : users) {
      if (reader.contains(user))
        user->replaceUsesOfWith(value, copy);
      if (reader.contains(user) || !isRematerializable(user))
        continue;
      OpBuilder builder(user->getContext());
      builder.setInsertionPointAfter(user);
      IRMapping map;
      map.map(value, copy);
      Operation* own = builder.clone(*user, map);
      replaceIn(reader, user->getResult(0), own->getResult(0));
      for (Operation* free : {user, own})
        if (free->use_empty())
          free->erase();
    }
  }

  /// And what only it has read.
  void eraseIfUnused(Operation* op) {
    Group* group = groupOf.lookup(op);
    if (!group || !op->use_empty())
      return;
    llvm::SetVector<Operation*> makers;
    for (Value operand : op->getOperands())
      if (Operation* maker = operand.getDefiningOp(); maker && isPlainElementwise(maker))
        makers.insert(maker);
    group->remove(op);
    groupOf.erase(op);
    op->erase();
    for (Operation* maker : makers) // one may be gone with another, and has no group then
      eraseIfUnused(maker);
  }

  std::list<Group>& groups;
  llvm::function_ref<std::string(const Group&)> reasonAgainst;
  llvm::DenseMap<Operation*, Group*> groupOf;
  llvm::DenseMap<Group*, IRMapping> copies; // of what a group computes again
};

} // namespace

void rematerialize(std::list<Group>& groups,
                   llvm::function_ref<std::string(const Group&)> reasonAgainst) {
  if (groups.size() > 1)
    Rematerializer(groups, reasonAgainst).run();
}

} // namespace kiln::passes
