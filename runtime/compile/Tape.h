// What a function did with tensors: ATen's operations as it called them, in order, above autograd
// and autocast, with tensors by number. A tape that is refused says why; it cannot be run again.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace kiln::compiled {

using Tensors = std::vector<at::Tensor>;
using Slot = int; // of a value of the tape
inline constexpr Slot noSlot = -1;

/// An argument or result of an operation.
struct Item {
  enum class Is { constant, tensor, list, listOfOptional } is = Is::constant;
  c10::IValue constant;
  std::vector<Slot> slots; // noSlot: an undefined or missing tensor
};

struct Op {
  c10::OperatorHandle handle;
  std::vector<Item> arguments, results;
  bool gradMode = true;
  /// Writes into tensors that others may see: nothing may move past it.
  bool isBarrier = false;
  /// In place on a tensor that no other shares memory with: from `oldSlot`, its first argument, to
  /// the slot of its result. Same as the operation that returns a new tensor.
  Slot oldSlot = noSlot;

  std::string base() const;      // "aten::add", of add_ too
  std::string shortName() const; // "add"
  bool is(std::initializer_list<const char*> bases) const;
  Slot result() const { return results[0].slots[0]; }
  const char* name() const { return handle.schema().name().c_str(); }
};

struct Value {
  at::DimVector sizes, strides;
  at::ScalarType dtype = at::kFloat;
  at::Device device = at::kCPU;
  bool isContiguous = true;
  bool isWrittenInPlace = false;  // by a barrier
  std::optional<double> constant; // all its elements

  std::int64_t bytes() const;
};

using Reads = std::map<unsigned, std::vector<Slot>>; // by operation

struct Tape {
  std::vector<Value> values;
  std::vector<Op> ops;
  std::vector<Slot> inputs;
  std::vector<Item> results;                         // one
  std::vector<std::pair<Slot, at::Tensor>> captured; // what the function read beside its arguments
  std::string refusal;

  const Value& value(Slot slot) const { return values[static_cast<std::size_t>(slot)]; }
  /// The tensors that an operation reads, but for those of one number.
  std::vector<Slot> operandsOf(const Op& op) const;
  /// Whether nobody needs what an operation makes, by operation: weights that are averaged for a
  /// caller who does not ask for them, say. `reads`: of operations that read something else.
  std::vector<bool> dead(const Reads& reads = {}) const;
  /// Calls `f` with every slot that an operation reads or makes.
  static void forEach(const std::vector<Item>& items, const std::function<void(Slot)>& f);
};

/// Calls `f` and records it; its results are in `results`. Throws what `f` throws.
Tape record(const std::function<Tensors(const Tensors&)>& f, const Tensors& arguments,
            Tensors& results);
/// Whether a thread can: not while it is profiled.
bool canRecord();
/// Whether this thread is in record().
bool isRecording();

} // namespace kiln::compiled
