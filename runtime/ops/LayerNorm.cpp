// aten::native_layer_norm and its backward.
#include "runtime/Router.h"
#include "runtime/Text.h"

#include <ATen/ops/native_layer_norm_backward_cpu_dispatch.h>
#include <ATen/ops/native_layer_norm_cpu_dispatch.h>
#if KILN_TORCH_CUDA
#include <ATen/ops/native_layer_norm_backward_cuda_dispatch.h>
#include <ATen/ops/native_layer_norm_cuda_dispatch.h>
#endif

namespace kiln::runtime {

namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;
enum Bit : unsigned { x, gamma, beta, mean, rstd, dy, wantsInput, wantsGamma, wantsBeta };

/// The forward, with the operands that the key names; gradients of those that it wants.
std::string textOf(const Key& key, bool backward) {
  const std::string rows = rowsType(key), row = rowType(key);
  auto mark = [&](Bit wanted) { return backward && !has(key, wanted) ? kNoGradient : ""; };
  std::string arguments = fmt::format("%x: {}{}", rows, mark(wantsInput)), operands = "%x",
              types = rows;
  for (auto [bit, wanted, argument] :
       {std::tuple(gamma, wantsGamma, "%gamma"), std::tuple(beta, wantsBeta, "%beta")})
    if (has(key, bit)) {
      arguments += fmt::format(", {}: {}{}", argument, row, mark(wanted));
      operands += fmt::format(", {}", argument);
      types += ", " + row;
    }
  return fmt::format("func.func @layer_norm({0}) -> ({1}, {2}{3}, {2}{3}) {{\n"
                     "  %y, %mean, %rstd = kiln.layer_norm {4} {{eps = {5}}}\n"
                     "      : ({6}) -> ({1}, {2}, {2})\n"
                     "  return %y, %mean, %rstd : {1}, {2}, {2}\n}}\n",
                     arguments, rows, kStatistic, kNoGradient, operands, numberText(key), types);
}

/// ATen's type of mean and rstd: on GPUs what it adds up in, on CPUs the input's own.
at::ScalarType statisticType(const Tensor& input) {
  return input.is_cpu() ? input.scalar_type() : at::kFloat;
}
/// The same numbers in the type that is asked for.
Tensor inType(Tensor statistic, at::ScalarType type) {
  return statistic.scalar_type() == type ? std::move(statistic) : statistic.to(type);
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
    if (Reason why = call.setRows(input, shape))
      return why;
    if (given(bias) && !given(weight))
      return "a bias without a weight";
    call.key.number = eps;
    for (auto [bit, tensor] : {std::pair(gamma, given(weight)), std::pair(beta, given(bias))})
      if (Reason why = call.add(bit, tensor, input, call.key.width, input.scalar_type()))
        return why;
    return nullptr;
  }

  static std::tuple<Tensor, Tensor, Tensor> run(const Launch& launch, const Tensor& input,
                                                at::IntArrayRef shape, const Maybe& weight,
                                                const Maybe& bias, double) {
    const auto in = input.expect_contiguous();
    const auto scale = given(weight) ? weight->contiguous() : Tensor();
    const auto shift = given(bias) ? bias->contiguous() : Tensor();
    Tensor y = launch.empty(input.sizes(), input.scalar_type());
    Tensor m = launch.emptyStatistic(input, shape);
    Tensor r = launch.emptyStatistic(input, shape);
    launch({&*in, &scale, &shift}, {&y, &m, &r});
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
    if (Reason why = call.setRows(input, shape))
      return why;
    if (mask == std::array{false, false, false} || (!given(weight) && (mask[1] || mask[2])) ||
        (!given(bias) && mask[2]))
      return kMask;
    const auto dtype = input.scalar_type();
    const std::int64_t width = call.key.width;
    for (Reason why : {call.add(gamma, given(weight), input, width, dtype),
                       call.add(beta, mask[2] ? given(bias) : nullptr, input, width, dtype),
                       call.add(mean, &savedMean, input, call.rows, statisticType(input)),
                       call.add(rstd, &savedRstd, input, call.rows, statisticType(input)),
                       call.add(dy, &grad, input, call.elements(), dtype)})
      if (why)
        return why;
    for (unsigned i = 0; i < 3; ++i)
      call.key.variant |= static_cast<unsigned>(mask[i]) << (wantsInput + i);
    return nullptr;
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

} // namespace

extern Route layerNorm, layerNormBackward;
constinit Route layerNorm = routeOf<LayerNorm>("native_layer_norm", "layer_norm", false);
constinit Route layerNormBackward =
    routeOf<LayerNormBackward>("native_layer_norm_backward", "layer_norm", true);

} // namespace kiln::runtime
