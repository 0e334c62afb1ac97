// See Layers.h.
#include "models/lm/Layers.h"

#include "models/common/Draw.h"
#include "models/common/Products.h"
#include "models/lm/Config.h"

#include <kiln/fuse.h>

#include <span>

namespace kiln::lm {

using at::Tensor;

LinearImpl::LinearImpl(std::int64_t in, std::int64_t out)
    : torch::nn::LinearImpl(torch::nn::LinearOptions(in, out).bias(false)) {
  drawNormal(weight, std::sqrt(2.0 / double(in + out)));
}

Tensor LinearImpl::forward(const Tensor& x) {
  return at::linear(x, read());
}

namespace {

/// Products of one tensor with several matrices. With Kiln's modules what they give to its gradient
/// is added up by the products themselves, and the last result, which outlives the others, has
/// memory of its own.
std::vector<Tensor> linears(const Tensor& x, std::span<Linear> matrices, const Parts& parts) {
  std::vector<Tensor> results;
  std::vector<models::Map> maps;
  for (Linear& one : matrices) {
    const bool isLast = maps.size() + 1 == matrices.size();
    if (parts.modules)
      maps.push_back({one->read(), {}, isLast ? models::Layout::rows : models::Layout::stacked});
    else
      results.push_back(one(x));
  }
  return parts.modules ? models::products(x, maps) : results;
}

/// The same as one product, where Kiln's modules read copies of the matrices that lie side by side;
/// else none. Where other weights lie differs from run to run, and would change roundings.
std::vector<Tensor> asOne(const Tensor& x, std::span<Linear> matrices, const Parts& parts,
                          const models::InPlace& inPlace = {}) {
  std::vector<Tensor> copies;
  std::vector<models::Map> maps;
  for (const Linear& one : matrices) {
    if (!parts.modules || !one->copy.defined())
      return {};
    copies.push_back(one->copy);
    maps.push_back({one->copy});
  }
  return models::lieSideBySide(copies) ? models::products(x, maps, inPlace) : std::vector<Tensor>();
}

} // namespace

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

/// silu(gate) * up of the results of one product, which reads their gradients as one too.
struct SwigluOfOne : torch::autograd::Function<SwigluOfOne> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& gate,
                        const Tensor& up) {
    context->save_for_backward({gate, up});
    return nn::swiglu(gate, up);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    models::refuseSecondGradients("gates of one product");
    static const auto both = kiln::fuse(
        [](const Expr& gradient, const Expr& gate, const Expr& up) {
          const Expr s = sigmoid(gate), open = gate * s;
          return std::array{gradient * up * (s + open * (1 - s)), gradient * open};
        },
        {.name = "swiglu_backward"});
    const auto saved = context->get_saved_variables();
    const Tensor &gate = saved[0], &up = saved[1];
    std::vector<std::int64_t> sizes = gate.sizes().vec();
    sizes.back() *= 2;
    const std::vector<Tensor> parts = at::empty(sizes, gate.options()).chunk(2, -1);
    const Tensor* const operands[] = {&gradients[0], &gate, &up};
    both.untyped().callInto(operands, parts);
    return parts;
  }
};

Tensor swiglu(const Tensor& x, Linear gate, Linear up, const Parts& parts) {
  std::array matrices = {std::move(gate), std::move(up)};
  if (const auto made = asOne(x, matrices, parts); !made.empty())
    return SwigluOfOne::apply(made[0], made[1]);
  const auto made = linears(x, matrices, parts);
  return parts.modules ? nn::swiglu(made[0], made[1]) : at::silu(made[0]) * made[1];
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

Turns turnsOf(const Tensor& rotations, std::int64_t batch, const Parts& parts) {
  if (!parts.modules)
    return {rotations, {}, {}};
  const Tensor tokens = rotations.expand({batch, -1, -1, -1}).reshape({-1, 1, 1});
  return {rotations, tokens, -tokens};
}

static auto& turnBoth() {
  static const auto both = kiln::fuse(
      [](const Expr& q, const Expr& k, const Expr& positions) {
        return std::array{rope(q, positions), rope(k, positions)};
      },
      {.name = "rope"});
  return both;
}

/// Turns queries and keys, [N, width] each, where they lie; what is undefined stays so.
static void turnInPlace(const Tensor& queries, const Tensor& keys, std::int64_t heads,
                        const Tensor& positions) {
  static const auto one =
      kiln::fuse([](const Expr& x, const Expr& positions) { return rope(x, positions); },
                 {.name = "rope_one"});
  std::vector<Tensor> all;
  for (const Tensor& each : {queries, keys})
    if (each.defined())
      all.push_back(each.unflatten(-1, {heads, -1}));
  std::vector<const Tensor*> operands;
  for (const Tensor& each : all)
    operands.push_back(&each);
  operands.push_back(&positions);
  if (!all.empty())
    (all.size() == 2 ? turnBoth().untyped() : one.untyped()).callInto(operands, all);
}

std::array<Tensor, 3> queriesKeysValues(const Tensor& x, std::array<Linear, 3> matrices,
                                        std::int64_t heads, const Turns& turns,
                                        const Parts& parts) {
  const auto turn = [heads](const Tensor& positions) {
    return [=](at::TensorList all) { turnInPlace(all[0], all[1], heads, positions); };
  };
  const auto ofHeads = [&](const Tensor& all) { return all.unflatten(-1, {heads, -1}); };
  std::vector<Tensor> made = asOne(x, matrices, parts, {turn(turns.forward), turn(turns.back)});
  const bool areTurned = !made.empty();
  if (!areTurned)
    made = linears(x, matrices, parts);
  Tensor q = ofHeads(made[0]), k = ofHeads(made[1]);
  const Tensor v = ofHeads(made[2]).transpose(1, 2);
  if (!parts.modules)
    return {rotateByTorch(q, turns.rotations), rotateByTorch(k, turns.rotations), v};
  if (!areTurned) {
    const auto turned = turnBoth()(q, k, turns.rotations);
    q = turned[0], k = turned[1];
  }
  return {q.transpose(1, 2), k.transpose(1, 2), v};
}

Tensor crossEntropy(const Tensor& logits, const Tensor& targets, const Parts& parts) {
  if (!parts.modules)
    return at::cross_entropy_loss(logits, targets);
  static nn::CrossEntropy each(CrossEntropyForm{}, nn::CrossEntropyImpl::Reduction::none);
  return each(logits, targets).mean(); // no target is ignored
}

} // namespace kiln::lm
