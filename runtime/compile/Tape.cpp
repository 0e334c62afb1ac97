// See Tape.h.
#include "runtime/compile/Tape.h"

namespace kiln::compiled {

std::string Op::base() const {
  std::string text = handle.schema().name();
  if (oldSlot != noSlot && text.ends_with('_'))
    text.pop_back();
  return text;
}

std::string Op::shortName() const {
  const std::string text = base();
  return text.substr(text.rfind(':') + 1);
}

bool Op::is(std::initializer_list<const char*> bases) const {
  return std::find(bases.begin(), bases.end(), base()) != bases.end();
}

std::int64_t Value::bytes() const {
  return c10::multiply_integers(sizes) * static_cast<std::int64_t>(c10::elementSize(dtype));
}

std::vector<Slot> Tape::operandsOf(const Op& op) const {
  std::vector<Slot> slots;
  forEach(op.arguments, [&](Slot slot) {
    if (!value(slot).constant)
      slots.push_back(slot);
  });
  return slots;
}

namespace {

/// Whether an operation does nothing but make tensors, and draws nothing.
bool isPure(const Op& op) {
  const auto& schema = op.handle.schema();
  const auto& arguments = schema.arguments();
  return !schema.is_mutable() && !op.results.empty() && schema.name().starts_with("aten::") &&
         !op.handle.hasTag(at::Tag::nondeterministic_seeded) &&
         std::all_of(op.results.begin(), op.results.end(),
                     [](const Item& item) { return item.is == Item::Is::tensor; }) &&
         std::none_of(arguments.begin(), arguments.end(), [](const c10::Argument& argument) {
           return argument.name().find("dropout") != std::string::npos ||
                  argument.name() == "generator";
         });
}

} // namespace

std::vector<bool> Tape::dead(const Reads& reads) const {
  std::vector<bool> isDead(ops.size()), isNeeded(values.size());
  const auto need = [&](Slot slot) { isNeeded[static_cast<std::size_t>(slot)] = true; };
  forEach(results, need);
  for (std::size_t i = ops.size(); i-- > 0;) {
    bool isAsked = !isPure(ops[i]);
    forEach(ops[i].results,
            [&](Slot slot) { isAsked |= isNeeded[static_cast<std::size_t>(slot)]; });
    isDead[i] = !isAsked;
    if (!isAsked)
      continue;
    if (const auto other = reads.find(static_cast<unsigned>(i)); other != reads.end())
      std::for_each(other->second.begin(), other->second.end(), need);
    else
      forEach(ops[i].arguments, need);
  }
  return isDead;
}

void Tape::forEach(const std::vector<Item>& items, const std::function<void(Slot)>& f) {
  for (const Item& item : items)
    for (Slot slot : item.slots)
      if (slot != noSlot)
        f(slot);
}

} // namespace kiln::compiled
