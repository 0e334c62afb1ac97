// See Primitives.h.
#include "models/alphafold/model/Primitives.h"

#include "kiln/fuse.h"
#include "models/common/Draw.h"
#include "models/common/Products.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <limits>

namespace kiln::alphafold {

using at::Tensor;
using models::products;
using models::productType;

namespace {

void initialize(Tensor weight, Init init) {
  const at::NoGradGuard constant;
  const double in = double(weight.size(1)), out = double(weight.size(0));
  constexpr double cutDeviation = 0.87962566103423978; // of a normal one cut at two deviations
  switch (init) {
  case Init::lecun:
    return models::drawNormal(weight, std::sqrt(1 / in) / cutDeviation, 2);
  case Init::he:
    return models::drawNormal(weight, std::sqrt(2 / in) / cutDeviation, 2);
  case Init::glorot:
    weight.uniform_(-std::sqrt(6 / (in + out)), std::sqrt(6 / (in + out)));
    return;
  case Init::normal:
    weight.normal_(0, std::sqrt(1 / in));
    return;
  case Init::gate:
  case Init::zero:
    weight.zero_();
  }
}

} // namespace

LinearImpl::LinearImpl(std::int64_t in, std::int64_t out, Init init, bool hasBias)
    : weight(register_parameter("weight", at::empty({out, in}))) {
  initialize(weight, init);
  if (hasBias)
    bias = register_parameter("bias", init == Init::gate ? at::ones({out}) : at::zeros({out}));
}

Tensor LinearImpl::forward(const Tensor& x) {
  return productType(x) == x.scalar_type() && x.scalar_type() == weight.scalar_type()
             ? at::linear(x, weight, bias)
             : products(x, {{weight, bias}})[0];
}

LayerNormImpl::LayerNormImpl(std::int64_t width)
    : weight(register_parameter("weight", at::ones({width}))),
      bias(register_parameter("bias", at::zeros({width}))) {}

Tensor LayerNormImpl::forward(const Tensor& x) {
  static const auto narrow =
      fuse([](const Expr& x, const Expr& weight,
              const Expr& bias) { return layerNorm(x, weight, bias, eps).to(at::kBFloat16); },
           {.name = "layer_norm"});
  const models::Autocast::State autocast = models::Autocast::current(x.device().type());
  return autocast.enabled && autocast.dtype == at::kBFloat16
             ? narrow(x, weight, bias)
             : at::layer_norm(x, weight.sizes(), weight, bias, eps);
}

std::vector<Tensor> drawScales(const at::TensorOptions& options, double share, bool training,
                               const std::vector<std::vector<std::int64_t>>& sizes) {
  if (!training || share == 0)
    return std::vector<Tensor>(sizes.size());
  std::vector<std::int64_t> counts;
  for (const auto& one : sizes)
    counts.push_back(c10::multiply_integers(one));
  const at::NoGradGuard constant;
  const Tensor ones = at::ones({c10::sum_integers(counts)}, options);
  std::vector<Tensor> scales = at::dropout(ones, share, /*train=*/true).split_with_sizes(counts);
  for (std::size_t i = 0; i < sizes.size(); ++i)
    scales[i] = scales[i].view(sizes[i]);
  return scales;
}

FullPrecision::FullPrecision(const Tensor& x) : off(x.device().type(), {}) {}

Tensor full(const Tensor& x) {
  return at::isReducedFloatingType(x.scalar_type()) ? x.to(at::kFloat) : x;
}

Tensor masked(const Tensor& x, const Tensor& mask) {
  return mask.defined() ? x * mask.unsqueeze(-1).to(x.scalar_type()) : x;
}

Tensor maskBias(const Tensor& mask, double infinity) {
  return mask.defined() ? (mask - 1) * infinity : mask;
}

Tensor distanceBins(const Tensor& points, double from, double to, std::int64_t bins) {
  const at::NoGradGuard constant;
  const Tensor squares = (points.unsqueeze(-2) - points.unsqueeze(-3)).square().sum(-1, true);
  const Tensor begin = at::linspace(from, to, bins, points.options()).square();
  const Tensor last = at::full({1}, std::numeric_limits<double>::infinity(), points.options());
  const Tensor end = at::cat({begin.slice(0, 1), last});
  return ((squares > begin) * (squares < end)).to(points.scalar_type());
}

} // namespace kiln::alphafold
