// aten::cross_entropy_loss with classes in the last dimension. ATen makes it of a log-softmax,
// which writes as much as it reads and is kept for the backward, and of a lookup. Here it is one
// pass over the logits; where a gradient is wanted that pass writes it too, for a loss whose own
// gradient is one, and it is kept in place of the log-softmax: logits may be overwritten, and a
// backward from the loss itself has nothing left to do. It is taken above autograd: what has a
// wrapper, a tangent or a mode around it goes on to ATen's composition.
#include "kiln/derivative.h"
#include "runtime/Tally.h"
#include "runtime/ops/CrossEntropyNode.h"

#include <ATen/autocast_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/cross_entropy_loss_compositeimplicitautograd_dispatch.h>
#include <ATen/ops/full.h>
#include <ATen/ops/reciprocal.h>
#include <ATen/ops/sum.h>

namespace kiln::runtime {

extern Route crossEntropy, crossEntropyShare;

namespace cross_entropy {
namespace {

using Maybe = std::optional<Tensor>;

/// Of the loss: one number a row, or one for all.
std::string lossType(const Key& key, DType dtype) {
  return has(key, ofEach) ? fmt::format("tensor<?x{}>", name(dtype))
                          : fmt::format("tensor<{}>", name(dtype));
}
/// What puts math on single numbers, behind all sums, into one kernel.
constexpr const char* kLast = " {kiln.fuse = \"last\"}";

/// Which rows count.
std::string countsText(const Key& key) {
  return fmt::format("  %ignored = arith.constant dense<{}> : tensor<i64>\n"
                     "  %ignoreds = kiln.broadcast %ignored dims [] like %target"
                     " : tensor<i64>, tensor<?xi64> -> tensor<?xi64>\n"
                     "  %counts = arith.cmpi ne, %target, %ignoreds : tensor<?xi64>\n",
                     key.index);
}
/// How many of them.
constexpr const char* kCount =
    "  %ones = arith.uitofp %counts : tensor<?xi1> to tensor<?xf32>\n"
    "  %count = kiln.reduce sum %ones dims [0] : tensor<?xf32> -> tensor<f32>\n";
/// How many of them have a class that is none, and those of calls before.
std::string outsideText(const Key& key) {
  return fmt::format(
      "  %classes = arith.constant dense<{}> : tensor<i64>\n"
      "  %limits = kiln.broadcast %classes dims [] like %target"
      " : tensor<i64>, tensor<?xi64> -> tensor<?xi64>\n"
      "  %none = arith.cmpi uge, %target, %limits : tensor<?xi64>\n" // so are negative ones
      "  %bad = arith.andi %none, %counts : tensor<?xi1>\n"
      "  %bads = arith.uitofp %bad : tensor<?xi1> to tensor<?xf32>\n"
      "  %more = kiln.reduce sum %bads dims [0] : tensor<?xf32> -> tensor<f32>\n"
      "  %outside = arith.addf %before, %more{} : tensor<f32>\n",
      key.width, kLast);
}

/// What the rows' losses become, behind the sum over them.
std::string reducedText(const Key& key) {
  const bool narrows = key.dtypes[ofLoss] != DType::f32;
  const char* result = narrows ? "wide" : "loss";
  std::string text;
  if (!has(key, ofEach))
    text = fmt::format("  %{} = kiln.reduce sum %each dims [0] : tensor<?xf32> -> tensor<f32>\n",
                       has(key, ofMean) ? "total" : result);
  if (has(key, ofMean))
    text +=
        fmt::format("{}  %{} = arith.divf %total, %count{} : tensor<f32>\n", kCount, result, kLast);
  if (narrows)
    text +=
        fmt::format("  %loss = arith.truncf %wide{} : {} to {}\n", has(key, ofEach) ? "" : kLast,
                    lossType(key, DType::f32), lossType(key, key.dtypes[ofLoss]));
  return text;
}

/// Of a loss with its gradient, which is no mean yet, rows are counted beside it.
std::string forwardText(const Key& key) {
  const bool counts = !has(key, saves);
  const std::string rows = rowsType(key), loss = lossType(key, key.dtypes[ofLoss]);
  std::string names = "%loss", types = loss, results = loss;
  const auto add = [&](const char* name) {
    names += fmt::format(", %{}", name);
    types += ", tensor<f32>";
    results += fmt::format(", tensor<f32>{}", kNoGradient);
  };
  if (has(key, ofMean))
    add("count");
  if (counts)
    add("outside");
  return fmt::format("func.func @cross_entropy(%x: {0}, %target: tensor<?xi64>{1}) -> ({2}) {{\n"
                     "  %{3}, %lse = kiln.cross_entropy %x, %target\n"
                     "      {{ignore_index = {4} : i64, label_smoothing = {5}}}\n"
                     "      : ({0}, tensor<?xi64>) -> (tensor<?xf32>, tensor<?xf32>)\n",
                     rows, counts ? ", %before: tensor<f32>" : "", results,
                     !has(key, ofEach)                  ? "each"
                     : key.dtypes[ofLoss] != DType::f32 ? "wide"
                                                        : "loss",
                     key.index, numberText(key)) +
         (counts ? countsText(key) : "") + reducedText(key) + (counts ? outsideText(key) : "") +
         fmt::format("  return {} : {}\n}}\n", names, types);
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

/// Rows that count and whose class is none.
Tally& outside() {
  static auto* one = new Tally(
      "rows whose class is out of range have a NaN loss: targets lie in 0 to C - 1, or are "
      "ignore_index; ATen raises here");
  return *one;
}
Tensor outsideOf(const Tensor& logits) {
  return outside().here(backendOf(placeOf(logits)), logits.device());
}
void countByFormula(const Tensor& logits, const Tensor& classes, std::int64_t ignored) {
  if (currentPolicy().mode == Mode::off) // computed again, to be compared
    return;
  const Tensor isNone = classes.lt(0) | classes.ge(logits.size(1));
  outsideOf(logits).add_(at::sum(isNone & classes.ne(ignored)));
}

/// One over the number of rows that count.
Tensor shareByFormula(const Tensor& logits, const Tensor& classes, std::int64_t ignored) {
  countByFormula(logits, classes, ignored);
  return at::reciprocal(at::sum(classes.ne(ignored), at::kFloat));
}
/// What is read from classes alone, beside a loss with its gradient. Its other result is what
/// outside() counts.
struct CrossEntropyShare {
  using Signature = Tensor(const Tensor&, const Tensor&, std::int64_t);
  static constexpr Layer layer = Layer::gradient;
  static constexpr Natives<Signature> natives = {&shareByFormula, &shareByFormula};
  static constexpr const char* operands[] = {"target", "before"};
  static constexpr const char* results[] = {"share", "outside"};

  static std::string module(const Key& key) {
    return fmt::format("func.func @cross_entropy_share(%target: tensor<?xi64>,"
                       " %before: tensor<f32>) -> (tensor<f32>, tensor<f32>) {{\n"
                       "{}{}"
                       "  %one = arith.constant dense<1.0> : tensor<f32>\n"
                       "  %share = arith.divf %one, %count{} : tensor<f32>\n"
                       "{}"
                       "  return %share, %outside : tensor<f32>, tensor<f32>\n}}\n",
                       countsText(key), kCount, kLast, outsideText(key));
  }
  static Reason describe(Call& call, const Tensor& logits, const Tensor& classes,
                         std::int64_t ignored) {
    return describeLogits(call, logits, classes, {at::Reduction::Sum, ignored, 0});
  }
  static Tensor run(const Launch& launch, const Tensor& logits, const Tensor& classes,
                    std::int64_t) {
    const auto t = classes.expect_contiguous();
    const Tensor counted = outsideOf(logits);
    Tensor share = launch.empty({}, at::kFloat);
    launch({&*t, &counted}, {&share, &counted});
    return share;
  }
};

struct CrossEntropy {
  using Signature = Tensor(const Tensor&, const Tensor&, const Maybe&, std::int64_t, c10::SymInt,
                           double);
  static constexpr Layer layer = Layer::autograd;
  static constexpr const char* note =
      "a class out of range gives a NaN loss, where ATen raises; such rows are counted";
  static constexpr Natives<Signature> natives = {
      &at::compositeimplicitautograd::cross_entropy_loss_symint,
      &at::compositeimplicitautograd::cross_entropy_loss_symint};
  static constexpr const char* operands[] = {"x", "target", "before", "dloss"};
  static constexpr const char* results[] = {"loss", "dx", "count", "outside"};
  static Tally& tally() { return outside(); }

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
      else
        countByFormula(logits, classes, form.ignored);
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
    const Tensor counted = outsideOf(logits);
    launch({&*in, &*t, &counted, nullptr}, {&made.loss, nullptr, &count, &counted});
    return made;
  }

  static Made withSlope(const Launch& launch, const Tensor& logits, const Tensor& classes,
                        const Form& form) {
    const Call& call = launch.call;
    const auto in = logits.expect_contiguous(), t = classes.expect_contiguous();
    const at::DimVector sizes(call.has(ofEach) ? 1 : 0, call.rows);
    Made made;
    Tensor share = callRouted<CrossEntropyShare>(logits, logits, classes, form.ignored);
    if (call.has(ofMean))
      made.share = std::move(share);
    const Tensor weight = weightOf(logits, made.share, sizes);
    Tensor loss = launch.empty(sizes, at::kFloat);
    made.slope =
        emptyToScale(launch.backend(), logits.sizes(), logits.scalar_type(), logits.device());
    launch({&*in, &*t, nullptr, &weight}, {&loss, &made.slope, nullptr, nullptr});
    made.loss = reduced(call, loss, made.share);
    return made;
  }

  /// The gradient of the sum of the losses, or of each, for which the kept one is.
  static Tensor weightOf(const Tensor& logits, const Tensor& share, at::IntArrayRef sizes) {
    const double magnifier = magnifierOf(logits.scalar_type());
    return share.defined() && magnifier == 1
               ? share
               : at::full(sizes, magnifier, logits.options().dtype(at::kFloat));
  }

  /// Of the sum, or of each: as the call wants it. Rounded once.
  static Tensor reduced(const Call& call, const Tensor& loss, const Tensor& share) {
    const auto type = scalarTypeOf(call.key.dtypes[ofLoss]);
    if (!share.defined())
      return loss.to(type);
    Tensor mean = at::empty(loss.sizes(), loss.options().dtype(type));
    return at::mul_out(mean, loss, share);
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
