// ATen's attention and its backward for tasks of the tuner: as routers call it where it is chosen.
#include "runtime/Call.h"
#include "runtime/baseline/Trial.h"
#include "runtime/ops/AttentionByATen.h"
#include "runtime/ops/AttentionText.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <algorithm>
#include <cmath>
#include <utility>

namespace kiln::runtime {

namespace {

using at::Tensor;

/// Tensors of a program's sizes.
class Drawn {
 public:
  Drawn(std::vector<std::int64_t> sizes, const Program& program, Place place)
      : sizes(std::move(sizes)), inputs(program.inputs()), outputs(program.outputs()),
        device(place == Place::gpu ? at::kCUDA : at::kCPU) {}

  /// Queries, keys and values of a type that routers take, and no dropout.
  bool isAttention() const {
    const auto isOf = [&](const char* name) {
      const TensorInfo* info = find(inputs, name);
      return info && (info->shape.size() == 4 || info->shape.size() == 5) &&
             info->shape.size() - 1 <= sizes.size() && info->dtype == inputs[0].dtype;
    };
    const bool isKnown =
        !inputs.empty() && (inputs[0].dtype == DType::f32 || inputs[0].dtype == DType::bf16 ||
                            inputs[0].dtype == DType::f16);
    return isKnown && isOf("q") && isOf("k") && isOf("v") && !find(inputs, "seed");
  }
  bool hasOutput(const char* name) const { return find(outputs, name) != nullptr; }

  AttentionCall call(bool causal) const {
    AttentionCall all;
    all.query = draw("q");
    all.key = draw("k");
    all.value = draw("v");
    all.bias = draw("b");
    all.mask = draw("m");
    all.scale = 1 / std::sqrt(static_cast<double>(all.query.size(-1)));
    all.causal = causal;
    all.saves = true;
    return all;
  }

 private:
  static const TensorInfo* find(const std::vector<TensorInfo>& all, std::string_view name) {
    const auto found = std::ranges::find(all, name, &TensorInfo::name);
    return found == all.end() ? nullptr : &*found;
  }
  /// Undefined where the program has no such operand.
  Tensor draw(const char* name) const {
    const TensorInfo* info = find(inputs, name);
    if (!info)
      return {};
    at::DimVector shape;
    for (const Extent& extent : info->shape)
      shape.push_back(extent.isStatic() ? extent.size
                                        : sizes.at(static_cast<std::size_t>(extent.symbol)));
    const at::TensorOptions options = at::TensorOptions(device);
    return info->dtype == DType::i1
               ? at::ones(shape, options.dtype(at::kBool)) // as kernels are timed
               : at::randn(shape, options.dtype(scalarTypeOf(info->dtype)));
  }

  const std::vector<std::int64_t> sizes;
  const std::vector<TensorInfo> inputs, outputs;
  const at::DeviceType device;
};

Trial trialOf(const Drawn& drawn, bool causal, const std::array<bool, 4>* wanted) {
  const auto call = std::make_shared<const AttentionCall>(drawn.call(causal));
  Trial trial;
  for (const Tensor* tensor : {&call->query, &call->key, &call->value, &call->bias, &call->mask})
    trial.bytes += tensor->defined() ? static_cast<std::int64_t>(tensor->nbytes()) : 0;
  Call described;
  if (!wanted) {
    describeAttention(described, *call);
    trial.module = attentionText(described.key);
    trial.call = [call] {
      const auto [output, lse] = attentionByATen(call->query, *call);
      return std::vector<Tensor>{output, lse};
    };
    return trial;
  }
  const auto [output, lse] = attentionByATen(call->query, *call);
  const AttentionSaved saved{output, lse, *wanted};
  const Tensor grad = at::randn_like(output);
  trial.bytes += 2 * static_cast<std::int64_t>(output.nbytes());
  describeAttention(described, *call, saved, grad);
  trial.module = attentionBackwardText(described.key);
  trial.call = [call, saved, grad] {
    const auto [dq, dk, dv, db] = attentionBackwardByATen(grad, *call, saved);
    return std::vector<Tensor>{dq, dk, dv, db};
  };
  return trial;
}

} // namespace

Trials attentionTrials(const TuningTask& task, const Program& program, Place place) {
  const Drawn drawn(task.sizes, program, place),
      small(std::vector<std::int64_t>(task.sizes.size(), 2), program, Place::cpu);
  if (!drawn.isAttention())
    return {};
  const bool isBackward = drawn.hasOutput("dq") || drawn.hasOutput("dk") || drawn.hasOutput("dv") ||
                          drawn.hasOutput("db");
  const std::array<bool, 4> wanted = {drawn.hasOutput("dq"), drawn.hasOutput("dk"),
                                      drawn.hasOutput("dv"), drawn.hasOutput("db")};
  const auto make = [isBackward, wanted](const Drawn& tensors, bool causal) {
    return trialOf(tensors, causal, isBackward ? &wanted : nullptr);
  };
  const std::string text = canonical(task.module, task.options);
  for (const bool causal : {false, true}) {
    const Trial one = make(small, causal); // the text is that of all sizes
    if (canonical(Module::parse(one.module), {}) == text)
      return {isBackward ? "attention_backward" : "scaled_dot_product_attention",
              [make, drawn, causal] { return make(drawn, causal); }};
  }
  return {};
}

} // namespace kiln::runtime
