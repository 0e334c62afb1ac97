// Regions as functions of kiln::fuse.
#include "runtime/compile/Plan.h"
#include "runtime/compile/Rules.h"

#include <fmt/format.h>
#include <mutex>
#include <sstream>

namespace kiln::compiled {

std::string Region::text(const Tape& tape) const {
  std::string list;
  for (unsigned i : ops)
    list += fmt::format("{}{}", list.empty() ? "" : ", ", tape.ops[i].shortName());
  return list;
}

namespace {

/// What tells regions apart, as a key.
std::string keyOf(const Tape& tape, const Region& region) {
  std::map<Slot, std::size_t> local;
  const auto name = [&](Slot slot) {
    if (slot == noSlot)
      return std::string("none");
    if (const auto& constant = tape.value(slot).constant)
      return fmt::format("{}", *constant);
    return fmt::format("%{}:{}", local.emplace(slot, local.size()).first->second,
                       c10::toString(tape.value(slot).dtype));
  };
  for (Slot slot : region.inputs)
    name(slot);
  std::ostringstream text;
  text << region.inputs.size();
  for (unsigned i : region.ops) {
    text << ';' << tape.ops[i].base();
    for (const Item& item : tape.ops[i].arguments) {
      text << ' ';
      if (item.is == Item::Is::constant)
        text << item.constant;
      for (Slot slot : item.slots)
        text << name(slot);
    }
    text << '>' << name(tape.ops[i].result());
  }
  text << '!';
  for (Slot slot : region.outputs)
    text << ' ' << name(slot);
  return text.str();
}

struct Tracing {
  const Tape& tape;
  const Region& region;
};

std::vector<Expr> trace(const void* context, const std::vector<Expr>& operands) {
  const auto& [tape, region] = *static_cast<const Tracing*>(context);
  std::map<Slot, Expr> known;
  for (std::size_t i = 0; i < region.inputs.size(); ++i)
    known.emplace(region.inputs[i], operands[i]);
  const std::function<Expr(Slot)> exprOf = [&, &tape = tape](Slot slot) {
    const auto& constant = tape.value(slot).constant;
    return constant ? Expr(*constant) : known.at(slot);
  };
  for (unsigned i : region.ops) {
    RuleKind kind = RuleKind::elementwise;
    Expr value = expressionOf({tape, tape.ops[i], exprOf}, kind);
    const Slot slot = tape.ops[i].result();
    const auto& outputs = region.outputs;
    if (tape.value(slot).dtype != at::kBool &&
        std::find(outputs.begin(), outputs.end(), slot) != outputs.end())
      value = value.to(tape.value(slot).dtype);
    known.emplace(slot, value);
  }
  std::vector<Expr> results;
  for (Slot slot : region.outputs)
    results.push_back(known.at(slot));
  return results;
}

} // namespace

const FusedFunction& functionOf(const Tape& tape, const Region& region,
                                const CaptureOptions& options) {
  static std::mutex mutex;
  static auto* functions = new std::map<std::string, FusedFunction>;
  const std::lock_guard held(mutex);
  const std::string key =
      fmt::format("{} {} {}", options.name, static_cast<int>(options.place), keyOf(tape, region));
  auto found = functions->find(key);
  if (found == functions->end()) {
    FuseOptions fuse;
    fuse.place = options.place;
    fuse.name = options.name;
    for (unsigned i : region.ops)
      if (fuse.name.size() < 40)
        fuse.name += fmt::format("_{}", tape.ops[i].shortName());
    const Tracing tracing{tape, region};
    found = functions
                ->emplace(key, FusedFunction(static_cast<unsigned>(region.inputs.size()), &trace,
                                             &tracing, fuse))
                .first;
  }
  return found->second;
}

} // namespace kiln::compiled
