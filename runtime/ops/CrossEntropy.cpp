// aten::cross_entropy_loss with classes in the last dimension. ATen makes it of a log-softmax,
// which writes as much as it reads and is kept for the backward, and of a lookup; here it is one
// pass over the logits each way, which are kept with two numbers a row. It is taken above autograd:
// what has a wrapper, a tangent or a mode around it goes on to ATen's composition, and so does the
// gradient of a gradient, to a formula of ATen's operations.
#include "kiln/derivative.h"
#include "runtime/Gradient.h"
#include "runtime/Text.h"

#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/cross_entropy_loss_compositeimplicitautograd_dispatch.h>
#include <ATen/ops/scatter.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

namespace kiln::runtime {

extern Route crossEntropy, crossEntropyBackward;

namespace cross_entropy {
namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;
using torch::autograd::variable_list;

// From `count` to `sum`: what a forward gives to its backward. The last: whether it does, and how
// losses are reduced.
enum Bit : unsigned { x, target, count, largest, sum, dloss, saves, ofEach, ofMean };
constexpr unsigned savedCount = sum - count + 1;
using Saved = std::array<Tensor, savedCount>; // undefined: not there
enum Dtype : unsigned { ofX, ofLoss };        // in a key

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
    text += fmt::format("  %ignored = arith.constant dense<{}> : tensor<i64>\n"
                        "  %ignoreds = kiln.broadcast %ignored dims [] like %target"
                        " : tensor<i64>, tensor<?xi64> -> tensor<?xi64>\n"
                        "  %counts = arith.cmpi ne, %target, %ignoreds : tensor<?xi64>\n"
                        "  %ones = arith.uitofp %counts : tensor<?xi1> to tensor<?xf32>\n"
                        "  %count = kiln.reduce sum %ones dims [0] : tensor<?xf32> -> tensor<f32>\n"
                        "  %{} = arith.divf %total, %count : tensor<f32>\n",
                        key.index, result);
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

/// The gradient by ATen's operations, with one of its own.
Tensor slopeByFormula(const Tensor& grad, const Tensor& logits, const Tensor& classes,
                      at::TensorList saved, std::int64_t reduction, std::int64_t ignored,
                      double smoothing) {
  const Tensor p = at::softmax(logits, 1, at::kFloat), counts = classes.ne(ignored);
  Tensor each = grad.to(at::kFloat);
  if (reduction == at::Reduction::Mean)
    each = each / saved[0];
  each = at::where(counts, each, at::zeros_like(each));
  const Tensor known = at::where(counts, classes, at::zeros_like(classes)).unsqueeze(1);
  const Tensor goal = at::scatter(at::zeros_like(p), 1, known, 1 - smoothing) +
                      smoothing / static_cast<double>(logits.size(1));
  return ((p - goal) * each.unsqueeze(1)).to(logits.scalar_type());
}

struct CrossEntropyBackward {
  using Signature = Tensor(const Tensor&, const Tensor&, const Tensor&, at::TensorList,
                           std::int64_t, std::int64_t, double);
  static constexpr Layer layer = Layer::gradient;
  static constexpr Natives<Signature> natives = {&slopeByFormula, &slopeByFormula};
  static constexpr const char* operands[] = {"x", "target", "count", "largest", "sum", "dloss"};
  static constexpr const char* results[] = {"dx"};

  static std::string module(const Key& key) { return forwardText(key); }

  static Reason describe(Call& call, const Tensor& grad, const Tensor& logits,
                         const Tensor& classes, at::TensorList saved, std::int64_t reduction,
                         std::int64_t ignored, double smoothing) {
    if (Reason why = describeLogits(call, logits, classes, {reduction, ignored, smoothing}))
      return why;
    const auto loss = dtypeOf(grad.scalar_type());
    if (!loss)
      return kDtype;
    call.key.dtypes[ofLoss] = *loss;
    for (unsigned i = 0; i < savedCount; ++i)
      if (Reason why = call.add(count + i, saved[i].defined() ? &saved[i] : nullptr, logits,
                                i == 0 ? 1 : call.rows, at::kFloat))
        return why;
    return call.add(dloss, &grad, logits, reduction == at::Reduction::None ? call.rows : 1,
                    grad.scalar_type());
  }
  static Tensor run(const Launch& launch, const Tensor& grad, const Tensor& logits,
                    const Tensor& classes, at::TensorList saved, auto&&...) {
    const auto g = grad.expect_contiguous(), in = logits.expect_contiguous(),
               t = classes.expect_contiguous();
    Tensor dx = launch.empty(logits.sizes(), logits.scalar_type());
    launch({&*in, &*t, &saved[0], &saved[1], &saved[2], &*g}, {&dx});
    return dx;
  }
};

/// What autograd runs: keeps the logits and their classes.
struct CrossEntropyNode : torch::autograd::Node {
  CrossEntropyNode(const Tensor& logits, const Tensor& classes, Saved saved, const Form& form)
      : Node(torch::autograd::collect_next_edges(logits)), form(form), saved(std::move(saved)),
        logits(logits, false), classes(classes, false) {}

  std::string name() const override { return "KilnCrossEntropyBackward"; }
  void release_variables() override {
    const std::lock_guard<std::mutex> held(mutex_);
    logits.reset_data();
    classes.reset_data();
  }
  variable_list apply(variable_list&& grads) override {
    const std::lock_guard<std::mutex> held(mutex_);
    if (!grads[0].defined())
      return {Tensor()};
    const Tensor in = logits.unpack(), t = classes.unpack();
    return {gradientBy<CrossEntropyBackward>(grads[0], in, t, saved, form.reduction, form.ignored,
                                             form.smoothing)};
  }

  const Form form;
  const Saved saved;
  torch::autograd::SavedVariable logits, classes;
};

struct CrossEntropy {
  using Signature = Tensor(const Tensor&, const Tensor&, const Maybe&, std::int64_t, c10::SymInt,
                           double);
  static constexpr Layer layer = Layer::autograd;
  static constexpr const char* note = "a class out of range gives a NaN loss, where ATen raises";
  static constexpr Natives<Signature> natives = {
      &at::compositeimplicitautograd::cross_entropy_loss_symint,
      &at::compositeimplicitautograd::cross_entropy_loss_symint};
  static constexpr const char* operands[] = {"x", "target"};
  static constexpr const char* results[] = {"loss", "count", "largest", "sum"};

  static constexpr const Route* gradient = &crossEntropyBackward;
  static std::optional<Key> gradientKey(const Key& key) {
    if (!has(key, saves))
      return std::nullopt;
    Key theirs = key;
    theirs.variant &= ~(1U << saves);
    theirs.variant |= 1U << largest | 1U << sum | 1U << dloss;
    theirs.variant |= static_cast<unsigned>(has(key, ofMean)) << count;
    return theirs;
  }

  static RouteText module(const Key& key) {
    if (!has(key, saves))
      return forwardText(key);
    const Derivative both = differentiate(Module::parse(forwardText(key)), {}, /*readAhead=*/false);
    return {both.module.text(), both.forward};
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
    const Call& call = launch.call;
    Tensor loss;
    Saved saved;
    {
      const at::AutoDispatchBelowADInplaceOrView below;
      const auto in = logits.expect_contiguous(), t = classes.expect_contiguous();
      const auto type = scalarTypeOf(call.key.dtypes[ofLoss]);
      loss = call.has(ofEach) ? launch.empty({call.rows}, type) : launch.empty({}, type);
      if (call.has(ofMean))
        saved[0] = launch.empty({}, at::kFloat);
      if (call.has(saves))
        for (Bit bit : {largest, sum})
          saved[bit - count] = launch.empty({call.rows}, at::kFloat);
      launch({&*in, &*t}, {&loss, &saved[0], &saved[1], &saved[2]});
    }
    if (call.has(saves))
      torch::autograd::set_history(loss, std::make_shared<CrossEntropyNode>(
                                             logits, classes, std::move(saved),
                                             Form{reduction, ignored.expect_int(), smoothing}));
    return loss;
  }
};

} // namespace
} // namespace cross_entropy

constinit Route crossEntropy =
    routeOf<cross_entropy::CrossEntropy>("cross_entropy_loss", "cross_entropy", false);
constinit Route crossEntropyBackward = routeOf<cross_entropy::CrossEntropyBackward>(
    "cross_entropy_loss_backward", "cross_entropy", true);

} // namespace kiln::runtime
