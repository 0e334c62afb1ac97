// What autograd keeps of a cross-entropy, and its formulas of ATen's operations;
// CrossEntropy.cpp's.
#pragma once

#include "runtime/Gradient.h"
#include "runtime/Scale.h"
#include "runtime/Text.h"

#include <ATen/SavedTensorHooks.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/_log_softmax_cpu_dispatch.h>
#if KILN_TORCH_CUDA
#include <ATen/ops/_log_softmax_cuda_dispatch.h>
#endif

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/scatter.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cmath>

namespace kiln::runtime::cross_entropy {
namespace {

using at::Tensor;
using torch::autograd::variable_list;

// The last: whether the gradient is wanted, and how losses are reduced.
enum Bit : unsigned { x, target, dloss, saves, ofEach, ofMean };
enum Dtype : unsigned { ofX, ofLoss }; // in a key

/// What is compiled in: how losses are reduced, and what counts.
struct Form {
  std::int64_t reduction = at::Reduction::Mean;
  std::int64_t ignored = -100; // target of rows that do not count
  double smoothing = 0;        // of labels

  /// Into the key; or why it cannot be.
  Reason describe(Key& key) const {
    if (ignored != static_cast<std::int32_t>(ignored))
      return "an ignore_index beyond 32 bits";
    if (!(smoothing >= 0 && smoothing <= 1))
      return "label smoothing that is not from 0 to 1"; // ATen says so
    key.index = static_cast<std::int32_t>(ignored);
    key.number = smoothing;
    key.variant |= static_cast<unsigned>(reduction == at::Reduction::None) << ofEach |
                   static_cast<unsigned>(reduction == at::Reduction::Mean) << ofMean;
    return nullptr;
  }
};

constexpr Natives<Tensor(const Tensor&, std::int64_t, bool)> logSoftmaxes =
    KILN_NATIVES(_log_softmax);

/// Gradients of fp16 are kept so many times too large: those of a mean over many rows would be too
/// small for it, before the loss's own gradient, which is there to prevent that, is known.
double magnifierOf(at::ScalarType type) {
  return type == at::kHalf ? 0x1p15 : 1;
}

/// What a forward makes for a loss with a gradient.
struct Made {
  Tensor loss;
  Tensor slope; // the gradient of the logits, magnified; then not yet times the share
  Tensor share; // of a mean
};

/// What autograd runs: keeps the gradient of the logits, and classes for gradients of it.
struct CrossEntropyNode : torch::autograd::Node {
  CrossEntropyNode(const Tensor& logits, const Tensor& classes, const Form& form, Made& made)
      : Node(torch::autograd::collect_next_edges(logits)), form(form), share(std::move(made.share)),
        magnifier(magnifierOf(logits.scalar_type())), slope(made.slope, false),
        classes(classes, false), isPacked(at::SavedTensorDefaultHooks::get_hooks().has_value()) {}

  std::string name() const override { return "KilnCrossEntropyBackward"; }
  void will_release_variables() override {
    const std::lock_guard<std::mutex> held(mutex_);
    lastTask = torch::autograd::get_current_graph_task_id();
  }
  void release_variables() override {
    const std::lock_guard<std::mutex> held(mutex_);
    slope.reset_data();
    classes.reset_data();
  }
  variable_list apply(variable_list&& grads) override {
    const std::lock_guard<std::mutex> held(mutex_);
    if (!grads[0].defined())
      return {Tensor()};
    const Tensor kept = slope.unpack();
    if (at::GradMode::is_enabled())
      return {byFormula(grads[0], kept, classes.unpack())};
    if (whyNotPlain(grads[0]) || whyNotPlain(kept))
      return {at::mul(kept, factorOf(grads[0])).to(kept.scalar_type())};
    const at::AutoDispatchBelowADInplaceOrView below;
    return {scaled(kept, grads[0])};
  }

  const Form form;
  const Tensor share;
  const double magnifier;
  torch::autograd::SavedVariable slope, classes;
  const bool isPacked; // by hooks: whoever else has what they gave is not known

 private:
  /// What the slope has to be multiplied by, with two dimensions and so in fp32.
  Tensor factorOf(const Tensor& grad) const {
    Tensor factor = grad.to(at::kFloat);
    if (magnifier != 1)
      factor = factor * (1 / magnifier);
    if (magnifier != 1 && share.defined())
      factor = factor * share;
    return form.reduction == at::Reduction::None ? factor.unsqueeze(1) : factor.view({1, 1});
  }

  /// In place where nobody reads it again.
  Tensor scaled(const Tensor& kept, const Tensor& grad) const {
    const Tensor factor = factorOf(grad);
    if (isPacked || lastTask != torch::autograd::get_current_graph_task_id()) {
      Tensor dx = at::empty_like(kept);
      return at::mul_out(dx, kept, factor);
    }
    if (form.reduction == at::Reduction::None)
      return kept.mul_(factor);
    scaleUnlessOne(backendOf(placeOf(kept)), kept, factor);
    return kept;
  }

  /// By ATen's operations, with gradients of its own. Of logits only the differences matter, and
  /// these follow from the gradient: the others that it gives have the history of those that were.
  Tensor byFormula(const Tensor& grad, const Tensor& kept, const Tensor& t) const {
    const auto width = kept.size(1);
    const Tensor counts = t.ne(form.ignored).unsqueeze(1),
                 known = at::where(t.ge(0) & t.lt(width), t, at::zeros_like(t)).unsqueeze(1);
    Tensor goal = at::full_like(kept, form.smoothing / static_cast<double>(width),
                                at::TensorOptions(at::kFloat));
    goal = at::scatter(goal, 1, known, goal.select(1, 0).unsqueeze(1) + (1 - form.smoothing));
    Tensor each = grad.to(at::kFloat);
    if (share.defined())
      each = each * share;
    each = form.reduction == at::Reduction::None ? each.unsqueeze(1) : each.expand({1, 1});
    each = at::where(counts, each, at::zeros_like(each));
    const Tensor logits = torch::autograd::make_variable(
        at::where(counts, logarithmsOf(kept, goal, known), at::zeros_like(goal)), next_edge(0));
    return ((at::softmax(logits, 1) - goal) * each).to(kept.scalar_type());
  }

  /// Of the softmax. Its element of the known class is one less a sum: more digits than are left
  /// of it in a difference from one.
  Tensor logarithmsOf(const Tensor& kept, const Tensor& goal, const Tensor& known) const {
    const at::NoGradGuard unrecorded;
    Tensor p = kept.to(at::kFloat) / magnifier;
    if (magnifier == 1 && share.defined())
      p = p / share;
    p = at::scatter((p + goal).clamp_min(0), 1, known, 0);
    return at::scatter(p, 1, known, (1 - p.sum(1, /*keepdim=*/true)).clamp_min(0)).log();
  }

  int lastTask = -1; // id of the run after which nothing is kept
};

/// By ATen's operations, in fp32, what the kernel computes: the loss of each row, and into `slope`,
/// if it is defined, the gradients of these times `weight`. Only a part of the rows are in fp32 at
/// a time.
Tensor eachByFormula(const Tensor& logits, const Tensor& classes, const Form& form,
                     const Tensor& slope, const Tensor& weight) {
  const std::int64_t rows = logits.size(0), width = logits.size(1), part = (rows + 15) / 16;
  const double other = form.smoothing / static_cast<double>(width), mine = 1 - form.smoothing;
  const auto native = logits.is_cpu() ? logSoftmaxes.cpu : logSoftmaxes.gpu;
  Tensor each = at::empty({rows, 1}, logits.options().dtype(at::kFloat));
  for (std::int64_t row = 0; row < rows; row += part) {
    const std::int64_t end = std::min(row + part, rows);
    const Tensor t = classes.slice(0, row, end).unsqueeze(1), ignored = t.eq(form.ignored);
    const Tensor isNone = t.lt(0) | t.ge(width), known = t.masked_fill(isNone, 0);
    Tensor p = native(logits.slice(0, row, end).to(at::kFloat), 1, false);
    Tensor loss = at::gather(p, 1, known) * -mine;
    if (other != 0)
      loss.sub_(p.sum(1, /*keepdim=*/true), other);
    each.slice(0, row, end).copy_(loss.masked_fill_(isNone, NAN).masked_fill_(ignored, 0));
    if (!slope.defined())
      continue;
    p.exp_();
    if (other != 0)
      p.sub_(other);
    p.scatter_add_(1, known, at::full_like(loss, -mine)).mul_(weight);
    slope.slice(0, row, end).copy_(p.masked_fill_(isNone, NAN).masked_fill_(ignored, 0));
  }
  return each.squeeze(1);
}

} // namespace
} // namespace kiln::runtime::cross_entropy
