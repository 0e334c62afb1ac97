// aten::_fused_rms_norm and its backward, which are what rms_norm comes to on a GPU. For the CPU
// ATen has no kernel of either, only the forward's formula, which autograd follows until a kernel
// is registered for it; from then on it asks for the backward, whose formula is therefore here.
// And aten::rms_norm of an input and a weight of different types, as autocast makes them: for that
// ATen has no kernel anywhere. It is taken above autograd.
#include "runtime/Gradient.h"
#include "runtime/Text.h"

#if KILN_TORCH_CUDA
#include <ATen/ops/_fused_rms_norm_backward_cuda_dispatch.h>
#include <ATen/ops/_fused_rms_norm_cuda_dispatch.h>
#endif

#include <ATen/TensorOperators.h>
#include <ATen/core/DimVector.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/rms_norm_compositeimplicitautograd_dispatch.h>
#include <ATen/ops/sum.h>
#include <limits>
#include <numeric>

namespace kiln::runtime {

namespace rms_norm {
namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;
enum Bit : unsigned { x, gamma, rstd, dy, wantsInput, wantsGamma };
enum Dtype : unsigned { ofX, ofGamma }; // in a key

std::string textOf(const Key& key, bool backward) {
  const std::string rows = rowsType(key), row = rowType(key, key.dtypes[ofGamma]);
  auto mark = [&](Bit wanted) { return backward && !has(key, wanted) ? kNoGradient : ""; };
  std::string arguments = fmt::format("%x: {}{}", rows, mark(wantsInput)), operands = "%x",
              types = rows;
  if (has(key, gamma)) {
    arguments += fmt::format(", %gamma: {}{}", row, mark(wantsGamma));
    operands += ", %gamma";
    types += ", " + row;
  }
  return fmt::format("func.func @rms_norm({0}) -> ({1}, {2}{3}) {{\n"
                     "  %y, %rstd = kiln.rms_norm {4} {{eps = {5}}} : ({6}) -> ({1}, {2})\n"
                     "  return %y, %rstd : {1}, {2}\n}}\n",
                     arguments, rows, kStatistic, kNoGradient, operands, numberText(key), types);
}

/// Without an epsilon ATen takes that of the input's type.
double epsilonOf(at::ScalarType type) {
  return type == at::kFloat  ? std::numeric_limits<float>::epsilon()
         : type == at::kHalf ? static_cast<double>(std::numeric_limits<at::Half>::epsilon())
                             : static_cast<double>(std::numeric_limits<at::BFloat16>::epsilon());
}

Reason describeBackward(Call& call, const Tensor& grad, const Tensor& input, at::IntArrayRef shape,
                        const Tensor& savedRstd, const Maybe& weight, std::array<bool, 2> mask,
                        at::ScalarType weightType) {
  if (Reason why = call.setRows(input, shape))
    return why;
  if (mask == std::array{false, false} || (mask[1] && !given(weight)))
    return kMask;
  for (Reason why : {call.addRow(gamma, ofGamma, given(weight), input, weightType),
                     call.add(rstd, &savedRstd, input, call.rows, at::kFloat),
                     call.add(dy, &grad, input, call.elements(), input.scalar_type())})
    if (why)
      return why;
  for (unsigned i = 0; i < 2; ++i)
    call.key.variant |= static_cast<unsigned>(mask[i]) << (wantsInput + i);
  return nullptr;
}

struct RmsNorm {
  using Signature = std::tuple<Tensor, Tensor>(const Tensor&, at::IntArrayRef, const Maybe&,
                                               std::optional<double>);
  static constexpr Natives<Signature> natives = {KILN_GPU_NATIVE(_fused_rms_norm), nullptr};
  static constexpr const char* operands[] = {"x", "gamma"};
  static constexpr const char* results[] = {"y", "rstd"};

  static std::string module(const Key& key) { return textOf(key, false); }

  static Reason describe(Call& call, const Tensor& input, at::IntArrayRef shape,
                         const Maybe& weight, std::optional<double> eps) {
    if (Reason why = call.setRows(input, shape))
      return why;
    call.key.number = eps.value_or(epsilonOf(input.scalar_type()));
    return call.addRow(gamma, ofGamma, given(weight), input, input.scalar_type());
  }

  static std::tuple<Tensor, Tensor> run(const Launch& launch, const Tensor& input,
                                        at::IntArrayRef shape, const Maybe& weight,
                                        std::optional<double>) {
    const auto in = input.expect_contiguous();
    const auto scale = given(weight) ? weight->contiguous() : Tensor();
    Tensor y = launch.empty(input.sizes(), input.scalar_type());
    Tensor r = launch.emptyStatistic(input, shape);
    launch({&*in, &scale}, {&y, &r});
    return {std::move(y), std::move(r)};
  }
  static auto example(const Rows& rows) {
    return std::tuple(rows.full(), rows.shape(), rows.row(), 1e-5);
  }
};

/// Dimensions of an input that are a row of that shape.
at::DimVector dimensionsOfRow(const Tensor& input, at::IntArrayRef shape) {
  at::DimVector row(shape.size());
  std::iota(row.begin(), row.end(), input.dim() - static_cast<std::int64_t>(shape.size()));
  return row;
}

/// With y = x rstd: dx = rstd (dy gamma - y mean(dy gamma y)), dgamma = sum(dy y) over the rows.
std::tuple<Tensor, Tensor> backwardOnCpu(const Tensor& grad, const Tensor& input,
                                         at::IntArrayRef shape, const Tensor& rstd,
                                         const Maybe& weight, std::array<bool, 2> mask) {
  const at::DimVector row = dimensionsOfRow(input, shape);
  at::DimVector rows(std::size_t(input.dim()) - shape.size());
  std::iota(rows.begin(), rows.end(), 0);
  const auto type = rstd.scalar_type(); // of statistics: no less than fp32
  const Tensor dy = grad.to(type), y = input.to(type) * rstd;
  std::tuple<Tensor, Tensor> results;
  if (mask[0]) {
    const Tensor slope = given(weight) ? dy * weight->to(type) : dy;
    const Tensor dx = rstd * (slope - y * (slope * y).mean(row, /*keepdim=*/true));
    std::get<0>(results) = dx.to(input.scalar_type());
  }
  if (mask[1] && given(weight)) {
    const Tensor scale = dy * y;
    std::get<1>(results) = (rows.empty() ? scale : scale.sum(rows)).to(weight->scalar_type());
  }
  return results;
}

struct RmsNormBackward {
  using Signature = std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&, at::IntArrayRef,
                                               const Tensor&, const Maybe&, std::array<bool, 2>);
  static constexpr Natives<Signature> natives = {KILN_GPU_NATIVE(_fused_rms_norm_backward),
                                                 &backwardOnCpu};
  static constexpr const char* operands[] = {"x", "gamma", "rstd", "dy"};
  static constexpr const char* results[] = {"dx", "dgamma"};

  static std::string module(const Key& key) { return textOf(key, true); }

  static Reason describe(Call& call, const Tensor& grad, const Tensor& input, at::IntArrayRef shape,
                         const Tensor& savedRstd, const Maybe& weight, std::array<bool, 2> mask) {
    return describeBackward(call, grad, input, shape, savedRstd, weight, mask, input.scalar_type());
  }

  static std::tuple<Tensor, Tensor> run(const Launch& launch, const Tensor& grad,
                                        const Tensor& input, at::IntArrayRef,
                                        const Tensor& savedRstd, const Maybe& weight,
                                        std::array<bool, 2> mask, auto&&...) {
    const auto g = grad.expect_contiguous(), in = input.expect_contiguous(),
               r = savedRstd.expect_contiguous();
    const auto scale = given(weight) ? weight->contiguous() : Tensor();
    Tensor dx = mask[0] ? launch.empty(input.sizes(), input.scalar_type()) : Tensor();
    Tensor dgamma = mask[1] ? launch.empty(weight->sizes(), weight->scalar_type()) : Tensor();
    launch({&*in, &scale, &*r, &*g}, {&dx, &dgamma});
    return {std::move(dx), std::move(dgamma)};
  }
  static auto example(const Rows& rows) {
    return std::tuple(rows.full(), rows.full(), rows.shape(), rows.each(), rows.row(),
                      std::array{true, true});
  }
};

/// By ATen's operations, in fp32.
Tensor rstdByFormula(const Tensor& input, at::IntArrayRef shape, double eps) {
  const NoWrittenNorm ours;
  const Tensor square = input.to(at::kFloat).square();
  return (square.mean(dimensionsOfRow(input, shape), /*keepdim=*/true) + eps).rsqrt();
}

/// The gradients by ATen's operations, with gradients of their own.
std::tuple<Tensor, Tensor> slopesByFormula(const Tensor& grad, const Tensor& input,
                                           at::IntArrayRef shape, const Tensor&,
                                           const Maybe& weight, std::array<bool, 2> mask,
                                           double eps) {
  return backwardOnCpu(grad, input, shape, rstdByFormula(input, shape, eps), weight, mask);
}

struct MixedRmsNormBackward : RmsNormBackward {
  using Signature = std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&, at::IntArrayRef,
                                               const Tensor&, const Maybe&, std::array<bool, 2>,
                                               double);
  static constexpr Layer layer = Layer::gradient;
  static constexpr Natives<Signature> natives = {&slopesByFormula, &slopesByFormula};

  static Reason describe(Call& call, const Tensor& grad, const Tensor& input, at::IntArrayRef shape,
                         const Tensor& savedRstd, const Maybe& weight, std::array<bool, 2> mask,
                         double) {
    return describeBackward(call, grad, input, shape, savedRstd, weight, mask,
                            weight->scalar_type());
  }
};

struct MixedNode : torch::autograd::Node {
  MixedNode(const Tensor& input, at::IntArrayRef shape, const Tensor& weight, double eps,
            Tensor rstd)
      : Node(torch::autograd::collect_next_edges(input, weight)), shape(shape), eps(eps),
        rstd(std::move(rstd)), input(input, false), weight(weight, false) {}

  std::string name() const override { return "KilnRmsNormBackward"; }
  void release_variables() override {
    const std::lock_guard<std::mutex> held(mutex_);
    input.reset_data();
    weight.reset_data();
  }
  torch::autograd::variable_list apply(torch::autograd::variable_list&& grads) override {
    const std::lock_guard<std::mutex> held(mutex_);
    if (!grads[0].defined())
      return torch::autograd::variable_list(2);
    const Tensor in = unpackGiven(input, "rms_norm");
    const Maybe scale = unpackGiven(weight, "rms_norm");
    const std::array<bool, 2> mask = {task_should_compute_output(0), task_should_compute_output(1)};
    auto [dx, dgamma] =
        gradientBy<MixedRmsNormBackward>(grads[0], in, shape, rstd, scale, mask, eps);
    return {std::move(dx), std::move(dgamma)};
  }

  const at::DimVector shape;
  const double eps;
  const Tensor rstd;
  torch::autograd::SavedVariable input, weight;
};

/// By ATen, which makes it of single ops where it has no kernel.
Tensor composed(const Tensor& input, c10::SymIntArrayRef shape, const Maybe& weight,
                std::optional<double> eps) {
  const NoWrittenNorm atens;
  return at::compositeimplicitautograd::rms_norm_symint(input, shape, weight, eps);
}

/// Of an input and a weight of different types; the result is of the input's.
struct MixedRmsNorm {
  using Signature = Tensor(const Tensor&, c10::SymIntArrayRef, const Maybe&, std::optional<double>);
  static constexpr Layer layer = Layer::autograd;
  static constexpr Natives<Signature> natives = {&composed, &composed};
  static constexpr auto& operands = RmsNorm::operands;
  static constexpr auto& results = RmsNorm::results;

  static std::string module(const Key& key) { return textOf(key, false); }

  /// ATen's formula takes the epsilon of fp32, in which it computes.
  static double epsilonOf(std::optional<double> eps) {
    return eps.value_or(std::numeric_limits<float>::epsilon());
  }

  static Reason describe(Call& call, const Tensor& input, c10::SymIntArrayRef symbols,
                         const Maybe& weight, std::optional<double> eps) {
    if (!input.defined() || !given(weight) || weight->scalar_type() == input.scalar_type())
      return kBelow;
    for (const Tensor* tensor : {&input, given(weight)})
      if (Reason why = whyNotPlain(*tensor))
        return why;
    const auto shape = c10::asIntArrayRefSlowOpt(symbols);
    if (!shape)
      return kWrapped;
    if (weight->sizes() != *shape)
      return kShapes; // ATen says so
    if (Reason why = call.setRows(input, *shape))
      return why;
    call.key.number = epsilonOf(eps);
    return call.addRow(gamma, ofGamma, given(weight), input, weight->scalar_type());
  }

  static Tensor run(const Launch& launch, const Tensor& input, c10::SymIntArrayRef symbols,
                    const Maybe& weight, std::optional<double> eps) {
    const auto shape = c10::asIntArrayRefUnchecked(symbols);
    return recorded(input, shape, *weight, eps,
                    [&] { return RmsNorm::run(launch, input, shape, weight, eps); });
  }
  /// As ATen, but with the same node: what is saved is what the kernel's is.
  static Tensor instead(const Call&, const Tensor& input, c10::SymIntArrayRef symbols,
                        const Maybe& weight, std::optional<double> eps) {
    const auto shape = c10::asIntArrayRefUnchecked(symbols);
    return recorded(input, shape, *weight, eps, [&] {
      Tensor rstd = rstdByFormula(input, shape, epsilonOf(eps)); // its squares are gone by then
      return std::tuple(natives.cpu(input, symbols, weight, eps), std::move(rstd));
    });
  }

 private:
  /// What `compute` gives, y and rstd, and the node that keeps the second.
  static Tensor recorded(const Tensor& input, at::IntArrayRef shape, const Tensor& weight,
                         std::optional<double> eps, const auto& compute) {
    auto [y, r] = [&] {
      const at::AutoDispatchBelowADInplaceOrView below;
      return compute();
    }();
    if (at::GradMode::is_enabled() && (input.requires_grad() || weight.requires_grad()))
      torch::autograd::set_history(
          y, std::make_shared<MixedNode>(input, shape, weight, epsilonOf(eps), std::move(r)));
    return std::move(y);
  }
};

} // namespace
} // namespace rms_norm

extern Route rmsNorm, rmsNormBackward, mixedRmsNorm, mixedRmsNormBackward;
constinit Route mixedRmsNorm = routeOf<rms_norm::MixedRmsNorm>("rms_norm", "rms_norm", false);
constinit Route mixedRmsNormBackward =
    routeOf<rms_norm::MixedRmsNormBackward>("rms_norm_backward", "rms_norm", true);
constinit Route rmsNorm = routeOf<rms_norm::RmsNorm>("_fused_rms_norm", "rms_norm", false);
constinit Route rmsNormBackward =
    routeOf<rms_norm::RmsNormBackward>("_fused_rms_norm_backward", "rms_norm", true);

} // namespace kiln::runtime
