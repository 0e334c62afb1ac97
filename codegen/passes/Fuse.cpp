// kiln-fuse: merges operations into kernels, greedily by the bytes that a merge saves.
// A merge is legal if no value leaves the group and comes back, and if the family can analyse
// the merged group, and crosses no cut that the text asks for. What must be one kernel is merged
// first. Free operations (constants, broadcasts, random numbers) belong to nobody: each kernel gets
// its own copy.
#include "codegen/family/FusionPreparation.h"
#include "codegen/passes/FunctionPlan.h"
#include "codegen/passes/FusionGraph.h"
#include "codegen/passes/FusionRuns.h"
#include "codegen/passes/Rematerialize.h"

#include "mlir/IR/IRMapping.h"

#include <list>

using namespace mlir;

namespace kiln::passes {

#define GEN_PASS_DEF_FUSE
#include "codegen/passes/Passes.h.inc"

namespace {

/// What one launch costs, in bytes that could have been moved in the meantime (about 2 us).
constexpr double kLaunchBytes = 8e6;

/// A detached kernel that holds a group.
struct Built {
  OwningOpRef<ir::KernelOp> kernel;
  SmallVector<Value> inputs, results; // in the function
};

class Fuser {
 public:
  Fuser(func::FuncOp function, int most, const Target& target)
      : function(function), most(most), target(target), block(function.getBody().front()),
        builder(function.getContext()) {}

  LogicalResult run() {
    groups = family::FusionPreparation(function, target).run();
    llvm::DenseSet<Operation*> grouped;
    for (Group& group : groups)
      grouped.insert(group.begin(), group.end());
    for (Operation& op : block.without_terminator())
      if (!isRematerializable(&op) && !isa<ir::KernelOp>(op) && !grouped.contains(&op))
        groups.push_back(Group()), groups.back().insert(&op);
    if (failed(mergeRequested()))
      return failure();
    auto tooMuch = [&](const Group& group) { return reasonAgainst(group, true); };
    beginWithRuns(block, groups, tooMuch);
    graph.emplace(block, groups);
    while (mergeBest()) {
    }
    rematerialize(groups, tooMuch);
    for (Group& group : groups)
      if (failed(check(group)))
        return failure();
    replaceAll();
    return success();
  }

 private:
  Group* groupOf(Operation* op) {
    for (Group& group : groups)
      if (group.contains(op))
        return &group;
    return nullptr;
  }

  Built build(const Group& group) {
    SmallVector<Operation*> ops(group.begin(), group.end());
    llvm::sort(ops, [](Operation* a, Operation* b) { return a->isBeforeInBlock(b); });
    Built built;
    SmallVector<Type> types;
    for (Operation* op : ops)
      for (Value result : op->getResults()) {
        bool leaves = false;
        eachUser(result, [&](Operation* user) { leaves |= !group.contains(user); });
        if (leaves) {
          built.results.push_back(result);
          types.push_back(result.getType());
        }
      }
    OperationState state(ops.front()->getLoc(), ir::KernelOp::getOperationName());
    OpBuilder detached(function.getContext());
    ir::KernelOp::build(detached, state, types, "fused", ValueRange(), ir::ScheduleAttr());
    built.kernel = OwningOpRef<ir::KernelOp>(cast<ir::KernelOp>(Operation::create(state)));
    Block& body = built.kernel->getBody().emplaceBlock();
    builder.setInsertionPointToEnd(&body);
    IRMapping map;
    for (Operation* op : ops) {
      for (Value operand : op->getOperands())
        family::capture(builder, operand, *built.kernel, map);
      clearRequests(builder.clone(*op, map));
    }
    SmallVector<Value> ends;
    for (Value result : built.results)
      ends.push_back(map.lookup(result));
    builder.create<ir::YieldOp>(ops.back()->getLoc(), ends);
    llvm::append_range(built.inputs, built.kernel->getInputs());
    return built;
  }

  /// Empty if a family can execute the group as one kernel, which is not too much for it if that is
  /// `limited`.
  std::string reasonAgainst(const Group& group, bool limited = false) {
    Built built = build(group);
    std::optional<family::FusionLimits> limits;
    if (limited)
      limits.emplace(family::FusionLimits{most, target});
    return family::of(*built.kernel)
        .reasonAgainst({function, *built.kernel, built.inputs, built.results}, limits);
  }

  /// What is left after all merges must be a kernel; an operation alone need not have been one.
  LogicalResult check(const Group& group) {
    Operation* op = group.front();
    if (llvm::all_of(op->getResults(), [](Value v) { return v.use_empty(); }))
      return success();
    std::string reason = reasonAgainst(group);
    return reason.empty() ? success() : LogicalResult(op->emitError(reason));
  }

  /// Where a path that left a group comes back from; null: there is none. What waits for one
  /// operation of another group waits for all of it.
  Operation* wayBack(const Group& group) {
    Group late; // made from what is inside, and not inside
    Operation* back = nullptr;
    auto follow = [&](Operation* op, bool outside) {
      for (Value result : op->getResults())
        eachUser(result, [&](Operation* user) {
          if (!group.contains(user)) {
            late.insert(user);
            if (Group* others = groupOf(user))
              late.insert(others->begin(), others->end());
          } else if (outside && !back) {
            back = op;
          }
        });
    };
    for (Operation* op : group)
      follow(op, false);
    for (size_t i = 0; i < late.size(); ++i)
      follow(late[i], true);
    return back;
  }

  LogicalResult mergeRequested() {
    auto requested = requestedGroups(function);
    if (failed(requested))
      return failure();
    for (auto& [name, wanted] : *requested) {
      Group merged;
      for (Operation* op : wanted)
        merged.insert(groupOf(op)->begin(), groupOf(op)->end());
      if (failed(checkRequested(name, merged)))
        return failure();
      groups.remove_if([&](const Group& group) { return merged.contains(group.front()); });
      groups.push_back(merged);
    }
    return success();
  }

  LogicalResult checkRequested(StringAttr name, const Group& group) {
    auto refuse = [&](Operation* at, const Twine& reason, Operation* with, const char* note) {
      auto error = at->emitError("must be in one kernel with all that is 'kiln.fuse = ")
                   << name << "', and cannot: " << reason;
      error.attachNote(with->getLoc()) << note;
      return error;
    };
    if (auto cut = cutWithin(group))
      return refuse(cut->user, "'kiln.cut' asks for what it reads to be stored", cut->maker,
                    "the cut was asked for here");
    if (Operation* back = wayBack(group))
      return refuse(group.back(), "a value leaves them and comes back", back,
                    "through this operation, which is not among them");
    std::string reason = reasonAgainst(group);
    if (reason.empty())
      return success();
    Group part;
    part.insert(group.front());
    for (Operation* op : group) {
      part.insert(op);
      if (std::string why = reasonAgainst(part); !why.empty())
        return refuse(op, why, group.front(), "with this operation");
    }
    return refuse(group.back(), reason, group.front(), "with this operation");
  }

  struct Merge {
    Group* a;
    Group* b;
    double saved;
    Value through;
  };

  /// Merges of what meets in a value, those first that save most. Of very many readers of a value
  /// only neighbours are tried, which become fewer.
  SmallVector<Merge> candidates() {
    constexpr size_t kManyReaders = 64;
    SmallVector<Merge> merges;
    llvm::DenseMap<std::pair<Group*, Group*>, size_t> known;
    auto propose = [&](Group* a, Group* b, double saved, Value through) {
      if (!a || !b || a == b)
        return;
      auto [found, added] = known.try_emplace(std::minmax(a, b), merges.size());
      if (added)
        merges.push_back({a, b, saved + kLaunchBytes, through});
      else
        merges[found->second].saved += saved;
    };
    llvm::MapVector<Value, llvm::SetVector<Group*>> readers;
    for (Group& group : groups)
      for (Operation* op : group)
        for (Value value : graph->reads(op))
          readers[value].insert(&group);
    for (auto& [value, groupsOfValue] : readers) {
      Group* producer = value.getDefiningOp() ? graph->groupOf(value.getDefiningOp()) : nullptr;
      const size_t count = groupsOfValue.size(), reach = count > kManyReaders ? 1 : count;
      for (Group* reader : groupsOfValue)
        propose(producer, reader, family::bytesOf(value) * (count == 1 ? 2 : 1), value);
      for (size_t i = 0; i < count; ++i)
        for (size_t j = i + 1; j < std::min(count, i + 1 + reach); ++j)
          propose(groupsOfValue[i], groupsOfValue[j], family::bytesOf(value), value);
    }
    llvm::stable_sort(merges, [](const Merge& a, const Merge& b) { return a.saved > b.saved; });
    return merges;
  }

  bool mergeBest() {
    for (Merge& merge : candidates()) {
      Operation *first = merge.a->front(), *second = merge.b->front();
      if (refused.contains({first, second}) || !graph->mayMerge(merge.a, merge.b))
        continue;
      Group both = *merge.a;
      both.insert(merge.b->begin(), merge.b->end());
      std::optional<Cut> cut = cutWithin(both);
      std::string reason = cut ? "a cut was asked for ('kiln.cut')" : reasonAgainst(both, true);
      if (reason.empty()) {
        graph->merge(merge.a, merge.b);
        return true;
      }
      refused.insert({first, second});
      refused.insert({second, first});
      auto remark = emitRemark((cut ? cut->user : merge.b->back())->getLoc())
                    << "not fused: " << reason << " (would save "
                    << static_cast<int64_t>(merge.saved / 1e6) << " MB of traffic and launch)";
      remark.attachNote((cut ? cut->maker : merge.a->back())->getLoc()) << "with this operation";
    }
    return false;
  }

  /// Groups are convex, so some order is valid: each follows what it reads. Operations that
  /// stay (kernels written by hand) are moved along.
  void replaceAll() {
    Operation* end = block.getTerminator();
    llvm::SetVector<Operation*> old;
    SmallVector<Operation*> byHand;
    for (Operation& op : block.without_terminator())
      if (isa<ir::KernelOp>(op))
        byHand.push_back(&op);
      else
        old.insert(&op);
    struct Waiting {
      Group* group;
      Built built;
    };
    std::vector<Waiting> waiting;
    for (Group& group : groups)
      waiting.push_back({&group, build(group)});
    llvm::DenseSet<Operation*> emitted;
    auto ready = [&](Value value) {
      return !value.getDefiningOp() || emitted.contains(value.getDefiningOp());
    };
    const bool single = waiting.size() + byHand.size() == 1;
    int index = 0;
    llvm::DenseMap<Value, Value> replaced;
    while (!waiting.empty() || !byHand.empty()) {
      llvm::erase_if(byHand, [&](Operation* kernel) {
        if (!llvm::all_of(kernel->getOperands(), ready))
          return false;
        kernel->moveBefore(end);
        return emitted.insert(kernel).second;
      });
      llvm::erase_if(waiting, [&](Waiting& next) {
        auto& [group, built] = next;
        if (!llvm::all_of(built.inputs, ready))
          return false;
        ir::KernelOp kernel = built.kernel.release();
        std::string name = function.getName().str();
        kernel.setName(single ? name : name + "_" + std::to_string(index++));
        builder.setInsertionPoint(end);
        builder.insert(kernel);
        for (auto [before, after] : llvm::zip_equal(built.results, kernel.getResults()))
          replaced[before] = after;
        emitted.insert(group->begin(), group->end());
        return true;
      });
    }
    for (auto& [before, after] : replaced)
      before.replaceUsesWithIf(after,
                               [&](OpOperand& use) { return !old.contains(use.getOwner()); });
    for (Operation* op : llvm::reverse(old))
      op->erase();
  }

  func::FuncOp function;
  int most;
  const Target& target;
  Block& block;
  OpBuilder builder;
  std::list<Group> groups;
  std::optional<FusionGraph> graph;
  llvm::DenseSet<std::pair<Operation*, Operation*>> refused;
};

struct Fuse : impl::FuseBase<Fuse> {
  using FuseBase::FuseBase;

  void runOnOperation() override {
    try {
      fuseAll(findTarget(arch));
    } catch (const Error& error) { // no exception may cross MLIR's frames
      emitError(getOperation(), error.kind()) << error.what();
      signalPassFailure();
    }
  }

  void fuseAll(const Target& target) {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function.isExternal())
        continue;
      if (failed(checkFunction(function)))
        return signalPassFailure();
      const family::FunctionFamily* whole = family::ofFunction(function);
      if (whole ? failed(refuseRequests(function)) || failed(whole->fuse(function))
                : failed(Fuser(function, most, target).run()))
        return signalPassFailure();
    }
  }
};

} // namespace

std::unique_ptr<Pass> createFuse() {
  return std::make_unique<Fuse>();
}
std::unique_ptr<Pass> createFuse(FuseOptions options) {
  return std::make_unique<Fuse>(std::move(options));
}

} // namespace kiln::passes
