// Running the kernels of a fused function, and the node that autograd runs for its backward.
#include "runtime/Call.h"
#include "runtime/Given.h"
#include "runtime/fuse/Variant.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/copy.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

namespace kiln::fusion {

namespace {

using at::Tensor;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;
using Is = Binding::Is;

/// Elements between the blocks of a kernel's tensor, if they lie apart; else 0.
std::int64_t apartOf(const TensorInfo& info) {
  const std::size_t rank = info.shape.size();
  const bool isBlocks = (rank == 2 || rank == 3) && info.strides.size() == rank;
  return isBlocks && info.shape.back().isStatic() && info.strides[0] > info.shape.back().size
             ? info.strides[0]
             : 0;
}

/// [blocks, elements of one], where a kernel whose blocks lie apart finds them.
Tensor emptyApart(at::IntArrayRef sizes, const at::TensorOptions& options, std::int64_t apart,
                  std::int64_t rowsOfBlock) {
  const std::int64_t block = sizes.back() * rowsOfBlock;
  return at::empty({c10::multiply_integers(sizes) / block, apart}, options).narrow(1, 0, block);
}

/// As a kernel reads it: contiguous, or with blocks as far apart as it says, and where its
/// alignment asks for it. A copy otherwise.
Tensor readable(const Tensor& tensor, const TensorInfo& info, std::int64_t rowsOfBlock) {
  if (const std::int64_t apart = apartOf(info)) {
    if (distanceOfBlocks(tensor, rowsOfBlock) == apart)
      return tensor;
    return emptyApart(tensor.sizes(), tensor.options(), apart, rowsOfBlock)
        .copy_(tensor.reshape({-1, tensor.size(-1) * rowsOfBlock})); // saved, and back otherwise
  }
  Tensor packed = tensor.contiguous();
  const auto address = reinterpret_cast<std::uintptr_t>(packed.const_data_ptr());
  return address % static_cast<std::uintptr_t>(info.alignment) == 0
             ? packed
             : packed.clone(at::MemoryFormat::Contiguous);
}

Tensor allocate(const Part& part, at::IntArrayRef sizes, at::ScalarType dtype) {
  const auto device = part.backend.place == Place::gpu
                          ? at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(part.device))
                          : at::Device(at::kCPU);
  return Tensor(part.backend.empty(sizes, dtype, device));
}

/// What a launch may be given, each part as far as it is there.
struct Tensors {
  std::array<Tensor, maxOperands> operands;
  std::vector<Tensor> results, saved, given;
  Tensor seeds; // the seed, then an offset a dropout
};

/// Launches a part: its inputs among `tensors`, its outputs as they are.
void launch(const Part& part, const Space& space, const Tensors& tensors,
            std::span<const Tensor> outputs) {
  const runtime::Kernel& kernel = *part.kernel.load(std::memory_order_acquire);
  at::SmallVector<void*, 24> pointers;
  at::SmallVector<Tensor, 16> alive;
  for (std::size_t i = 0; i < part.inputs().size(); ++i) {
    const auto [is, index] = part.inputs()[i];
    if (is == Is::seed) {
      pointers.push_back(tensors.seeds.mutable_data_ptr<std::int64_t>() + index);
      continue;
    }
    const Tensor& from = is == Is::operand  ? tensors.operands[index]
                         : is == Is::result ? tensors.results[index]
                         : is == Is::saved  ? tensors.saved[index]
                                            : tensors.given[index];
    alive.push_back(readable(from, kernel.inputs[i], space.rowsOfBlock()));
    pointers.push_back(const_cast<void*>(alive.back().const_data_ptr()));
  }
  for (const Tensor& output : outputs)
    pointers.push_back(output.mutable_data_ptr());
  part.launch(space, pointers);
}

constexpr const char* kTwice =
    "kiln::fuse: the gradient of a gradient was asked for; the kernels of a fused function have "
    "none. Write this part with ATen's operations, or do not pass create_graph";

/// What autograd runs. Of operands and results it keeps what the backward's kernel reads.
struct FusedBackward : torch::autograd::Node {
  FusedBackward(Variant& variant, const Space& space) : variant(variant), space(space) {}

  std::string name() const override { return "KilnFusedBackward"; }

  void release_variables() override {
    const std::lock_guard<std::mutex> held(mutex_);
    operands.clear();
    results.clear();
    saved.clear();
    seeds.reset();
    isReleased = true;
  }

  variable_list apply(variable_list&& grads) override {
    const std::lock_guard<std::mutex> held(mutex_);
    TORCH_CHECK(!isReleased, torch::autograd::ERR_BACKWARD_TWICE);
    variable_list gradients(variant.graph.operands);
    if (std::none_of(grads.begin(), grads.end(), [](const Tensor& g) { return g.defined(); }))
      return gradients;
    Tensors tensors = unpacked(); // saved-tensor hooks may run whatever they like
    {
      const at::AutoDispatchBelowADInplaceOrView below;
      compute(grads, tensors, gradients);
    }
    if (at::GradMode::is_enabled()) {
      variable_list reached = grads;
      for (auto& [index, variable] : operands)
        reached.push_back(variable.unpack());
      refuseSecondGradients(reached, gradients);
    }
    return gradients;
  }

  /// Keeps what the backward reads, after the history of the results is set.
  void keep(std::span<const Tensor* const> from, Tensors& tensors) {
    saved = std::move(tensors.saved);
    seeds = std::move(tensors.seeds);
    for (const Tensor* operand : from)
      operandSizes.emplace_back(operand->sizes());
    if (!variant.hasBackward())
      return;
    for (const auto& [is, index] : variant.backward.inputs()) {
      if (is == Is::operand)
        operands.emplace_back(index, SavedVariable(*from[index], false));
      if (is == Is::result)
        results.emplace_back(index, SavedVariable(tensors.results[index], true));
    }
  }

 private:
  Tensors unpacked() {
    Tensors tensors;
    tensors.saved = saved;
    tensors.seeds = seeds;
    tensors.results.resize(variant.dtypes.size());
    for (auto& [index, variable] : operands)
      tensors.operands[index] = runtime::unpackGiven(variable, [&] {
        return fmt::format("{} keeps its operands for the backward as they were given; write into "
                           "another tensor, or give it a clone()",
                           variant.label);
      });
    for (auto& [index, variable] : results)
      tensors.results[index] = variable.unpack(shared_from_this());
    return tensors;
  }

  void compute(const variable_list& grads, Tensors& tensors, variable_list& gradients) const {
    tensors.given = grads;
    for (std::size_t i = 0; i < grads.size(); ++i)
      if (!grads[i].defined() && variant.isDifferentiable[i])
        tensors.given[i] = at::zeros(space.sizesOf(variant.masks[i]),
                                     firstOf(grads).options().dtype(variant.dtypes[i]));
    std::vector<Tensor> outputs;
    if (variant.hasBackward()) {
      const c10::OptionalDeviceGuard guard(firstOf(grads).device());
      outputs = emptyGradients();
      launch(variant.backward, space, tensors, outputs);
    }
    using From = Derivative::Source::From;
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const auto [from, index] = variant.gradients[i];
      if (from == From::backward)
        gradients[i] = shaped(outputs[index], operandSizes[i]);
      else if (from == From::given)
        gradients[i] = shaped(tensors.given[index], operandSizes[i]);
    }
  }

  /// The same tensor if it fits: autograd sees then that several have it. Else a copy, since
  /// whoever accumulates a view that only he has takes its memory for his own.
  static Tensor shaped(const Tensor& gradient, at::IntArrayRef sizes) {
    return gradient.sizes() == sizes ? gradient : gradient.reshape(sizes).clone();
  }

  std::vector<Tensor> emptyGradients() const {
    std::vector<Tensor> outputs;
    for (std::size_t i = 0; i < variant.gradients.size(); ++i) {
      const auto [from, index] = variant.gradients[i];
      if (from == Derivative::Source::From::backward && index == outputs.size())
        outputs.push_back(allocate(variant.backward, operandSizes[i],
                                   runtime::scalarTypeOf(variant.kind.operands[i].dtype)));
    }
    return outputs;
  }

  static const Tensor& firstOf(const variable_list& grads) {
    return *std::find_if(grads.begin(), grads.end(), [](const Tensor& g) { return g.defined(); });
  }

  Variant& variant;
  const Space space;
  std::vector<at::DimVector> operandSizes;
  std::vector<std::pair<unsigned, SavedVariable>> operands, results;
  std::vector<Tensor> saved;
  Tensor seeds;
  bool isReleased = false;
};

/// Of results, then of what the forward saves.
std::vector<Tensor> emptyResults(const Variant& variant, const Space& space) {
  std::vector<Tensor> outputs;
  for (std::size_t i = 0; i < variant.dtypes.size(); ++i)
    outputs.push_back(
        allocate(variant.forward, space.sizesOf(variant.masks[i]), variant.dtypes[i]));
  for (const Saved& one : variant.saved) {
    at::DimVector sizes;
    for (std::int64_t size : one.sizes)
      sizes.push_back(size < 0 ? space.groupSizes[static_cast<std::size_t>(-1 - size)] : size);
    outputs.push_back(allocate(variant.forward, sizes, runtime::scalarTypeOf(one.dtype)));
  }
  return outputs;
}

void give(Tensors& tensors, const Variant& variant, std::span<const Tensor* const> operands) {
  for (std::size_t i = 0; i < operands.size(); ++i)
    tensors.operands[i] = *operands[i];
  if (variant.graph.dropouts > 0)
    tensors.seeds = at::empty({1 + static_cast<std::int64_t>(variant.graph.dropouts)},
                              operands[0]->options().dtype(at::kLong))
                        .random_();
}

/// Whether a kernel can write it as it is.
bool isWritable(const Tensor& result, const TensorInfo& info, at::ScalarType dtype,
                std::int64_t rowsOfBlock) {
  const std::int64_t apart = apartOf(info);
  const auto address = reinterpret_cast<std::uintptr_t>(result.const_data_ptr());
  return result.scalar_type() == dtype &&
         address % static_cast<std::uintptr_t>(info.alignment) == 0 &&
         (apart != 0 ? distanceOfBlocks(result, rowsOfBlock) == apart : result.is_contiguous());
}

/// Bytes from the first element to behind the last.
std::pair<std::uintptr_t, std::uintptr_t> extentOf(const Tensor& tensor) {
  std::int64_t last = 0;
  for (std::int64_t d = 0; d < tensor.dim(); ++d)
    last += (tensor.size(d) - 1) * tensor.stride(d);
  const auto first = reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr());
  return {first, first + static_cast<std::uintptr_t>((last + 1) * tensor.element_size())};
}

/// Whether two tensors may have an element in common. Chunks of the columns of one tensor have not.
bool mayMeet(const Tensor& a, const Tensor& b, const Space& space) {
  const auto [beginA, endA] = extentOf(a);
  const auto [beginB, endB] = extentOf(b);
  if (endA <= beginB || endB <= beginA)
    return false;
  const std::int64_t rows = space.rowsOfBlock(), apart = distanceOfBlocks(a, rows);
  if (apart == 0 || distanceOfBlocks(b, rows) != apart || a.element_size() != b.element_size())
    return true;
  const std::int64_t distance =
      (static_cast<std::int64_t>(beginB) - static_cast<std::int64_t>(beginA)) / a.element_size() %
      apart;
  const std::int64_t behind = distance < 0 ? distance + apart : distance; // of b, in a's columns
  return behind < rows * a.size(-1) || behind + rows * b.size(-1) > apart;
}

/// Whether a program may write a result where it reads operands: it meets none, or is one itself,
/// and each thread of its one kernel has read what it writes.
bool isFree(const Variant& variant, const Tensor& result, std::span<const Tensor* const> operands,
            const Space& space) {
  constexpr std::int64_t vector = 16;
  const bool isInPlace = variant.graph.staysInPlace &&
                         variant.forward.kernel.load(std::memory_order_acquire)->launches == 1 &&
                         space.width * result.element_size() % vector == 0;
  return std::all_of(operands.begin(), operands.end(), [&](const Tensor* operand) {
    const bool isSame = operand->const_data_ptr() == result.const_data_ptr() &&
                        operand->scalar_type() == result.scalar_type() &&
                        operand->sizes() == result.sizes() &&
                        operand->strides() == result.strides();
    return !operand->is_alias_of(result) || (isSame && isInPlace) ||
           !mayMeet(*operand, result, space);
  });
}

} // namespace

void refuseSecondGradients(const std::vector<Tensor>& reached,
                           const std::vector<Tensor>& gradients) {
  if (!torch::autograd::compute_requires_grad(at::TensorList(reached)))
    return;
  const auto node = std::make_shared<torch::autograd::Error>(
      kTwice, torch::autograd::collect_next_edges(at::TensorList(reached)));
  for (const Tensor& gradient : gradients)
    if (gradient.defined())
      torch::autograd::set_history(gradient, node);
}

void runKernelInto(Variant& variant, const Space& space, std::span<const Tensor* const> operands,
                   std::span<const Tensor> results) {
  const at::AutoDispatchBelowADInplaceOrView below;
  const c10::OptionalDeviceGuard guard(operands[0]->device());
  Tensors tensors;
  give(tensors, variant, operands);
  std::vector<Tensor> outputs;
  const auto& infos = variant.forward.kernel.load(std::memory_order_acquire)->outputs;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const at::ScalarType dtype = variant.dtypes[i];
    const std::int64_t apart = apartOf(infos[i]), rows = space.rowsOfBlock();
    outputs.push_back(isWritable(results[i], infos[i], dtype, rows) &&
                              isFree(variant, results[i], operands, space)
                          ? results[i]
                      : apart != 0 ? emptyApart(results[i].sizes(),
                                                results[i].options().dtype(dtype), apart, rows)
                                   : allocate(variant.forward, results[i].sizes(), dtype));
  }
  launch(variant.forward, space, tensors, outputs);
  for (std::size_t i = 0; i < results.size(); ++i)
    if (!outputs[i].is_same(results[i]))
      results[i].copy_(outputs[i].reshape(results[i].sizes()));
}

std::vector<Tensor> runKernels(Variant& variant, const Space& space,
                               std::span<const Tensor* const> operands) {
  Tensors tensors;
  std::vector<Tensor> outputs;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    const c10::OptionalDeviceGuard guard(operands[0]->device());
    give(tensors, variant, operands);
    outputs = emptyResults(variant, space);
    launch(variant.forward, space, tensors, outputs);
  }
  const auto results = static_cast<std::ptrdiff_t>(variant.dtypes.size());
  tensors.saved.assign(outputs.begin() + results, outputs.end());
  outputs.resize(static_cast<std::size_t>(results));
  if (!variant.hasGradient())
    return outputs;
  std::vector<Tensor> inputs;
  for (const Tensor* operand : operands)
    inputs.push_back(*operand);
  const auto node = std::make_shared<FusedBackward>(variant, space);
  node->set_next_edges(torch::autograd::collect_next_edges(at::TensorList(inputs)));
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (variant.isDifferentiable[i])
      torch::autograd::set_history(outputs[i], node);
    else
      torch::autograd::set_history(Tensor(), node);
  tensors.results = outputs;
  node->keep(operands, tensors);
  return outputs;
}

} // namespace kiln::fusion
