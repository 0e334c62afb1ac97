// Splitting a tape. A region waits for operations that may join it until something outside needs
// what it makes; what it reads has been computed by then, so no cycle can come about.
#include "runtime/compile/Plan.h"

#include "runtime/compile/Flow.h"
#include "runtime/compile/Rules.h"
#include "runtime/fuse/Space.h"

#include <ATen/ExpandUtils.h>
#include <fmt/format.h>
#include <set>

namespace kiln::compiled {

namespace {

constexpr std::size_t kMaxOps = 64; // of a region: a kernel stays readable, and compiles in time

bool isNorm(const Op& op) {
  return op.is({"aten::layer_norm", "aten::rms_norm", "aten::softmax", "aten::log_softmax"});
}
at::DimVector spaceOf(const Tape& tape, const Op& op) {
  at::DimVector space;
  for (Slot slot : tape.operandsOf(op)) {
    const auto both = at::infer_size(space, tape.value(slot).sizes);
    space.assign(both.begin(), both.end());
  }
  return space;
}

bool isBroadcastTo(at::IntArrayRef from, at::IntArrayRef to) {
  return at::is_expandable_to(from, to);
}

class Planner {
 public:
  Planner(const Tape& tape, const CaptureOptions& options, const Failures& failures,
          Dropouts dropouts);
  Plan run();

 private:
  struct Pending {
    Region region;
    bool isOpen = true;
  };

  void check(const Op& op, RuleKind& kind) const;
  void checkTensors(const Op& op) const;
  void take(unsigned i, Region fresh);
  std::optional<Region> joined(const Region& a, const Region& b) const;
  std::vector<Slot> inputsOf(const Region& region) const;
  void settle(Region& region) const;
  std::string whyUnused(const Region& region) const;
  void close(std::size_t pending);
  bool isFiller(unsigned i) const;
  Reads findAttentions(Dropouts dropouts);
  void closeAt(Slot slot);
  void takeRow(unsigned i);
  bool readsBehind(Slot old) const;
  void noteLastReaders();

  int& regionOfSlot(Slot slot) { return regionOf[static_cast<std::size_t>(slot)]; }

  const Tape& tape;
  const CaptureOptions& options;
  const Failures& failures;
  std::vector<bool> isDead;
  std::vector<int> attentionOf; // each operation; below 0: none
  std::vector<Pending> pending;
  std::set<Slot> flat; // sums of rows without the dimension of rows: not to be read in their kernel
  std::vector<int> regionOf; // the open region that makes a slot
  std::optional<Flow> flow;  // with attentions as one operation each
  Plan made;
};

Planner::Planner(const Tape& tape, const CaptureOptions& options, const Failures& failures,
                 Dropouts dropouts)
    : tape(tape), options(options), failures(failures), attentionOf(tape.ops.size(), -1),
      regionOf(tape.values.size(), -1) {
  const Reads reads = findAttentions(dropouts);
  isDead = tape.dead(reads);
  flow.emplace(tape, isDead, reads);
  made.whyNot.resize(tape.ops.size());
  made.copiesFirst.resize(tape.ops.size());
}

/// What their operations read then: the last all of it.
Reads Planner::findAttentions(Dropouts dropouts) {
  Attentions all = attentionsOf(tape, tape.dead());
  for (const auto& [softmax, why] : all.whyNot)
    made.attentionsLeft.push_back(
        {fmt::format("attention around {}", tape.ops[softmax].shortName()), false, why, 0, true});
  Reads reads;
  for (Attention& one : all.found) {
    if (one.dropout && dropouts == Dropouts::left)
      continue;
    if (const auto failed = failures.find(one.ops); failed != failures.end()) {
      made.attentionsLeft.push_back({one.text(tape), false, failed->second, 0, true});
      continue;
    }
    for (unsigned i : one.ops) {
      attentionOf[i] = static_cast<int>(made.attentions.size());
      reads[i] = i == one.ops.back() ? one.inputs() : std::vector<Slot>();
    }
    made.attentions.push_back(std::move(one));
  }
  return reads;
}

void Planner::checkTensors(const Op& op) const {
  const Value& result = tape.value(op.result());
  const at::Device device = result.device;
  if (!device.is_cuda() && !(device.is_cpu() && options.place == Place::cpu))
    Call::refuse("tensors that are not on a GPU");
  if (c10::multiply_integers(result.sizes) == 0)
    Call::refuse("an empty tensor");
  if (!result.isContiguous)
    Call::refuse("its result is not contiguous");
  const auto isFloat = [](at::ScalarType type) {
    return type == at::kFloat || type == at::kBFloat16 || type == at::kHalf;
  };
  const bool isComparison =
      op.is({"aten::eq", "aten::ne", "aten::lt", "aten::le", "aten::gt", "aten::ge"});
  if (!isFloat(result.dtype) && !(isComparison && result.dtype == at::kBool))
    Call::refuse(fmt::format("results of dtype {}", c10::toString(result.dtype)));
  if (result.isWrittenInPlace)
    Call::refuse("its result is written in place, through a view");
  for (Slot slot : tape.operandsOf(op)) {
    const Value& operand = tape.value(slot);
    if (operand.device != device)
      Call::refuse("operands on several devices");
    if (operand.isWrittenInPlace)
      Call::refuse("an operand is written in place, through a view");
    const bool isInteger = operand.dtype == at::kLong || operand.dtype == at::kInt;
    if (isInteger ? isComparison : !isFloat(operand.dtype) && operand.dtype != at::kBool)
      Call::refuse(fmt::format("operands of dtype {}", c10::toString(operand.dtype)));
  }
}

/// Throws Refused for an operation that cannot be in a region.
void Planner::check(const Op& op, RuleKind& kind) const {
  if (op.results.size() != 1 || op.results[0].is != Item::Is::tensor || op.isBarrier)
    Call::refuse("no operation of rows");
  const std::function<Expr(Slot)> any = [](Slot) { return Expr(0); };
  expressionOf({tape, op, any}, kind);
  checkTensors(op);
  const at::DimVector space = spaceOf(tape, op);
  const at::DimVector& sizes = tape.value(op.result()).sizes;
  if (space.empty())
    Call::refuse("a tensor without dimensions");
  if (kind == RuleKind::elementwise && sizes != space)
    Call::refuse("its result has another shape than its operands");
  if (kind == RuleKind::alongRows && tape.value(op.arguments[0].slots[0]).sizes != space)
    Call::refuse("an operand has another shape than the rows");
}

std::vector<Slot> Planner::inputsOf(const Region& region) const {
  std::set<Slot> known;
  std::vector<Slot> inputs;
  for (unsigned i : region.ops) {
    for (Slot slot : tape.operandsOf(tape.ops[i]))
      if (known.insert(slot).second)
        inputs.push_back(slot);
    known.insert(tape.ops[i].result());
  }
  return inputs;
}

/// Both as one, if that is possible.
std::optional<Region> Planner::joined(const Region& a, const Region& b) const {
  Region both;
  std::merge(a.ops.begin(), a.ops.end(), b.ops.begin(), b.ops.end(), std::back_inserter(both.ops));
  both.hasRows = a.hasRows || b.hasRows;
  if (a.space == b.space || (!b.hasRows && isBroadcastTo(b.space, a.space)))
    both.space = a.space;
  else if (!a.hasRows && isBroadcastTo(a.space, b.space))
    both.space = b.space;
  else
    return std::nullopt;
  if (tape.ops[a.ops[0]].gradMode != tape.ops[b.ops[0]].gradMode || both.ops.size() > kMaxOps ||
      inputsOf(both).size() > fusion::maxOperands)
    return std::nullopt;
  return both;
}

/// Puts an operation into the region of what it reads, or into one of its own.
void Planner::take(unsigned i, Region fresh) {
  for (Slot slot : tape.operandsOf(tape.ops[i])) {
    const int from = regionOfSlot(slot);
    if (from < 0)
      continue;
    Pending& other = pending[static_cast<std::size_t>(from)];
    std::optional<Region> both;
    if (!flat.contains(slot))
      both = joined(other.region, fresh);
    if (!both) {
      close(static_cast<std::size_t>(from));
      continue;
    }
    fresh = std::move(*both);
    other.isOpen = false;
    for (unsigned k : fresh.ops)
      regionOfSlot(tape.ops[k].result()) = -1;
  }
  pending.push_back({std::move(fresh)});
  for (unsigned k : pending.back().region.ops)
    regionOfSlot(tape.ops[k].result()) = static_cast<int>(pending.size() - 1);
}

std::string Planner::whyUnused(const Region& region) const {
  if (region.ops.size() == 1 && !isNorm(tape.ops[region.ops[0]]))
    return "one operation alone";
  const auto isFull = [&](Slot slot) {
    return at::IntArrayRef(tape.value(slot).sizes) == region.space;
  };
  if (std::none_of(region.inputs.begin(), region.inputs.end(), isFull))
    return "no operand has the shape that comes of all";
  at::DimVector reduced = region.space;
  reduced.back() = 1;
  for (Slot slot : region.outputs) {
    const auto& sizes = tape.value(slot).sizes;
    const bool isReduced =
        sizes == reduced ||
        at::IntArrayRef(sizes) == at::IntArrayRef(reduced.data(), reduced.size() - 1);
    if (!isFull(slot) && !isReduced)
      return "a result that is broadcast within it is needed outside";
  }
  if (region.ops.size() > 1 && region.bytesSaved <= 0)
    return "it saves no bytes";
  const auto failed = failures.find(region.ops);
  return failed == failures.end() ? "" : failed->second;
}

/// Finds out what a region reads and gives, and whether it pays.
void Planner::settle(Region& region) const {
  region.inputs = inputsOf(region);
  const std::set<unsigned> inside(region.ops.begin(), region.ops.end());
  const auto bytes = [&](Slot slot) { return tape.value(slot).bytes(); };
  for (unsigned i : region.ops) {
    const Slot slot = tape.ops[i].result();
    const auto& its = flow->readersOf(slot);
    if (flow->isResult(slot) || std::any_of(its.begin(), its.end(), [&](unsigned reader) {
          return !inside.contains(reader);
        }))
      region.outputs.push_back(slot);
    region.bytesSaved += bytes(slot);
    for (Slot operand : tape.operandsOf(tape.ops[i]))
      region.bytesSaved += bytes(operand);
  }
  for (const auto* list : {&region.inputs, &region.outputs})
    for (Slot slot : *list)
      region.bytesSaved -= bytes(slot);
  region.why = whyUnused(region);
}

void Planner::close(std::size_t index) {
  if (!pending[index].isOpen)
    return;
  pending[index].isOpen = false;
  Region& region = pending[index].region;
  for (unsigned i : region.ops)
    regionOfSlot(tape.ops[i].result()) = -1;
  settle(region);
  if (region.outputs.empty())
    return; // nobody wants to know
  if (region.why.empty())
    try {
      region.function = &functionOf(tape, region, options);
    } catch (const Error& error) {
      region.why = error.what();
    }
  if (region.function)
    made.steps.push_back({.region = static_cast<int>(made.regions.size())});
  else
    for (unsigned i : region.ops) {
      made.whyNot[i] = region.why;
      made.steps.push_back({.op = static_cast<int>(i)});
    }
  if (region.function || region.ops.size() > 1)
    made.regions.push_back(std::move(region));
}

/// Whether an operation only fills memory with a number: that is known, and the memory is made when
/// one of ATen's operations reads it.
bool Planner::isFiller(unsigned i) const {
  const Op& op = tape.ops[i];
  if (op.isBarrier || op.results.size() != 1 || op.results[0].is != Item::Is::tensor)
    return false;
  const Slot slot = op.result();
  if (tape.value(slot).constant)
    return true;
  const auto& its = flow->readersOf(slot);
  return op.base().starts_with("aten::empty") && !flow->isResult(slot) &&
         std::all_of(its.begin(), its.end(), [&](unsigned reader) {
           return tape.ops[reader].oldSlot == slot && isFiller(reader);
         });
}

void Planner::noteLastReaders() {
  std::set<Slot> seen = flow->allResults();
  for (auto step = made.steps.rbegin(); step != made.steps.rend(); ++step) {
    const auto visit = [&](Slot slot) {
      if (seen.insert(slot).second)
        step->last.push_back(slot);
    };
    const auto visitOp = [&](const Op& op) {
      Tape::forEach(op.arguments, visit);
      Tape::forEach(op.results, visit);
    };
    if (step->op >= 0) {
      visitOp(tape.ops[static_cast<std::size_t>(step->op)]);
      continue;
    }
    if (step->attention >= 0) {
      const Attention& one = made.attentions[static_cast<std::size_t>(step->attention)];
      const std::vector<Slot> inputs = one.inputs();
      std::for_each(inputs.begin(), inputs.end(), visit);
      visit(one.result);
      continue;
    }
    const Region& region = made.regions[static_cast<std::size_t>(step->region)];
    std::for_each(region.inputs.begin(), region.inputs.end(), visit);
    std::for_each(region.outputs.begin(), region.outputs.end(), visit);
  }
}

void Planner::closeAt(Slot slot) {
  if (regionOfSlot(slot) >= 0)
    close(static_cast<std::size_t>(regionOfSlot(slot)));
}

/// Puts an operation into a region, or leaves it as it is.
void Planner::takeRow(unsigned i) {
  const Op& op = tape.ops[i];
  try {
    RuleKind kind = RuleKind::elementwise;
    check(op, kind);
    Region fresh;
    fresh.ops = {i};
    fresh.space = spaceOf(tape, op);
    fresh.hasRows = kind == RuleKind::alongRows;
    if (fresh.hasRows && tape.value(op.result()).sizes.size() < fresh.space.size())
      flat.insert(op.result());
    take(i, std::move(fresh));
  } catch (const Refused& refused) {
    made.whyNot[i] = refused.why;
    Tape::forEach(op.arguments, [&](Slot slot) { closeAt(slot); });
    made.steps.push_back({.op = static_cast<int>(i)});
  }
}

/// Whether kernels or attentions read a tensor, or made it for others: an operation in place has to
/// leave it alone.
bool Planner::readsBehind(Slot old) const {
  const auto has = [&](const std::vector<Slot>& slots) {
    return std::find(slots.begin(), slots.end(), old) != slots.end();
  };
  return std::any_of(made.regions.begin(), made.regions.end(),
                     [&](const Region& region) {
                       return region.function && (has(region.inputs) || has(region.outputs));
                     }) ||
         std::any_of(made.attentions.begin(), made.attentions.end(),
                     [&](const Attention& one) { return one.result == old || has(one.inputs()); });
}

Plan Planner::run() {
  for (unsigned i = 0; i < tape.ops.size(); ++i) {
    if (isDead[i] || isFiller(i))
      continue;
    const int which = attentionOf[i];
    if (which < 0) {
      takeRow(i);
      continue;
    }
    const Attention& attention = made.attentions[static_cast<std::size_t>(which)];
    if (i != attention.ops.back())
      continue;
    for (Slot slot : attention.inputs())
      closeAt(slot);
    made.steps.push_back({.attention = which});
  }
  for (std::size_t i = 0; i < pending.size(); ++i)
    close(i);
  for (std::size_t i = 0; i < tape.ops.size(); ++i)
    made.copiesFirst[i] = tape.ops[i].oldSlot != noSlot && readsBehind(tape.ops[i].oldSlot);
  noteLastReaders();
  return std::move(made);
}

} // namespace

Plan plan(const Tape& tape, const CaptureOptions& options, const Failures& failures,
          Dropouts dropouts) {
  return Planner(tape, options, failures, dropouts).run();
}

} // namespace kiln::compiled
