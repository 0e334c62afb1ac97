// See Layers.h.
#include "models/lm/Layers.h"

#include "models/common/Draw.h"
#include "models/common/Products.h"
#include "models/lm/Config.h"

#include <kiln/fuse.h>

namespace kiln::lm {

using at::Tensor;

LinearImpl::LinearImpl(std::int64_t in, std::int64_t out)
    : torch::nn::LinearImpl(torch::nn::LinearOptions(in, out).bias(false)) {
  drawNormal(weight, std::sqrt(2.0 / double(in + out)));
}

Tensor LinearImpl::forward(const Tensor& x) {
  return at::linear(x, read());
}

std::vector<Tensor> linears(const Tensor& x, std::initializer_list<Linear> matrices,
                            const Parts& parts) {
  std::vector<Tensor> results;
  std::vector<models::Map> maps;
  for (Linear one : matrices) {
    const bool isLast = maps.size() + 1 == matrices.size();
    if (parts.modules)
      maps.push_back({one->read(), {}, isLast ? models::Layout::rows : models::Layout::stacked});
    else
      results.push_back(one(x));
  }
  return parts.modules ? models::products(x, maps) : results;
}

RmsNormImpl::RmsNormImpl(std::int64_t width, const Parts& parts, double eps)
    : AddRMSNormImpl(width, nn::NormOptions{.eps = eps, .dtype = parts.products}),
      modules(parts.modules) {}

std::tuple<Tensor, Tensor> RmsNormImpl::forward(const Stream& stream) {
  if (modules)
    return stream.added.defined() ? AddRMSNormImpl::forward(stream.added, stream.sum)
                                  : AddRMSNormImpl::forward(stream.sum);
  const Tensor total = stream.total();
  return {at::rms_norm(total, weight.sizes(), weight, options.eps), total};
}

Tensor swiglu(const Tensor& gate, const Tensor& up, const Parts& parts) {
  return parts.modules ? nn::swiglu(gate, up) : at::silu(gate) * up;
}

/// Cosines and sines, [context, 2, size / 2] fp32; for Kiln, which makes them, the positions.
Tensor rotations(std::int64_t context, std::int64_t size, const Parts& parts) {
  if (parts.modules)
    return torch::arange(context, torch::kInt).view({context, 1, 1});
  const Tensor powers = torch::arange(0, size, 2, torch::kDouble) / double(size);
  const Tensor angles =
      torch::arange(context, torch::kDouble).unsqueeze(1) * at::pow(10000.0, -powers).unsqueeze(0);
  return at::stack({angles.cos(), angles.sin()}, 1).to(torch::kFloat);
}

static Tensor rotateByTorch(const Tensor& x, const Tensor& rotations) {
  // Not by select(), whose gradient is a tensor of zeros with a half written, twice.
  const auto pairs = x.transpose(1, 2).unflatten(-1, {-1, 2}).unbind(-1);
  const Tensor &even = pairs[0], &odd = pairs[1];
  const Tensor cosine = rotations.select(1, 0), sine = rotations.select(1, 1);
  return at::stack({even * cosine - odd * sine, even * sine + odd * cosine}, -1)
      .flatten(-2)
      .to(x.scalar_type());
}

std::pair<Tensor, Tensor> rotate(const Tensor& queries, const Tensor& keys, const Tensor& rotations,
                                 const Parts& parts) {
  if (!parts.modules)
    return {rotateByTorch(queries, rotations), rotateByTorch(keys, rotations)};
  static const auto both =
      kiln::fuse([](Expr q, Expr k,
                    Expr positions) { return std::array{rope(q, positions), rope(k, positions)}; },
                 {.name = "rope"});
  const auto [q, k] = both(queries, keys, rotations);
  return {q.transpose(1, 2), k.transpose(1, 2)};
}

Tensor crossEntropy(const Tensor& logits, const Tensor& targets, const Parts& parts) {
  if (!parts.modules)
    return at::cross_entropy_loss(logits, targets);
  static nn::CrossEntropy each(CrossEntropyForm{}, nn::CrossEntropyImpl::Reduction::none);
  return each(logits, targets).mean(); // no target is ignored
}

} // namespace kiln::lm
