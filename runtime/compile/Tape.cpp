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

void Tape::forEach(const std::vector<Item>& items, const std::function<void(Slot)>& f) {
  for (const Item& item : items)
    for (Slot slot : item.slots)
      if (slot != noSlot)
        f(slot);
}

} // namespace kiln::compiled
