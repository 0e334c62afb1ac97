// See Program.h.
#include "runtime/compile/Program.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>

namespace kiln::compiled {

Program::Program(Tape tape, const CaptureOptions& options, Dropouts dropouts)
    : recorded(std::move(tape)), options(options), dropouts(dropouts),
      planned(compiled::plan(recorded, options, failures, dropouts)) {
  for (const auto& [slot, tensor] : recorded.captured)
    wantsGradient.push_back(tensor.requires_grad());
}

bool Program::fits() const {
  for (std::size_t i = 0; i < recorded.captured.size(); ++i) {
    const auto& [slot, tensor] = recorded.captured[i];
    const Value& was = recorded.value(slot);
    if (tensor.scalar_type() != was.dtype || tensor.device() != was.device ||
        tensor.sizes() != was.sizes || tensor.strides() != was.strides ||
        tensor.requires_grad() != wantsGradient[i])
      return false;
  }
  return true;
}

Tensors Program::captured() const {
  Tensors tensors;
  for (const auto& [slot, tensor] : recorded.captured)
    tensors.push_back(tensor);
  return tensors;
}

at::Tensor Program::valueOf(Slot slot, const std::vector<at::Tensor>& values) const {
  if (slot == noSlot)
    return {};
  const Value& value = recorded.value(slot);
  return value.constant ? at::full(value.sizes, *value.constant,
                                   at::TensorOptions(value.device).dtype(value.dtype))
                        : values[static_cast<std::size_t>(slot)];
}

c10::IValue Program::argumentOf(const Item& item, const std::vector<at::Tensor>& values) const {
  switch (item.is) {
  case Item::Is::constant:
    return item.constant;
  case Item::Is::tensor:
    return item.slots[0] == noSlot ? item.constant : c10::IValue(valueOf(item.slots[0], values));
  case Item::Is::list: {
    c10::List<at::Tensor> list;
    for (Slot slot : item.slots)
      list.push_back(valueOf(slot, values));
    return list;
  }
  case Item::Is::listOfOptional: {
    c10::List<std::optional<at::Tensor>> list;
    for (Slot slot : item.slots)
      list.push_back(slot == noSlot ? std::nullopt : std::optional(valueOf(slot, values)));
    return list;
  }
  }
  return {};
}

/// False: a number or a shape that comes of it is not the one that was recorded.
bool Program::runOp(const Op& op, bool copiesFirst, std::vector<at::Tensor>& values) const {
  torch::jit::Stack stack;
  stack.reserve(op.arguments.size());
  for (const Item& item : op.arguments)
    stack.push_back(argumentOf(item, values));
  if (copiesFirst)
    stack[0] = stack[0].toTensor().clone();
  op.handle.callBoxed(stack);
  for (std::size_t i = 0; i < op.results.size(); ++i) {
    const Item& item = op.results[i];
    if (item.is == Item::Is::constant) {
      if (stack[i] != item.constant)
        return false;
      continue;
    }
    const std::vector<at::Tensor> tensors =
        item.is == Item::Is::list ? stack[i].toTensorVector() : std::vector{stack[i].toTensor()};
    if (tensors.size() != item.slots.size())
      return false;
    for (std::size_t k = 0; k < tensors.size(); ++k) {
      if (item.slots[k] == noSlot)
        continue;
      if (tensors[k].sizes() != recorded.value(item.slots[k]).sizes)
        return false; // nonzero() found more, say
      values[static_cast<std::size_t>(item.slots[k])] = tensors[k];
    }
  }
  return true;
}

void Program::runRegion(const Region& region, std::vector<at::Tensor>& values) const {
  at::SmallVector<const at::Tensor*, 16> operands;
  for (Slot slot : region.inputs)
    operands.push_back(&values[static_cast<std::size_t>(slot)]);
  Tensors results = region.function->call(operands);
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Slot slot = region.outputs[i];
    const auto& sizes = recorded.value(slot).sizes;
    values[static_cast<std::size_t>(slot)] =
        results[i].sizes() == sizes ? std::move(results[i]) : results[i].view(sizes);
  }
}

/// Of a region or an attention.
const std::vector<unsigned>& Program::opsOf(const Step& step) const {
  return step.region >= 0 ? planned.regions[static_cast<std::size_t>(step.region)].ops
                          : planned.attentions[static_cast<std::size_t>(step.attention)].ops;
}

/// `current`: the operations of the region or the attention that is being run.
std::optional<Tensors> Program::runSteps(const Tensors& arguments,
                                         const std::vector<unsigned>*& current) const {
  std::vector<at::Tensor> values(recorded.values.size());
  for (std::size_t i = 0; i < arguments.size(); ++i)
    values[static_cast<std::size_t>(recorded.inputs[i])] = arguments[i];
  for (const auto& [slot, tensor] : recorded.captured)
    values[static_cast<std::size_t>(slot)] = tensor;
  for (const Step& step : planned.steps) {
    current = step.op < 0 ? &opsOf(step) : nullptr;
    const unsigned first = current ? current->front() : static_cast<unsigned>(step.op);
    const at::AutoGradMode mode(recorded.ops[first].gradMode);
    if (step.region >= 0) {
      runRegion(planned.regions[static_cast<std::size_t>(step.region)], values);
    } else if (step.attention >= 0) {
      const Attention& one = planned.attentions[static_cast<std::size_t>(step.attention)];
      values[static_cast<std::size_t>(one.result)] =
          one.run(recorded, [&](Slot slot) { return valueOf(slot, values); });
    } else if (!runOp(recorded.ops[first], planned.copiesFirst[first], values)) {
      return std::nullopt;
    }
    current = nullptr;
    for (Slot slot : step.last)
      values[static_cast<std::size_t>(slot)].reset();
  }
  Tensors results;
  for (Slot slot : recorded.results[0].slots)
    results.push_back(valueOf(slot, values));
  return results;
}

std::optional<Tensors> Program::run(const Tensors& arguments) const {
  const std::vector<unsigned>* current = nullptr;
  return runSteps(arguments, current);
}

std::optional<Tensors> Program::settle(const Tensors& arguments,
                                       const std::function<void()>& rewind) {
  for (;;) {
    const std::vector<unsigned>* current = nullptr;
    rewind();
    try {
      return runSteps(arguments, current);
    } catch (const Error& error) {
      if (!current)
        throw;
      const std::string why = error.what();
      failures[*current] = why.substr(0, why.find('\n'));
    }
    planned = compiled::plan(recorded, options, failures, dropouts);
  }
}

} // namespace kiln::compiled
