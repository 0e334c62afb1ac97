// aten::cross_entropy_loss with classes in the last dimension. ATen makes it of a log-softmax,
// which writes as much as it reads and is kept for the backward, and of a lookup. Here it is one
// pass over the logits; where a gradient is wanted that pass writes it too, for a loss whose own
// gradient is one, and it is kept in place of the log-softmax: logits may be overwritten, and a
// backward from the loss itself has nothing left to do. It is taken above autograd: what has a
// wrapper, a tangent or a mode around it goes on to ATen's composition.
#include "kiln/derivative.h"
#include "runtime/Gradient.h"
#include "runtime/Scale.h"
#include "runtime/Text.h"

#include <ATen/SavedTensorHooks.h>
#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/_log_softmax_cpu_dispatch.h>
#include <ATen/ops/cross_entropy_loss_compositeimplicitautograd_dispatch.h>
#if KILN_TORCH_CUDA
#include <ATen/ops/_log_softmax_cuda_dispatch.h>
#endif

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/reciprocal.h>
#include <ATen/ops/scatter.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cmath>

namespace kiln::runtime {

extern Route crossEntropy, crossEntropyShare;

namespace cross_entropy {
namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;
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

/// Of the loss: one number a row, or one for all.
std::string lossType(const Key& key, DType dtype) {
  return has(key, ofEach) ? fmt::format("tensor<?x{}>", name(dtype))
                          : fmt::format("tensor<{}>", name(dtype));
}
/// How many rows count.
std::string countText(const Key& key) {
  return fmt::format("  %ignored = arith.constant dense<{}> : tensor<i64>\n"
                     "  %ignoreds = kiln.broadcast %ignored dims [] like %target"
                     " : tensor<i64>, tensor<?xi64> -> tensor<?xi64>\n"
                     "  %counts = arith.cmpi ne, %target, %ignoreds : tensor<?xi64>\n"
                     "  %ones = arith.uitofp %counts : tensor<?xi1> to tensor<?xf32>\n"
                     "  %count = kiln.reduce sum %ones dims [0] : tensor<?xf32> -> tensor<f32>\n",
                     key.index);
}

std::string forwardText(const Key& key) {
  const std::string rows = rowsType(key), wide = lossType(key, DType::f32),
                    narrow = lossType(key, key.dtypes[ofLoss]);
  const bool narrows = key.dtypes[ofLoss] != DType::f32;
  std::string names = "%loss", types = narrow, results = narrow;
  if (has(key, ofMean)) {
    names += ", %count";
    types += ", tensor<f32>";
    results += fmt::format(", tensor<f32>{}", kNoGradient);
  }
  std::string text =
      fmt::format("func.func @cross_entropy(%x: {0}, %target: tensor<?xi64>) -> ({1}) {{\n"
                  "  %{2}, %lse = kiln.cross_entropy %x, %target\n"
                  "      {{ignore_index = {3} : i64, label_smoothing = {4}}}\n"
                  "      : ({0}, tensor<?xi64>) -> (tensor<?xf32>, tensor<?xf32>)\n",
                  rows, results,
                  !has(key, ofEach) ? "each"
                  : narrows         ? "wide"
                                    : "loss",
                  key.index, numberText(key));
  const char* result = narrows ? "wide" : "loss";
  if (!has(key, ofEach))
    text += fmt::format("  %{} = kiln.reduce sum %each dims [0] : tensor<?xf32> -> tensor<f32>\n",
                        has(key, ofMean) ? "total" : result);
  if (has(key, ofMean))
    text +=
        countText(key) + fmt::format("  %{} = arith.divf %total, %count : tensor<f32>\n", result);
  if (narrows)
    text += fmt::format("  %loss = arith.truncf %wide : {} to {}\n", wide, narrow);
  return text + fmt::format("  return {} : {}\n}}\n", names, types);
}

Reason describeLogits(Call& call, const Tensor& logits, const Tensor& classes, const Form& form) {
  if (logits.dim() != 2 || classes.dim() != 1)
    return "logits that are not [rows, classes], with a class for each row";
  if (Reason why = call.setRows(logits, 1))
    return why;
  if (call.key.width < 2)
    return "fewer than 2 classes";
  if (Reason why = call.add(target, &classes, logits, call.rows, at::kLong))
    return why;
  return form.describe(call.key);
}

/// One over the number of rows that count.
Tensor shareByFormula(const Tensor&, const Tensor& classes, std::int64_t ignored) {
  return at::reciprocal(at::sum(classes.ne(ignored), at::kFloat));
}
struct CrossEntropyShare {
  using Signature = Tensor(const Tensor&, const Tensor&, std::int64_t);
  static constexpr Layer layer = Layer::gradient;
  static constexpr Natives<Signature> natives = {&shareByFormula, &shareByFormula};
  static constexpr const char* operands[] = {"target"};
  static constexpr const char* results[] = {"share"};

  static std::string module(const Key& key) {
    return fmt::format("func.func @cross_entropy_share(%target: tensor<?xi64>) -> tensor<f32> {{\n"
                       "{}"
                       "  %one = arith.constant dense<1.0> : tensor<f32>\n"
                       "  %share = arith.divf %one, %count : tensor<f32>\n"
                       "  return %share : tensor<f32>\n}}\n",
                       countText(key));
  }
  static Reason describe(Call& call, const Tensor& logits, const Tensor& classes,
                         std::int64_t ignored) {
    return describeLogits(call, logits, classes, {at::Reduction::Sum, ignored, 0});
  }
  static Tensor run(const Launch& launch, const Tensor&, const Tensor& classes, std::int64_t) {
    const auto t = classes.expect_contiguous();
    Tensor share = launch.empty({}, at::kFloat);
    launch({&*t}, {&share});
    return share;
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

struct CrossEntropy {
  using Signature = Tensor(const Tensor&, const Tensor&, const Maybe&, std::int64_t, c10::SymInt,
                           double);
  static constexpr Layer layer = Layer::autograd;
  static constexpr Natives<Signature> natives = {
      &at::compositeimplicitautograd::cross_entropy_loss_symint,
      &at::compositeimplicitautograd::cross_entropy_loss_symint};
  static constexpr const char* operands[] = {"x", "target", "dloss"};
  static constexpr const char* results[] = {"loss", "dx", "count"};

  static std::string module(const Key& key) {
    if (!has(key, saves))
      return forwardText(key);
    Key sums = key; // of a mean the division comes later
    sums.variant &= ~(1U << ofMean);
    sums.dtypes[ofLoss] = DType::f32;
    return withGradient(Module::parse(forwardText(sums))).text();
  }

  static Reason describe(Call& call, const Tensor& logits, const Tensor& classes,
                         const Maybe& weight, std::int64_t reduction, const c10::SymInt& ignored,
                         double smoothing) {
    constexpr std::int64_t few = std::int64_t(1) << 16;
    if (given(weight))
      return "weights of classes";
    for (const Tensor* tensor : {&logits, &classes})
      if (Reason why = tensor->defined() ? whyNotPlain(*tensor) : kUndefined)
        return why;
    if (ignored.is_heap_allocated())
      return kWrapped;
    if (Reason why =
            describeLogits(call, logits, classes, {reduction, ignored.expect_int(), smoothing}))
      return why;
    if (call.elements() < few)
      return kSmall;
    // Autocast computes what this is made of in fp32.
    const auto device = logits.device().type();
    call.key.dtypes[ofLoss] =
        at::autocast::is_autocast_enabled(device) ? DType::f32 : call.key.dtypes[ofX];
    const bool isKept = at::GradMode::is_enabled() && logits.requires_grad();
    call.key.variant |= static_cast<unsigned>(isKept) << saves;
    return nullptr;
  }

  static Tensor run(const Launch& launch, const Tensor& logits, const Tensor& classes, const Maybe&,
                    std::int64_t reduction, const c10::SymInt& ignored, double smoothing) {
    const Form form{reduction, ignored.expect_int(), smoothing};
    Made made;
    {
      const at::AutoDispatchBelowADInplaceOrView below;
      made = launch.call.has(saves) ? withSlope(launch, logits, classes, form)
                                    : withoutSlope(launch, logits, classes);
    }
    return recorded(launch.call, logits, classes, form, made);
  }

  static Tensor instead(const Call& call, const Tensor& logits, const Tensor& classes, const Maybe&,
                        std::int64_t reduction, const c10::SymInt& ignored, double smoothing) {
    const Form form{reduction, ignored.expect_int(), smoothing};
    Made made;
    {
      const at::AutoDispatchBelowADInplaceOrView below;
      if (call.has(ofMean))
        made.share = shareByFormula(logits, classes, form.ignored);
      if (call.has(saves))
        made.slope = emptyToScale(backendOf(placeOf(logits)), logits.sizes(), logits.scalar_type(),
                                  logits.device());
      const Tensor weight = weightOf(logits, made.share, {});
      const Tensor each = eachByFormula(logits, classes, form, made.slope, weight);
      made.loss = reduced(call, call.has(ofEach) ? each : each.sum(), made.share);
    }
    return recorded(call, logits, classes, form, made);
  }

  /// With the gradient that is kept, unless hooks have it.
  static std::vector<Tensor> compared(const Tensor& loss) {
    std::vector<Tensor> all = {loss.detach()};
    if (const auto* node = dynamic_cast<const CrossEntropyNode*>(loss.grad_fn().get());
        node && !node->isPacked)
      all.push_back(node->slope.unpack());
    return all;
  }

 private:
  static Made withoutSlope(const Launch& launch, const Tensor& logits, const Tensor& classes) {
    const Call& call = launch.call;
    const auto in = logits.expect_contiguous(), t = classes.expect_contiguous();
    const auto type = scalarTypeOf(call.key.dtypes[ofLoss]);
    Made made;
    made.loss = call.has(ofEach) ? launch.empty({call.rows}, type) : launch.empty({}, type);
    const Tensor count = call.has(ofMean) ? launch.empty({}, at::kFloat) : Tensor();
    launch({&*in, &*t, nullptr}, {&made.loss, nullptr, &count});
    return made;
  }

  static Made withSlope(const Launch& launch, const Tensor& logits, const Tensor& classes,
                        const Form& form) {
    const Call& call = launch.call;
    const auto in = logits.expect_contiguous(), t = classes.expect_contiguous();
    const at::DimVector sizes(call.has(ofEach) ? 1 : 0, call.rows);
    Made made;
    if (call.has(ofMean))
      made.share = callRouted<CrossEntropyShare>(logits, logits, classes, form.ignored);
    const Tensor weight = weightOf(logits, made.share, sizes);
    Tensor loss = launch.empty(sizes, at::kFloat);
    made.slope =
        emptyToScale(launch.backend(), logits.sizes(), logits.scalar_type(), logits.device());
    launch({&*in, &*t, &weight}, {&loss, &made.slope, nullptr});
    made.loss = reduced(call, std::move(loss), made.share);
    return made;
  }

  /// The gradient of the sum of the losses, or of each, for which the kept one is.
  static Tensor weightOf(const Tensor& logits, const Tensor& share, at::IntArrayRef sizes) {
    const double magnifier = magnifierOf(logits.scalar_type());
    return share.defined() && magnifier == 1
               ? share
               : at::full(sizes, magnifier, logits.options().dtype(at::kFloat));
  }

  /// Of the sum, or of each: as the call wants it.
  static Tensor reduced(const Call& call, Tensor loss, const Tensor& share) {
    if (share.defined())
      loss.mul_(share);
    return loss.to(scalarTypeOf(call.key.dtypes[ofLoss]));
  }

  static Tensor recorded(const Call& call, const Tensor& logits, const Tensor& classes,
                         const Form& form, Made& made) {
    if (call.has(saves))
      torch::autograd::set_history(made.loss,
                                   std::make_shared<CrossEntropyNode>(logits, classes, form, made));
    return std::move(made.loss);
  }
};

} // namespace
} // namespace cross_entropy

constinit Route crossEntropy =
    routeOf<cross_entropy::CrossEntropy>("cross_entropy_loss", "cross_entropy", false);
constinit Route crossEntropyShare =
    routeOf<cross_entropy::CrossEntropyShare>("cross_entropy_share", "cross_entropy", false);

} // namespace kiln::runtime
