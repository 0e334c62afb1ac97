// aten::cross_entropy_loss with classes in the last dimension. ATen makes it of a log-softmax,
// which writes as much as it reads and is kept for the backward, and of a lookup; here it is one
// pass over the logits each way, which are all that is kept. It is taken above autograd: what has a
// wrapper, a tangent or a mode around it goes on to ATen's composition, and so does the gradient of
// a gradient, to a formula of ATen's operations.
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

namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;
using torch::autograd::variable_list;

enum Bit : unsigned { x, target, count, dloss, ofEach, ofMean }; // the last two: its reduction
enum Dtype : unsigned { ofX, ofLoss };                           // in a key

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

std::string scalarType(DType dtype) {
  return fmt::format("tensor<{}>", name(dtype));
}
/// Of the loss: one number a row, or one for all.
std::string lossType(const Key& key, DType dtype) {
  return has(key, ofEach) ? fmt::format("tensor<?x{}>", name(dtype)) : scalarType(dtype);
}
std::string indexConstant(const char* result, std::int64_t value) {
  return fmt::format("  %{0} = arith.constant dense<{1}> : tensor<i64>\n"
                     "  %{0}s = kiln.broadcast %{0} dims [] like %target"
                     " : tensor<i64>, tensor<?xi64> -> tensor<?xi64>\n",
                     result, value);
}

std::string forwardText(const Key& key) {
  const std::string rows = rowsType(key), wide = lossType(key, DType::f32),
                    narrow = lossType(key, key.dtypes[ofLoss]);
  const bool narrows = key.dtypes[ofLoss] != DType::f32;
  std::string text =
      fmt::format("func.func @cross_entropy(%x: {0}, %target: tensor<?xi64>) -> ({1}{2}) {{\n"
                  "  %{3}, %lse = kiln.cross_entropy %x, %target\n"
                  "      {{ignore_index = {4} : i64, label_smoothing = {5}}}\n"
                  "      : ({0}, tensor<?xi64>) -> (tensor<?xf32>, tensor<?xf32>)\n",
                  rows, narrow, has(key, ofMean) ? ", tensor<f32>" : "",
                  !has(key, ofEach) ? "each"
                  : narrows         ? "wide"
                                    : "loss",
                  key.index, numberText(key));
  const char* result = narrows ? "wide" : "loss";
  if (!has(key, ofEach))
    text += fmt::format("  %{} = kiln.reduce sum %each dims [0] : tensor<?xf32> -> tensor<f32>\n",
                        has(key, ofMean) ? "sum" : result);
  if (has(key, ofMean))
    text += indexConstant("ignored", key.index) +
            fmt::format("  %counts = arith.cmpi ne, %target, %ignoreds : tensor<?xi64>\n"
                        "  %ones = arith.uitofp %counts : tensor<?xi1> to tensor<?xf32>\n"
                        "  %count = kiln.reduce sum %ones dims [0] : tensor<?xf32> -> tensor<f32>\n"
                        "  %{} = arith.divf %sum, %count : tensor<f32>\n",
                        result);
  if (narrows)
    text += fmt::format("  %loss = arith.truncf %wide : {} to {}\n", wide, narrow);
  return text + (has(key, ofMean)
                     ? fmt::format("  return %loss, %count : {}, tensor<f32>\n}}\n", narrow)
                     : fmt::format("  return %loss : {}\n}}\n", narrow));
}

/// %each: less what each row's loss counts in the result, fp32.
std::string sharesText(const Key& key) {
  const std::string wide = lossType(key, DType::f32), narrow = lossType(key, key.dtypes[ofLoss]);
  const bool widens = key.dtypes[ofLoss] != DType::f32;
  std::string text, given = "%dloss";
  if (widens) {
    text += fmt::format("  %wide = arith.extf %dloss : {} to {}\n", narrow, wide);
    given = "%wide";
  }
  if (has(key, ofMean)) {
    text += fmt::format("  %share = arith.divf {}, %count : tensor<f32>\n", given);
    given = "%share";
  }
  if (has(key, ofEach))
    return text + fmt::format("  %each = arith.negf {0} : {1}\n", given, wide);
  return text + fmt::format("  %all = arith.negf {} : tensor<f32>\n"
                            "  %each = kiln.broadcast %all dims [] like %target"
                            " : tensor<f32>, tensor<?xi64> -> tensor<?xf32>\n",
                            given);
}

/// dx = dloss (p - (1 - smoothing) onehot(target) - smoothing / classes), p = softmax(x): 0 in rows
/// that are ignored, NaN in those whose target is no class.
std::string backwardText(const Key& key) {
  const std::string rows = rowsType(key), wide = rowsType(key, DType::f32),
                    flags = fmt::format("tensor<?x{}xi1>", key.width),
                    indices = fmt::format("tensor<?x{}xi64>", key.width);
  const double other = key.number / static_cast<double>(key.width);
  std::string text = fmt::format("func.func @cross_entropy_backward(%x: {0}, %target: "
                                 "tensor<?xi64>, %dloss: {1}{2}) -> {0} {{\n",
                                 rows, lossType(key, key.dtypes[ofLoss]),
                                 has(key, ofMean) ? ", %count: tensor<f32>" : "");
  text += sharesText(key) + indexConstant("ignored", key.index) + indexConstant("limit", key.width);
  const auto number = [&](const char* result, const std::string& value, const char* like,
                          const std::string& from, const std::string& to) {
    text +=
        fmt::format("  %{0} = arith.constant dense<{1}> : tensor<f32>\n"
                    "  %{0}s = kiln.broadcast %{0} dims [] like {2} : tensor<f32>, {3} -> {4}\n",
                    result, value, like, from, to);
  };
  number("nan", "0x7FC00000", "%target", "tensor<?xi64>", "tensor<?xf32>");
  number("mine", fmt::format("{:.9e}", 1 - key.number + other), "%x", rows, wide);
  number("other", fmt::format("{:.9e}", other), "%x", rows, wide);
  number("zero", "0.0", "%x", rows, wide);
  text +=
      fmt::format("  %skip = arith.cmpi eq, %target, %ignoreds : tensor<?xi64>\n"
                  "  %inside = arith.cmpi ult, %target, %limits : tensor<?xi64>\n"
                  "  %known = arith.select %inside, %each, %nans : tensor<?xi1>, tensor<?xf32>\n"
                  "  %p = kiln.softmax %x : {0} -> {1}\n"
                  "  %column = kiln.index dim 1 like %x : {0} -> {3}\n"
                  "  %class = kiln.broadcast %target dims [0] like %x : tensor<?xi64>, {0} -> {3}\n"
                  "  %is = arith.cmpi eq, %column, %class : {3}\n"
                  "  %goal = arith.select %is, %mines, %others : {2}, {1}\n"
                  "  %rest = arith.subf %goal, %p : {1}\n"
                  "  %scale = kiln.broadcast %known dims [0] like %x : tensor<?xf32>, {0} -> {1}\n"
                  "  %product = arith.mulf %rest, %scale : {1}\n"
                  "  %skips = kiln.broadcast %skip dims [0] like %x : tensor<?xi1>, {0} -> {2}\n",
                  rows, wide, flags, indices);
  const bool narrows = key.dtypes[ofX] != DType::f32;
  text += fmt::format("  %{} = arith.select %skips, %zeros, %product : {}, {}\n",
                      narrows ? "slope" : "dx", flags, wide);
  if (narrows)
    text += fmt::format("  %dx = arith.truncf %slope : {} to {}\n", wide, rows);
  return text + fmt::format("  return %dx : {}\n}}\n", rows);
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
                      const Tensor& counted, std::int64_t reduction, std::int64_t ignored,
                      double smoothing) {
  const Tensor p = at::softmax(logits, 1, at::kFloat), counts = classes.ne(ignored);
  Tensor each = grad.to(at::kFloat);
  if (reduction == at::Reduction::Mean)
    each = each / counted;
  each = at::where(counts, each, at::zeros_like(each));
  const Tensor known = at::where(counts, classes, at::zeros_like(classes)).unsqueeze(1);
  const Tensor goal = at::scatter(at::zeros_like(p), 1, known, 1 - smoothing) +
                      smoothing / static_cast<double>(logits.size(1));
  return ((p - goal) * each.unsqueeze(1)).to(logits.scalar_type());
}

struct CrossEntropyBackward {
  using Signature = Tensor(const Tensor&, const Tensor&, const Tensor&, const Tensor&, std::int64_t,
                           std::int64_t, double);
  static constexpr Layer layer = Layer::gradient;
  static constexpr Natives<Signature> natives = {&slopeByFormula, &slopeByFormula};
  static constexpr const char* operands[] = {"x", "target", "dloss", "count"};
  static constexpr const char* results[] = {"dx"};

  static std::string module(const Key& key) { return backwardText(key); }

  static Reason describe(Call& call, const Tensor& grad, const Tensor& logits,
                         const Tensor& classes, const Tensor& counted, std::int64_t reduction,
                         std::int64_t ignored, double smoothing) {
    if (Reason why = describeLogits(call, logits, classes, {reduction, ignored, smoothing}))
      return why;
    const auto loss = dtypeOf(grad.scalar_type());
    if (!loss)
      return kDtype;
    call.key.dtypes[ofLoss] = *loss;
    if (Reason why = call.add(count, reduction == at::Reduction::Mean ? &counted : nullptr, logits,
                              1, at::kFloat))
      return why;
    return call.add(dloss, &grad, logits, reduction == at::Reduction::None ? call.rows : 1,
                    grad.scalar_type());
  }
  static Tensor run(const Launch& launch, const Tensor& grad, const Tensor& logits,
                    const Tensor& classes, const Tensor& counted, auto&&...) {
    const auto g = grad.expect_contiguous(), in = logits.expect_contiguous(),
               t = classes.expect_contiguous();
    Tensor dx = launch.empty(logits.sizes(), logits.scalar_type());
    launch({&*in, &*t, &*g, &counted}, {&dx});
    return dx;
  }
};

/// What autograd runs: keeps the logits and their classes.
struct CrossEntropyNode : torch::autograd::Node {
  CrossEntropyNode(const Tensor& logits, const Tensor& classes, Tensor counted, const Form& form)
      : Node(torch::autograd::collect_next_edges(logits)), form(form), counted(std::move(counted)),
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
    return {gradientBy<CrossEntropyBackward>(grads[0], in, t, counted, form.reduction, form.ignored,
                                             form.smoothing)};
  }

  const Form form;
  const Tensor counted;
  torch::autograd::SavedVariable logits, classes;
};

struct CrossEntropy {
  using Signature = Tensor(const Tensor&, const Tensor&, const Maybe&, std::int64_t, c10::SymInt,
                           double);
  static constexpr Layer layer = Layer::autograd;
  static constexpr Natives<Signature> natives = {
      &at::compositeimplicitautograd::cross_entropy_loss_symint,
      &at::compositeimplicitautograd::cross_entropy_loss_symint};
  static constexpr const char* operands[] = {"x", "target"};
  static constexpr const char* results[] = {"loss", "count"};

  static std::string module(const Key& key) { return forwardText(key); }

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
    return nullptr;
  }

  static Tensor run(const Launch& launch, const Tensor& logits, const Tensor& classes, const Maybe&,
                    std::int64_t reduction, const c10::SymInt& ignored, double smoothing) {
    Tensor loss, counted;
    {
      const at::AutoDispatchBelowADInplaceOrView below;
      const auto in = logits.expect_contiguous(), t = classes.expect_contiguous();
      const auto type = scalarTypeOf(launch.call.key.dtypes[ofLoss]);
      loss = reduction == at::Reduction::None ? launch.empty({launch.call.rows}, type)
                                              : launch.empty({}, type);
      if (reduction == at::Reduction::Mean)
        counted = launch.empty({}, at::kFloat);
      launch({&*in, &*t}, {&loss, &counted});
    }
    if (at::GradMode::is_enabled() && logits.requires_grad())
      torch::autograd::set_history(loss, std::make_shared<CrossEntropyNode>(
                                             logits, classes, std::move(counted),
                                             Form{reduction, ignored.expect_int(), smoothing}));
    return loss;
  }
};

} // namespace

extern Route crossEntropy, crossEntropyBackward;
constinit Route crossEntropy = routeOf<CrossEntropy>("cross_entropy_loss", "cross_entropy", false);
constinit Route crossEntropyBackward =
    routeOf<CrossEntropyBackward>("cross_entropy_loss_backward", "cross_entropy", false);

} // namespace kiln::runtime
