// A fused function for one kind of operands: its kernels, forward and backward, and how their
// tensors are found among what a call has.
#pragma once

#include "kiln/derivative.h"
#include "runtime/Order.h"
#include "runtime/fuse/Graph.h"
#include "runtime/fuse/Space.h"

namespace kiln::fusion {

/// What a tensor of a kernel is.
struct Binding {
  enum class Is { operand, result, saved, seed, given } is; // given: the gradient of a result
  unsigned index;
};

/// What the forward keeps for the backward alone.
struct Saved {
  DType dtype;
  at::SmallVector<std::int64_t, 4> sizes; // below 0: that of the group -1 - size
};

class Variant;

/// The forward or the backward as an order.
class Part final : public runtime::Order {
 public:
  Part(Variant& variant, runtime::Backend& backend, int device, bool isBackward)
      : Order(backend, device), variant(variant), isBackward(isBackward) {}

  runtime::OrderText text() const override;
  void accept(const runtime::Kernel& made) override;
  /// Where each of the kernel's inputs comes from.
  const std::vector<Binding>& inputs() const { return bindings; }
  /// Launches it; `pointers`: inputs, then outputs.
  void launch(const Space& space, std::span<void* const> pointers) const;

 private:
  Binding bindingOf(std::string_view name, unsigned& nextSaved) const;
  Mask maskOf(const Binding& binding) const;
  /// What the inputs of the part's function are, and out of which group each run-time size is.
  /// `saved`: what a backward reads of the forward.
  struct Roles {
    std::vector<Binding> bindings;
    std::vector<unsigned> groupOf;
  };
  Roles rolesOf(std::span<const TensorInfo> inputs, std::span<const TensorInfo> outputs,
                std::span<const Saved> saved) const;
  /// What a forward with these outputs and groups keeps.
  std::vector<Saved> savedOf(std::span<const TensorInfo> outputs,
                             std::span<const unsigned> groups) const;
  /// As text, for what a plan tells of it.
  Program written() const;
  /// Of the first call, in the order of their symbols.
  std::vector<std::int64_t> runTimeSizes() const;

  Variant& variant;
  const bool isBackward;
  std::vector<Binding> bindings;
  std::vector<unsigned> groupOf; // of each run-time size
};

class Variant {
 public:
  /// Throws Error(input) for what cannot be written or differentiated.
  Variant(const Graph& graph, const Kind& kind, const std::string& name, runtime::Backend& backend,
          const Space& space);

  const Signature key;
  const Graph& graph;
  const Kind kind;
  const std::string label;            // "gate 8192x512 bf16"
  const Space first;                  // call
  std::vector<at::ScalarType> dtypes; // of results
  std::vector<Mask> masks;
  std::string module, forwardName, backwardName;
  std::vector<Derivative::Source> gradients; // of each operand; none: nothing is differentiated
  std::vector<bool> isDifferentiable;        // each result
  std::vector<Saved> saved;                  // once the forward is there
  Part forward, backward;
  std::atomic<std::uint64_t> used = 0, missed = 0;

  bool hasGradient() const { return !gradients.empty(); }
  bool hasBackward() const { return !backwardName.empty(); }
};

/// The dtypes of the results for operands of this kind.
std::vector<at::ScalarType> resultTypes(const Graph& graph, const Kind& kind);

/// Computes the results of a call by the variant's kernels, which must be there, and records how
/// their gradients are computed.
std::vector<at::Tensor> runKernels(Variant& variant, const Space& space,
                                   std::span<const at::Tensor* const> operands);

/// Of computed gradients: says so when somebody wants their own gradients, by the tensors that they
/// depend on.
void refuseSecondGradients(const std::vector<at::Tensor>& reached,
                           const std::vector<at::Tensor>& gradients);

/// Writes the results of a call to tensors that are there; nothing is recorded.
void runKernelInto(Variant& variant, const Space& space,
                   std::span<const at::Tensor* const> operands,
                   std::span<const at::Tensor> results);

} // namespace kiln::fusion
