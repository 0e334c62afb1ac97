// What autograd keeps of an attention, whoever has computed it: its operands, the output, the
// log-sum-exp of each row, and the seed of its dropout. Attention.cpp's.
#pragma once

#include "runtime/Given.h"
#include "runtime/Gradient.h"
#include "runtime/ops/AttentionByATen.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable.h>

namespace kiln::runtime::attending {
namespace {

using at::Tensor;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

/// `grad`, the output and the log-sum-exp as the forward's kernel had them.
AttentionGradients gradientsOf(const Tensor& grad, const AttentionTensors& given,
                               const AttentionForm& form, const Tensor& seeds,
                               const AttentionSaved& saved);

struct AttentionNode : torch::autograd::Node {
  AttentionNode(const AttentionTensors& given, const AttentionForm& form)
      : Node(torch::autograd::collect_next_edges(given.query, given.key, given.value, given.bias)),
        form(form), query(given.query, false), key(given.key, false), value(given.value, false),
        bias(given.bias, false), mask(kept(given.mask), false) {}

  std::string name() const override { return "KilnAttentionBackward"; }
  void release_variables() override {
    const std::lock_guard<std::mutex> held(mutex_);
    for (SavedVariable* one : {&query, &key, &value, &bias, &mask, &output, &lse, &seeds})
      one->reset_data();
  }
  variable_list apply(variable_list&& grads) override {
    const std::lock_guard<std::mutex> held(mutex_);
    const Tensor& grad = grads[0];
    std::array<bool, 4> wanted{};
    for (std::size_t i = 0; i < wanted.size(); ++i)
      wanted[i] = task_should_compute_output(i);
    if (!grad.defined() || wanted == std::array<bool, 4>{})
      return variable_list(wanted.size());
    const auto of = [](const SavedVariable& one) { return unpackGiven(one, "attention"); };
    const AttentionTensors given = {of(query), of(key), of(value), of(bias), of(mask)};
    const Tensor drawn = seeds.unpack();
    // Whoever differentiates twice, or many gradients at once, does so through the dispatcher.
    const auto [dq, dk, dv, db] =
        at::GradMode::is_enabled() || whyNotPlain(grad)
            ? attentionGradients(grad, given, form, drawn, wanted, at::GradMode::is_enabled())
            : gradientsOf(
                  grad, given, form, drawn,
                  {unpackGiven(output, "attention", shared_from_this()), lse.unpack(), wanted});
    return {dq, dk, dv, db};
  }

  /// One made in inference mode nobody may keep; ATen keeps another of floats.
  static Tensor kept(const Tensor& mask) {
    return mask.defined() && mask.is_inference() ? mask.clone() : mask;
  }

  const AttentionForm form;
  SavedVariable query, key, value, bias, mask, output, lse, seeds;
};

} // namespace
} // namespace kiln::runtime::attending
