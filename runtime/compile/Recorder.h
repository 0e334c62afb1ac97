// What writes a tape down, call by call, while a function runs: which tensors its operations read,
// make and write, and why it cannot be done again as it was. Recording.cpp hands it the calls.
#pragma once

#include "runtime/compile/Tape.h"

#include <c10/core/Allocator.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <map>
#include <set>
#include <torch/library.h>

namespace kiln::compiled {

/// Memory of tensors that the function made, or found.
struct Memory {
  std::vector<Slot> slots;  // that lie in it
  bool isForeign = false;   // of arguments and of what was captured
  bool isUnwritten = false; // by at::empty(); whatever writes to it has not been seen
  bool isUnseen = false;    // by an operation below autograd
};

/// Addresses that this thread has been given while it records, told by the allocators, which take
/// it for a profiler.
struct Allocations final : c10::MemoryReportingInfoBase {
  void reportMemoryUsage(void* address, std::int64_t bytes, std::size_t, std::size_t,
                         c10::Device) override {
    if (bytes > 0)
      live.insert(address);
    else
      live.erase(address);
  }
  bool memoryProfilingEnabled() const override { return true; }

  std::set<const void*> live;
};

/// Of one function, on one thread.
class Recorder {
 public:
  Recorder(const Tensors& arguments, const Allocations& allocations)
      : allocations(allocations), local(c10::impl::tls_local_dispatch_key_set()) {
    for (const at::Tensor& argument : arguments)
      tape.inputs.push_back(addForeign(argument));
  }

  void call(const c10::OperatorHandle& handle, torch::jit::Stack& stack,
            const c10::impl::LocalDispatchKeySet& now);
  void finish(const Tensors& results);
  void refuse(const std::string& why) {
    if (tape.refusal.empty())
      tape.refusal = why;
  }

  Tape tape;

 private:
  /// Of a tensor as the tape knows it, in the order of slots.
  struct Known {
    at::Tensor tensor; // kept, so that no other gets its address
    bool requiresGrad;
  };

  static const void* memoryOf(const at::Tensor& tensor) {
    return tensor.has_storage()
               ? tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl()
               : static_cast<const void*>(tensor.unsafeGetTensorImpl());
  }
  Slot add(const at::Tensor& tensor);
  Slot addForeign(const at::Tensor& tensor);
  Slot twinOf(const at::Tensor& tensor, Memory& its);
  Slot read(const at::Tensor& tensor, bool isContent, const char* op);
  Slot make(const at::Tensor& tensor);
  template <typename Take> Item itemOf(const c10::IValue& value, const Take& take);
  void write(Op& op, const at::Tensor& tensor);
  void noteWrites(Op& op, const std::vector<c10::IValue>& arguments);
  void noteConstant(const Op& op);
  void runUnseen(const c10::OperatorHandle& handle, torch::jit::Stack& stack);

  const Allocations& allocations;
  c10::impl::LocalDispatchKeySet local;
  std::vector<Known> known;
  Tensors twins;                      // kept too
  std::map<const void*, Slot> slotOf; // by tensor
  std::map<const void*, Memory> memory;
};

} // namespace kiln::compiled
