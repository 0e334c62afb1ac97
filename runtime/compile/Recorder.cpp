// See Recorder.h.
#include "runtime/compile/Recorder.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/graph_task.h>

namespace kiln::compiled {

using c10::IValue;

namespace {

/// Operations that change running statistics without saying so in their schemas, and the arguments
/// that they do it with: statistics, and a flag.
struct Undeclared {
  const char* name;
  std::size_t statistics, flag;
};
constexpr Undeclared kUndeclared[] = {{"aten::batch_norm", 3, 5},
                                      {"aten::native_batch_norm", 3, 5},
                                      {"aten::_batch_norm_impl_index", 3, 5},
                                      {"aten::instance_norm", 3, 5}};

/// Operations that do not read what they add to where a factor is zero, and that factor.
constexpr std::pair<const char*, std::size_t> kFactors[] = {
    {"aten::addbmm", 3}, {"aten::addmm", 3}, {"aten::addmv", 3}, {"aten::baddbmm", 3}};

bool isIgnored(const c10::FunctionSchema& schema, const std::vector<IValue>& arguments,
               std::size_t i) {
  return i == 0 && std::any_of(std::begin(kFactors), std::end(kFactors), [&](const auto& one) {
           return schema.name() == one.first && arguments[one.second].isScalar() &&
                  arguments[one.second].toScalar().equal(0);
         });
}

} // namespace

Slot Recorder::add(const at::Tensor& tensor) {
  Value value;
  value.sizes = at::DimVector(tensor.sizes());
  if (tensor.layout() == at::kStrided) {
    value.strides = at::DimVector(tensor.strides());
    value.isContiguous = tensor.is_contiguous();
  } else {
    refuse("it uses tensors that are not strided");
  }
  value.dtype = tensor.scalar_type();
  value.device = tensor.device();
  tape.values.push_back(std::move(value));
  known.push_back({tensor, tensor.requires_grad()});
  const auto slot = static_cast<Slot>(known.size() - 1);
  slotOf[tensor.unsafeGetTensorImpl()] = slot;
  memory[memoryOf(tensor)].slots.push_back(slot);
  return slot;
}

Slot Recorder::addForeign(const at::Tensor& tensor) {
  const Slot slot = add(tensor);
  memory[memoryOf(tensor)].isForeign = true;
  return slot;
}

/// The slot of the same numbers under another name: torch::tensor() gives such.
Slot Recorder::twinOf(const at::Tensor& tensor, Memory& its) {
  for (Slot slot : its.slots) {
    const at::Tensor& other = known[static_cast<std::size_t>(slot)].tensor;
    if (its.isUnseen || tensor.requires_grad() || other.requires_grad() ||
        tensor.sizes() != other.sizes() || tensor.strides() != other.strides() ||
        tensor.storage_offset() != other.storage_offset() || tensor.dtype() != other.dtype())
      continue;
    slotOf[tensor.unsafeGetTensorImpl()] = slot;
    twins.push_back(tensor);
    its.slots.push_back(slot); // they share memory
    return slot;
  }
  return noSlot;
}

/// The slot of a tensor that an operation is given; `isContent`: it matters what is in it.
Slot Recorder::read(const at::Tensor& tensor, bool isContent, const char* op) {
  if (!tensor.defined())
    return noSlot;
  const auto found = slotOf.find(tensor.unsafeGetTensorImpl());
  if (found == slotOf.end()) {
    const auto shared = memory.find(memoryOf(tensor));
    if (shared == memory.end() && tensor.has_storage() &&
        allocations.live.contains(tensor.storage().data()))
      refuse(fmt::format("{} reads a tensor made past the dispatcher: by a kernel of its own", op));
    if (shared != memory.end() && !shared->second.isForeign) {
      if (const Slot twin = twinOf(tensor, shared->second); twin != noSlot)
        return twin;
      refuse(
          fmt::format("{} reads a tensor made from another past the dispatcher (data(), say)", op));
    }
    if (tensor.grad_fn())
      refuse(fmt::format("{} reads a tensor with history that is not among the arguments; pass it",
                         op));
    const Slot slot = addForeign(tensor);
    tape.captured.emplace_back(slot, tensor);
    return slot;
  }
  const Memory& its = memory.at(memoryOf(tensor));
  if (its.isUnseen)
    refuse(
        fmt::format("{} reads what was computed under other dispatch keys: by a custom kernel, or "
                    "where autocast or inference mode was switched within the function",
                    op));
  if (its.isUnwritten && isContent)
    refuse(
        fmt::format("{} reads memory that no operation was seen to write: of a custom kernel, or "
                    "filled through a pointer",
                    op));
  if (known[static_cast<std::size_t>(found->second)].requiresGrad != tensor.requires_grad())
    refuse(fmt::format("{} reads a tensor that was made to want a gradient, or not to, past the "
                       "dispatcher (requires_grad_(), a custom autograd function)",
                       op));
  return found->second;
}

/// The slot of a tensor that an operation returns: of one of its arguments, if it is that.
Slot Recorder::make(const at::Tensor& tensor) {
  if (!tensor.defined())
    return noSlot;
  const auto found = slotOf.find(tensor.unsafeGetTensorImpl());
  return found == slotOf.end() ? add(tensor) : found->second;
}

template <typename Take> Item Recorder::itemOf(const IValue& value, const Take& take) {
  Item item;
  if (value.isTensor()) {
    item.is = Item::Is::tensor;
    item.slots.push_back(take(value.toTensor()));
    if (item.slots[0] == noSlot)
      item.constant = value; // an undefined tensor is not None
  } else if (value.isTensorList()) {
    item.is = Item::Is::list;
    for (const at::Tensor& tensor : value.toTensorVector())
      item.slots.push_back(take(tensor));
  } else if (value.isOptionalTensorList()) {
    item.is = Item::Is::listOfOptional;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector())
      item.slots.push_back(tensor ? take(*tensor) : noSlot);
  } else {
    item.constant = value;
  }
  return item;
}

/// A tensor that an operation writes into.
void Recorder::write(Op& op, const at::Tensor& tensor) {
  Memory& its = memory.at(memoryOf(tensor));
  its.isUnwritten = false;
  if (its.isForeign)
    refuse(fmt::format("{} writes into an argument or a tensor from outside", op.name()));
  for (Slot slot : its.slots)
    known[static_cast<std::size_t>(slot)].requiresGrad =
        known[static_cast<std::size_t>(slot)].tensor.requires_grad();
}

void Recorder::noteWrites(Op& op, const std::vector<IValue>& arguments) {
  const auto& schema = op.handle.schema();
  if (!schema.is_mutable())
    return;
  std::vector<at::Tensor> written;
  for (std::size_t i = 0; i < arguments.size(); ++i)
    if (const auto* alias = schema.arguments()[i].alias_info(); alias && alias->isWrite()) {
      if (arguments[i].isTensor())
        written.push_back(arguments[i].toTensor());
      else if (arguments[i].isTensorList())
        for (const at::Tensor& tensor : arguments[i].toTensorVector())
          written.push_back(tensor);
    }
  for (const at::Tensor& tensor : written)
    write(op, tensor);
  // A method that returns the tensor it is called on, which no other shares memory with.
  if (written.size() == 1 && op.arguments[0].is == Item::Is::tensor && arguments[0].isTensor() &&
      arguments[0].toTensor().is_same(written[0])) {
    Memory& its = memory.at(memoryOf(written[0]));
    if (its.slots.size() == 1 && schema.returns().size() == 1 &&
        written[0].sizes() == tape.value(op.arguments[0].slots[0]).sizes) {
      op.oldSlot = op.arguments[0].slots[0];
      its.slots.clear();
      slotOf.erase(written[0].unsafeGetTensorImpl());
      return;
    }
  }
  op.isBarrier = true;
  for (const at::Tensor& tensor : written)
    for (Slot slot : memory.at(memoryOf(tensor)).slots) {
      tape.values[static_cast<std::size_t>(slot)].isWrittenInPlace = true;
      tape.values[static_cast<std::size_t>(slot)].constant.reset();
    }
}

/// Numbers that fill tensors: `1 - x` fills one.
void Recorder::noteConstant(const Op& op) {
  Value& value = tape.values[static_cast<std::size_t>(op.results[0].slots[0])];
  if (op.isBarrier || !value.isContiguous)
    return;
  const auto set = [&](double number) { value.constant = number; };
  const auto given = [&](std::size_t i) {
    const IValue& number = op.arguments[i].constant;
    if (number.isScalar())
      set(number.toScalar().toDouble());
  };
  if (op.is({"aten::zeros", "aten::zeros_like", "aten::zero"}))
    set(0);
  else if (op.is({"aten::ones", "aten::ones_like"}))
    set(1);
  else if (op.is({"aten::full", "aten::full_like", "aten::fill"}))
    given(1);
  else if (op.is({"aten::scalar_tensor"}))
    given(0);
}

/// An operation of code that goes around autograd: its results are known to be unknown.
void Recorder::runUnseen(const c10::OperatorHandle& handle, torch::jit::Stack& stack) {
  handle.callBoxed(stack);
  for (const IValue& value : stack)
    if (value.isTensor() && value.toTensor().defined() &&
        slotOf.find(value.toTensor().unsafeGetTensorImpl()) == slotOf.end()) {
      const bool isNew = memory.find(memoryOf(value.toTensor())) == memory.end();
      add(value.toTensor());
      memory[memoryOf(value.toTensor())].isUnseen |= isNew;
    }
}

void Recorder::call(const c10::OperatorHandle& handle, torch::jit::Stack& stack,
                    const c10::impl::LocalDispatchKeySet& now) {
  if (torch::autograd::get_current_graph_task_id() != -1)
    refuse("it runs a backward");
  if (!tape.refusal.empty())
    return handle.callBoxed(stack);
  const bool isAsBefore = now.included_ == local.included_ && now.excluded_ == local.excluded_;
  if (!isAsBefore && std::any_of(stack.begin(), stack.end(), [](const IValue& value) {
        return value.isTensor() || value.isTensorList();
      }))
    return runUnseen(handle, stack);
  const auto& schema = handle.schema();
  const std::vector<IValue> arguments(
      stack.end() - static_cast<std::ptrdiff_t>(schema.arguments().size()), stack.end());
  Op op{handle, {}, {}, at::GradMode::is_enabled()};
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const auto* alias = schema.arguments()[i].alias_info();
    op.arguments.push_back(itemOf(arguments[i], [&](const at::Tensor& tensor) {
      // With an alias: a view, or written.
      return read(tensor, !alias && !isIgnored(schema, arguments, i), op.name());
    }));
  }
  for (const Undeclared& one : kUndeclared)
    if (schema.name() == one.name && arguments[one.statistics].isTensor() &&
        arguments[one.statistics].toTensor().defined() && arguments[one.flag].toBool())
      refuse(fmt::format("{} changes running statistics", op.name()));

  handle.callBoxed(stack);
  if (!tape.refusal.empty())
    return;
  noteWrites(op, arguments);
  const auto before = known.size();
  for (const IValue& value : stack)
    op.results.push_back(itemOf(value, [&](const at::Tensor& tensor) { return make(tensor); }));
  // One that returns what it is given does so whenever the arguments have these shapes and strides.
  const bool hasNew = known.size() != before;
  const bool isTensors = std::all_of(op.results.begin(), op.results.end(),
                                     [](const Item& item) { return item.is == Item::Is::tensor; });
  if (!schema.is_mutable() && !hasNew && isTensors)
    return;
  if (op.results.size() == 1 && op.results[0].is == Item::Is::tensor &&
      op.results[0].slots[0] >= 0) {
    if (op.base().starts_with("aten::empty") || op.base().starts_with("aten::new_empty"))
      memory.at(memoryOf(known.back().tensor)).isUnwritten = true;
    noteConstant(op);
  }
  tape.ops.push_back(std::move(op));
}

void Recorder::finish(const Tensors& results) {
  Item item;
  item.is = Item::Is::list;
  for (const at::Tensor& result : results)
    item.slots.push_back(read(result, true, "the function's end"));
  tape.results.push_back(std::move(item));
}

} // namespace kiln::compiled
