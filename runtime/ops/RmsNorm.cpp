// aten::_fused_rms_norm and its backward, which are what rms_norm comes to on a GPU. For the CPU
// ATen has no kernel of either, only the forward's formula, which autograd follows until a kernel
// is registered for it; from then on it asks for the backward, whose formula is therefore here.
#include "runtime/Router.h"
#include "runtime/Text.h"

#if KILN_TORCH_CUDA
#include <ATen/ops/_fused_rms_norm_backward_cuda_dispatch.h>
#include <ATen/ops/_fused_rms_norm_cuda_dispatch.h>
#endif

#include <ATen/TensorOperators.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/sum.h>
#include <limits>
#include <numeric>

namespace kiln::runtime {

namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;
enum Bit : unsigned { x, gamma, rstd, dy, wantsInput, wantsGamma };

std::string textOf(const Key& key, bool backward) {
  const std::string rows = rowsType(key), row = rowType(key);
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
    return call.add(gamma, given(weight), input, call.key.width, input.scalar_type());
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

/// With y = x rstd: dx = rstd (dy gamma - y mean(dy gamma y)), dgamma = sum(dy y) over the rows.
std::tuple<Tensor, Tensor> backwardOnCpu(const Tensor& grad, const Tensor& input,
                                         at::IntArrayRef shape, const Tensor& rstd,
                                         const Maybe& weight, std::array<bool, 2> mask) {
  std::vector<std::int64_t> row(shape.size()), rows(std::size_t(input.dim()) - shape.size());
  std::iota(row.begin(), row.end(), std::int64_t(rows.size()));
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
    if (Reason why = call.setRows(input, shape))
      return why;
    if (mask == std::array{false, false} || (mask[1] && !given(weight)))
      return kMask;
    const auto dtype = input.scalar_type();
    for (Reason why : {call.add(gamma, given(weight), input, call.key.width, dtype),
                       call.add(rstd, &savedRstd, input, call.rows, at::kFloat),
                       call.add(dy, &grad, input, call.elements(), dtype)})
      if (why)
        return why;
    for (unsigned i = 0; i < 2; ++i)
      call.key.variant |= static_cast<unsigned>(mask[i]) << (wantsInput + i);
    return nullptr;
  }

  static std::tuple<Tensor, Tensor> run(const Launch& launch, const Tensor& grad,
                                        const Tensor& input, at::IntArrayRef,
                                        const Tensor& savedRstd, const Maybe& weight,
                                        std::array<bool, 2> mask) {
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

} // namespace

extern Route rmsNorm, rmsNormBackward;
constinit Route rmsNorm = routeOf<RmsNorm>("_fused_rms_norm", "rms_norm", false);
constinit Route rmsNormBackward =
    routeOf<RmsNormBackward>("_fused_rms_norm_backward", "rms_norm", true);

} // namespace kiln::runtime
