// aten::native_layer_norm and its backward; and aten::layer_norm where autocast would make fp32
// copies of half-precision input and weights first, which here are read as they are, and kept for
// the backward so.
#include "runtime/Gradient.h"
#include "runtime/Text.h"

#include <ATen/ops/native_layer_norm_backward_cpu_dispatch.h>
#include <ATen/ops/native_layer_norm_cpu_dispatch.h>
#if KILN_TORCH_CUDA
#include <ATen/ops/native_layer_norm_backward_cuda_dispatch.h>
#include <ATen/ops/native_layer_norm_cuda_dispatch.h>
#endif

#include <ATen/core/DimVector.h>
#include <ATen/ops/native_layer_norm_backward.h>

namespace kiln::runtime {

namespace layer_norm {
namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;
enum Bit : unsigned { x, gamma, beta, mean, rstd, dy, wantsInput, wantsGamma, wantsBeta };
enum Dtype : unsigned { ofX, ofGamma, ofBeta, ofY }; // in a key

/// The forward, with the operands that the key names; gradients of those that it wants.
std::string textOf(const Key& key, bool backward) {
  const std::string rows = rowsType(key);
  auto mark = [&](Bit wanted) { return backward && !has(key, wanted) ? kNoGradient : ""; };
  std::string arguments = fmt::format("%x: {}{}", rows, mark(wantsInput)), operands = "%x",
              types = rows;
  for (auto [bit, wanted, dtype, argument] : {std::tuple(gamma, wantsGamma, ofGamma, "%gamma"),
                                              std::tuple(beta, wantsBeta, ofBeta, "%beta")})
    if (has(key, bit)) {
      const std::string row = rowType(key, key.dtypes[dtype]);
      arguments += fmt::format(", {}: {}{}", argument, row, mark(wanted));
      operands += fmt::format(", {}", argument);
      types += ", " + row;
    }
  return fmt::format("func.func @layer_norm({0}) -> ({1}, {2}{3}, {2}{3}) {{\n"
                     "  %y, %mean, %rstd = kiln.layer_norm {4} {{eps = {5}}}\n"
                     "      : ({6}) -> ({1}, {2}, {2})\n"
                     "  return %y, %mean, %rstd : {1}, {2}, {2}\n}}\n",
                     arguments, rowsType(key, key.dtypes[ofY]), kStatistic, kNoGradient, operands,
                     numberText(key), types);
}

/// ATen's type of mean and rstd: on GPUs what it adds up in, on CPUs the input's own.
at::ScalarType statisticType(const Tensor& input) {
  return input.is_cpu() ? input.scalar_type() : at::kFloat;
}
/// The same numbers in the type that is asked for.
Tensor inType(Tensor statistic, at::ScalarType type) {
  return statistic.scalar_type() == type ? std::move(statistic) : statistic.to(type);
}

/// Whether weights have dtypes of their own, and the result is fp32; else all have the input's.
enum class Types { same, wide };

/// Weight and bias, null for what the kernel does not know.
Reason addRows(Call& call, const Tensor* weight, const Tensor* bias, const Tensor& input,
               Types types) {
  for (auto [bit, dtype, tensor] :
       {std::tuple(gamma, ofGamma, weight), std::tuple(beta, ofBeta, bias)}) {
    const Tensor& typed = types == Types::wide && tensor ? *tensor : input;
    if (Reason why = call.addRow(bit, dtype, tensor, input, typed.scalar_type()))
      return why;
  }
  return nullptr;
}

/// Of the result and its gradient.
at::ScalarType resultType(const Tensor& input, Types types) {
  return types == Types::same ? input.scalar_type() : at::kFloat;
}

Reason describeForward(Call& call, const Tensor& input, at::IntArrayRef shape, const Maybe& weight,
                       const Maybe& bias, double eps, Types types) {
  if (Reason why = call.setRows(input, shape))
    return why;
  if (given(bias) && !given(weight))
    return "a bias without a weight";
  for (const Tensor* row : {given(weight), given(bias)})
    if (row && row->sizes() != shape)
      return kShapes; // ATen says so
  call.key.number = eps;
  call.key.dtypes[ofY] = *dtypeOf(resultType(input, types));
  return addRows(call, given(weight), given(bias), input, types);
}

Reason describeBackward(Call& call, const Tensor& grad, const Tensor& input, at::IntArrayRef shape,
                        const Tensor& savedMean, const Tensor& savedRstd, const Maybe& weight,
                        const Maybe& bias, std::array<bool, 3> mask, Types types) {
  if (Reason why = call.setRows(input, shape))
    return why;
  if (mask == std::array{false, false, false} || (!given(weight) && (mask[1] || mask[2])) ||
      (!given(bias) && mask[2]))
    return kMask;
  const auto type = resultType(input, types);
  const auto statistic = types == Types::same ? statisticType(input) : at::kFloat;
  call.key.dtypes[ofY] = *dtypeOf(type);
  for (Reason why : {addRows(call, given(weight), mask[2] ? given(bias) : nullptr, input, types),
                     call.add(mean, &savedMean, input, call.rows, statistic),
                     call.add(rstd, &savedRstd, input, call.rows, statistic),
                     call.add(dy, &grad, input, call.elements(), type)})
    if (why)
      return why;
  for (unsigned i = 0; i < 3; ++i)
    call.key.variant |= static_cast<unsigned>(mask[i]) << (wantsInput + i);
  return nullptr;
}

/// y, mean and rstd, these two in fp32.
std::tuple<Tensor, Tensor, Tensor> runForward(const Launch& launch, const Tensor& input,
                                              at::IntArrayRef shape, const Maybe& weight,
                                              const Maybe& bias) {
  const auto in = input.expect_contiguous();
  const auto scale = given(weight) ? weight->contiguous() : Tensor();
  const auto shift = given(bias) ? bias->contiguous() : Tensor();
  Tensor y = launch.empty(input.sizes(), scalarTypeOf(launch.call.key.dtypes[ofY]));
  Tensor m = launch.emptyStatistic(input, shape);
  Tensor r = launch.emptyStatistic(input, shape);
  launch({&*in, &scale, &shift}, {&y, &m, &r});
  return {std::move(y), std::move(m), std::move(r)};
}

struct LayerNorm {
  using Signature = std::tuple<Tensor, Tensor, Tensor>(const Tensor&, at::IntArrayRef, const Maybe&,
                                                       const Maybe&, double);
  static constexpr Natives<Signature> natives = KILN_NATIVES(native_layer_norm);
  static constexpr const char* operands[] = {"x", "gamma", "beta"};
  static constexpr const char* results[] = {"y", "mean", "rstd"};

  static std::string module(const Key& key) { return textOf(key, false); }

  static Reason describe(Call& call, const Tensor& input, at::IntArrayRef shape,
                         const Maybe& weight, const Maybe& bias, double eps) {
    return describeForward(call, input, shape, weight, bias, eps, Types::same);
  }

  static std::tuple<Tensor, Tensor, Tensor> run(const Launch& launch, const Tensor& input,
                                                at::IntArrayRef shape, const Maybe& weight,
                                                const Maybe& bias, double) {
    auto [y, m, r] = runForward(launch, input, shape, weight, bias);
    const auto type = statisticType(input);
    return {std::move(y), inType(std::move(m), type), inType(std::move(r), type)};
  }
  static auto example(const Rows& rows) {
    return std::tuple(rows.full(), rows.shape(), rows.row(), rows.row(), 1e-5);
  }
};

struct LayerNormBackward {
  using Signature = std::tuple<Tensor, Tensor, Tensor>(const Tensor&, const Tensor&,
                                                       at::IntArrayRef, const Tensor&,
                                                       const Tensor&, const Maybe&, const Maybe&,
                                                       std::array<bool, 3>);
  static constexpr Natives<Signature> natives = KILN_NATIVES(native_layer_norm_backward);
  static constexpr const char* operands[] = {"x", "gamma", "mean", "rstd", "dy"};
  static constexpr const char* results[] = {"dx", "dgamma", "dbeta"};

  static std::string module(const Key& key) { return textOf(key, true); }

  static Reason describe(Call& call, const Tensor& grad, const Tensor& input, at::IntArrayRef shape,
                         const Tensor& savedMean, const Tensor& savedRstd, const Maybe& weight,
                         const Maybe& bias, std::array<bool, 3> mask) {
    return describeBackward(call, grad, input, shape, savedMean, savedRstd, weight, bias, mask,
                            Types::same);
  }

  static std::tuple<Tensor, Tensor, Tensor> run(const Launch& launch, const Tensor& grad,
                                                const Tensor& input, at::IntArrayRef,
                                                const Tensor& savedMean, const Tensor& savedRstd,
                                                const Maybe& weight, const Maybe& bias,
                                                std::array<bool, 3> mask) {
    const auto g = grad.expect_contiguous(), in = input.expect_contiguous();
    const Tensor m = inType(savedMean.contiguous(), at::kFloat),
                 r = inType(savedRstd.contiguous(), at::kFloat);
    const auto scale = given(weight) ? weight->contiguous() : Tensor();
    Tensor dx = mask[0] ? launch.empty(input.sizes(), input.scalar_type()) : Tensor();
    Tensor dgamma = mask[1] ? launch.empty(weight->sizes(), weight->scalar_type()) : Tensor();
    Tensor dbeta = mask[2] ? launch.empty(bias->sizes(), bias->scalar_type()) : Tensor();
    launch({&*in, &scale, &m, &r, &*g}, {&dx, &dgamma, &dbeta});
    return {std::move(dx), std::move(dgamma), std::move(dbeta)};
  }
  static auto example(const Rows& rows) {
    return std::tuple(rows.full(), rows.full(), rows.shape(), rows.each(), rows.each(), rows.row(),
                      rows.row(), std::array{true, true, true});
  }
};

Maybe inFp32(const Maybe& row) {
  return given(row) ? Maybe(row->to(at::kFloat)) : std::nullopt;
}

/// The gradients by ATen's operations, with gradients of their own.
std::tuple<Tensor, Tensor, Tensor> slopesInFp32(const Tensor& grad, const Tensor& input,
                                                at::IntArrayRef shape, const Tensor& savedMean,
                                                const Tensor& savedRstd, const Maybe& weight,
                                                const Maybe& bias, std::array<bool, 3> mask) {
  auto [dx, dgamma, dbeta] = at::native_layer_norm_backward(
      grad, input.to(at::kFloat), shape, savedMean, savedRstd, inFp32(weight), inFp32(bias), mask);
  const auto narrow = [](Tensor& slope, const Tensor* to) {
    return slope.defined() ? slope.to(to->scalar_type()) : Tensor();
  };
  return {narrow(dx, &input), narrow(dgamma, given(weight)), narrow(dbeta, given(bias))};
}

/// Of an fp32 result of half-precision input or weights.
struct WideLayerNormBackward : LayerNormBackward {
  static constexpr Layer layer = Layer::gradient;
  static constexpr Natives<Signature> natives = {&slopesInFp32, &slopesInFp32};

  static Reason describe(Call& call, const Tensor& grad, const Tensor& input, at::IntArrayRef shape,
                         const Tensor& savedMean, const Tensor& savedRstd, const Maybe& weight,
                         const Maybe& bias, std::array<bool, 3> mask) {
    return describeBackward(call, grad, input, shape, savedMean, savedRstd, weight, bias, mask,
                            Types::wide);
  }
};

struct WideNode : torch::autograd::Node {
  WideNode(const Tensor& input, at::IntArrayRef shape, const Maybe& weight, const Maybe& bias,
           Tensor mean, Tensor rstd)
      : Node(torch::autograd::collect_next_edges(input, weight, bias)), shape(shape),
        mean(std::move(mean)), rstd(std::move(rstd)), input(input, false),
        weight(weight.value_or(Tensor()), false), bias(bias.value_or(Tensor()), false) {}

  std::string name() const override { return "KilnLayerNormBackward"; }
  void release_variables() override {
    const std::lock_guard<std::mutex> held(mutex_);
    for (auto* one : {&input, &weight, &bias})
      one->reset_data();
  }
  torch::autograd::variable_list apply(torch::autograd::variable_list&& grads) override {
    const std::lock_guard<std::mutex> held(mutex_);
    if (!grads[0].defined())
      return torch::autograd::variable_list(3);
    const auto given = [](const torch::autograd::SavedVariable& one) {
      return unpackGiven(one, "layer_norm");
    };
    const Tensor in = given(input);
    const Maybe scale = given(weight), shift = given(bias);
    const std::array<bool, 3> mask = {task_should_compute_output(0), task_should_compute_output(1),
                                      task_should_compute_output(2)};
    auto [dx, dgamma, dbeta] =
        gradientBy<WideLayerNormBackward>(grads[0], in, shape, mean, rstd, scale, shift, mask);
    return {std::move(dx), std::move(dgamma), std::move(dbeta)};
  }

  const at::DimVector shape;
  const Tensor mean, rstd;
  torch::autograd::SavedVariable input, weight, bias;
};

struct WideLayerNorm {
  using Signature = Tensor(const Tensor&, c10::SymIntArrayRef, const Maybe&, const Maybe&, double,
                           bool);
  static constexpr Layer layer = Layer::autocast;
  static constexpr Natives<Signature> natives = {};
  static constexpr auto& operands = LayerNorm::operands;
  static constexpr auto& results = LayerNorm::results;

  static std::string module(const Key& key) { return textOf(key, false); }

  static Reason describe(Call& call, const Tensor& input, c10::SymIntArrayRef symbols,
                         const Maybe& weight, const Maybe& bias, double eps, bool) {
    const auto shape = c10::asIntArrayRefSlowOpt(symbols);
    for (const Tensor* tensor : {&input, given(weight), given(bias)})
      if (Reason why = tensor && tensor->defined() ? whyNotPlain(*tensor) : nullptr)
        return why;
    if (!input.defined() || !shape)
      return kUndefined;
    const auto isNarrow = [](const Tensor* tensor) {
      return tensor && at::isReducedFloatingType(tensor->scalar_type());
    };
    if (!isNarrow(&input) && !isNarrow(given(weight)) && !isNarrow(given(bias)))
      return "no cast to save";
    return describeForward(call, input, *shape, weight, bias, eps, Types::wide);
  }

  static Tensor run(const Launch& launch, const Tensor& input, c10::SymIntArrayRef symbols,
                    const Maybe& weight, const Maybe& bias, double, bool) {
    const auto shape = c10::asIntArrayRefUnchecked(symbols);
    return recorded(input, shape, weight, bias,
                    [&] { return runForward(launch, input, shape, weight, bias); });
  }
  /// As autocast, but with the same node: what is saved is what the kernel's is.
  static Tensor instead(const Call&, const Tensor& input, c10::SymIntArrayRef symbols,
                        const Maybe& weight, const Maybe& bias, double eps, bool) {
    const auto shape = c10::asIntArrayRefUnchecked(symbols);
    const auto native = input.is_cpu() ? LayerNorm::natives.cpu : LayerNorm::natives.gpu;
    return recorded(input, shape, weight, bias, [&] {
      return native(input.to(at::kFloat), shape, inFp32(weight), inFp32(bias), eps);
    });
  }

 private:
  /// What `compute` gives, y, mean and rstd, and the node that keeps the last two.
  static Tensor recorded(const Tensor& input, at::IntArrayRef shape, const Maybe& weight,
                         const Maybe& bias, const auto& compute) {
    auto [y, m, r] = [&] {
      const at::AutoDispatchBelowADInplaceOrView below;
      return compute();
    }();
    const auto wants = [](const Tensor* tensor) { return tensor && tensor->requires_grad(); };
    if (at::GradMode::is_enabled() && (wants(&input) || wants(given(weight)) || wants(given(bias))))
      torch::autograd::set_history(
          y, std::make_shared<WideNode>(input, shape, weight, bias, std::move(m), std::move(r)));
    return std::move(y);
  }
};

} // namespace
} // namespace layer_norm

extern Route layerNorm, layerNormBackward, wideLayerNorm, wideLayerNormBackward;
constinit Route wideLayerNorm =
    routeOf<layer_norm::WideLayerNorm>("layer_norm", "layer_norm", false);
constinit Route wideLayerNormBackward =
    routeOf<layer_norm::WideLayerNormBackward>("layer_norm_backward", "layer_norm", true);
constinit Route layerNorm =
    routeOf<layer_norm::LayerNorm>("native_layer_norm", "layer_norm", false);
constinit Route layerNormBackward =
    routeOf<layer_norm::LayerNormBackward>("native_layer_norm_backward", "layer_norm", true);

} // namespace kiln::runtime
