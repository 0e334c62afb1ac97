// See AttentionByATen.h.
#include "runtime/ops/AttentionByATen.h"

#include "runtime/Mask.h"

#include <ATen/SDPBackend.h>
#include <ATen/SavedTensorHooks.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/_fused_sdp_choice.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention_backward.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention_backward.h>
#include <ATen/ops/_scaled_dot_product_flash_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_backward.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/alias.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <limits>
#include <torch/csrc/autograd/autograd.h>

namespace kiln::runtime {

namespace {

using at::Tensor;
using MaybeTensor = std::optional<Tensor>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Who computes it in place of a kernel, without dropout.
enum class By { formula, flashOnCpu, flash, efficient, cudnn };

By chosenBy(const AttentionCall& call, const MaybeTensor& mask, bool biasGradient = false) {
  if (call.p > 0 || call.query.dim() != 4 || call.query.scalar_type() == at::kDouble)
    return By::formula;
  const bool isShared = call.isShared();
  const auto choice = static_cast<at::SDPBackend>(at::_fused_sdp_choice(
      call.query, call.key, call.value, mask, 0.0, call.causal, call.scale, isShared));
  const bool onCpu = call.query.is_cpu();
  switch (choice) {
  case at::SDPBackend::flash_attention:
    if (biasGradient || (!onCpu && call.query.size(-1) % 8 != 0) ||
        call.query.size(-1) != call.value.size(-1))
      return By::formula;
    return onCpu ? By::flashOnCpu : By::flash;
  case at::SDPBackend::efficient_attention:
    return onCpu || isShared ? By::formula : By::efficient;
  case at::SDPBackend::cudnn_attention:
    if (call.query.size(0) > kMostOfCudnn)
      return isShared ? By::formula : By::efficient;
    return onCpu || biasGradient ? By::formula : By::cudnn;
  default:
    return By::formula;
  }
}

/// Of floats in the type of the query.
MaybeTensor asBias(const MaybeTensor& mask, const Tensor& query) {
  if (!mask || mask->scalar_type() != at::kBool)
    return mask ? MaybeTensor(mask->to(query.scalar_type())) : mask;
  const auto number = [&](double value) { return at::scalar_tensor(value, query.options()); };
  return at::where(*mask, number(0), number(-kInfinity));
}

/// As fused kernels on GPUs read it: expanded, its rows beginning at multiples of 16 elements.
MaybeTensor asAlignedBias(const MaybeTensor& mask, const AttentionCall& call) {
  MaybeTensor bias = asBias(mask, call.query);
  if (!bias)
    return bias;
  const std::int64_t keys = call.key.size(-2), unit = 16;
  at::DimVector sizes = call.rowSizes();
  sizes.push_back(keys);
  if (bias->size(-1) == 1)
    bias = bias->expand({bias->size(0), bias->size(1), bias->size(2), keys}).contiguous();
  if (keys % unit != 0 || !isAligned(*bias))
    bias = at::constant_pad_nd(*bias, {0, unit - keys % unit}).narrow(-1, 0, keys);
  return bias->expand(sizes);
}

/// The product of [..., h, s, x] and [..., hk, x, y]: heads of the second serve several of the
/// first.
Tensor grouped(const AttentionCall& call, const Tensor& a, const Tensor& b) {
  if (!call.isShared())
    return at::matmul(a, b);
  const std::int64_t shared = call.heads() / call.keyHeads();
  return at::matmul(a.unflatten(-3, {call.keyHeads(), shared}), b.unsqueeze(-3)).flatten(-4, -3);
}

/// True where a key is no later than a query.
Tensor causalMask(const AttentionTensors& all) {
  return at::ones({all.query.size(-2), all.key.size(-2)}, all.query.options().dtype(at::kBool))
      .tril();
}

/// Scores [..., h, s, t] in the type that sums are in; -inf where nothing is seen.
Tensor scoresOf(const AttentionCall& call, const MaybeTensor& mask) {
  const auto type = call.query.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const Tensor keys = call.key.to(type).transpose(-2, -1);
  Tensor scores = grouped(call, call.query.to(type), keys) * call.scale;
  if (mask)
    scores = scores + *asBias(mask, scores);
  if (call.causal)
    scores = scores.masked_fill(causalMask(call).logical_not(), -kInfinity);
  return scores;
}

/// True where dropout keeps a score.
Tensor keptOf(const AttentionCall& call) {
  at::DimVector sizes = call.rowSizes();
  sizes.push_back(call.key.size(-2));
  return maskOf(backendOf(placeOf(call.query)), call.query.device(), sizes, call.seed, call.offset,
                call.p);
}

/// Output and log-sum-exp. A row that sees nothing is zero, and so are its gradients.
std::tuple<Tensor, Tensor> formula(const AttentionCall& call, const MaybeTensor& mask) {
  Tensor scores = scoresOf(call, mask), hidden;
  if (mask) {
    hidden = scores.detach().eq(-kInfinity).all(-1, /*keepdim=*/true);
    scores = scores.masked_fill(hidden, 0);
  }
  Tensor lse = at::logsumexp(scores, -1, /*keepdim=*/true);
  Tensor probabilities = (scores - lse).exp(); // a softmax that no router takes
  if (mask) {
    probabilities = probabilities.masked_fill(hidden, 0);
    lse = lse.masked_fill(hidden, -kInfinity);
  }
  if (call.p > 0)
    probabilities = probabilities.masked_fill(keptOf(call).logical_not(), 0) * (1 / (1 - call.p));
  const Tensor output = grouped(call, probabilities, call.value.to(scores.scalar_type()));
  return {output.to(call.query.scalar_type()), lse.squeeze(-1)};
}

/// Where nothing is seen ATen's kernels do not agree on the result. Kiln's is zero.
Tensor withoutHidden(const Tensor& output, const Tensor& lse, const MaybeTensor& mask) {
  if (!mask || !lse.defined())
    return output;
  return output.masked_fill(lse.eq(-kInfinity).unsqueeze(-1), 0);
}

/// A call as ATen takes it, and its mask.
std::pair<AttentionCall, MaybeTensor> withOneMask(const AttentionCall& given) {
  std::pair<AttentionCall, MaybeTensor> all = {given, std::nullopt};
  std::tie(all.second, all.first.causal) = attentionMaskOf(given, given.causal);
  return all;
}

/// As kernels lay results out, in the order of a tensor's dimensions.
Tensor laidOutAs(const Tensor& like, const Tensor& made) {
  const at::DimVector strides = denseStrides(made.sizes(), like);
  if (made.strides() == at::IntArrayRef(strides))
    return made;
  return at::empty_strided(made.sizes(), strides, made.options()).copy_(made);
}

Tensor noNumbers(const Tensor& like) {
  return at::empty({0}, like.options().dtype(at::kLong));
}

} // namespace

std::pair<MaybeTensor, bool> attentionMaskOf(const AttentionTensors& given, bool causal) {
  if (!given.bias.defined() && !given.mask.defined())
    return {std::nullopt, causal};
  Tensor seen = given.mask;
  if (causal) {
    const Tensor before = causalMask(given);
    seen = seen.defined() ? seen.logical_and(before) : before;
  }
  if (!given.bias.defined() || !seen.defined())
    return {given.bias.defined() ? given.bias : seen, false};
  const Tensor hidden = at::scalar_tensor(-kInfinity, given.bias.options());
  return {at::where(seen, given.bias, hidden), false};
}

std::tuple<Tensor, Tensor> attentionByATen(const Tensor&, const AttentionCall& given) {
  const at::AutoDispatchBelowADInplaceOrView below;
  const auto [call, mask] = withOneMask(given);
  const Tensor &q = call.query, &k = call.key, &v = call.value;
  Tensor output, lse;
  switch (chosenBy(call, mask)) {
  case By::flashOnCpu:
    std::tie(output, lse) = at::_scaled_dot_product_flash_attention_for_cpu(
        q, k, v, 0.0, call.causal, asBias(mask, q), call.scale);
    break;
  case By::flash: {
    const auto all =
        at::_scaled_dot_product_flash_attention(q, k, v, 0.0, call.causal, false, call.scale);
    output = std::get<0>(all);
    lse = std::get<1>(all);
    break;
  }
  case By::efficient: {
    const auto all = at::_scaled_dot_product_efficient_attention(
        q, k, v, asAlignedBias(mask, call), call.saves, 0.0, call.causal, call.scale);
    output = std::get<0>(all);
    if (call.saves) // its rows are padded
      lse = std::get<1>(all).narrow(-1, 0, q.size(-2));
    break;
  }
  case By::cudnn: {
    const auto all = at::_scaled_dot_product_cudnn_attention(
        q, k, v, asAlignedBias(mask, call), call.saves, 0.0, call.causal, false, call.scale);
    output = std::get<0>(all);
    if (call.saves)
      lse = std::get<1>(all).view(call.rowSizes());
    break;
  }
  case By::formula:
    std::tie(output, lse) = formula(call, mask);
    break;
  }
  output = laidOutAs(q, withoutHidden(output, lse, mask));
  return {output, call.saves ? lse.contiguous() : Tensor()};
}

namespace {

/// A scope of this thread that leaves what is saved to nobody's hooks.
struct WithoutHooks {
  WithoutHooks() { at::SavedTensorDefaultHooks::set_tls_state({}); }
  WithoutHooks(const WithoutHooks&) = delete;
  WithoutHooks& operator=(const WithoutHooks&) = delete;
  ~WithoutHooks() { at::SavedTensorDefaultHooks::set_tls_state(before); }
  const at::impl::SavedTensorDefaultHooksTLS before = at::SavedTensorDefaultHooks::get_tls_state();
};

/// By the formula's own gradients. Tensors that are the same are told apart.
AttentionGradients byFormula(const Tensor& grad, const AttentionCall& call,
                             const std::array<bool, 4>& wanted, bool differentiable) {
  const at::AutoGradMode recorded(true);
  const c10::impl::ExcludeDispatchKeyGuard asTyped(c10::autocast_dispatch_keyset);
  AttentionCall leaves = call;
  std::optional<WithoutHooks> own;
  if (!differentiable)
    own.emplace();
  std::vector<Tensor> inputs;
  Tensor* const all[] = {&leaves.query, &leaves.key, &leaves.value, &leaves.bias};
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (!all[i]->defined())
      continue;
    *all[i] = differentiable ? at::alias(*all[i]) : all[i]->detach();
    if (!wanted[i])
      continue;
    if (!differentiable)
      all[i]->requires_grad_();
    inputs.push_back(*all[i]);
  }
  const auto [plain, oneMask] = withOneMask(leaves);
  const Tensor output = std::get<0>(formula(plain, oneMask));
  const auto made = torch::autograd::grad({output}, inputs, {grad}, /*retain_graph=*/std::nullopt,
                                          differentiable, /*allow_unused=*/true);
  std::array<Tensor, 4> gradients;
  for (std::size_t i = 0, next = 0; i < wanted.size(); ++i)
    if (wanted[i])
      gradients[i] = made[next++];
  return {gradients[0], gradients[1], gradients[2], gradients[3]};
}

/// [b, h, s, d] with the rows of all heads beside each other in memory: the backward of ATen's
/// efficient kernel is told no stride of the output's rows, and takes heads times width for it.
Tensor withHeadsBesideRows(const Tensor& output) {
  return output.transpose(1, 2).contiguous().transpose(1, 2);
}

/// By a fused kernel of ATen's.
AttentionGradients byKernel(By by, const Tensor& grad, const AttentionCall& call,
                            const AttentionSaved& saved, const MaybeTensor& mask) {
  const at::AutoDispatchBelowADInplaceOrView below;
  const Tensor &q = call.query, &k = call.key, &v = call.value, &o = saved.output;
  const std::int64_t queries = q.size(-2), keys = k.size(-2);
  // Where nothing is seen no probability may be left.
  const Tensor lse = mask ? saved.lse.masked_fill(saved.lse.eq(-kInfinity), kInfinity) : saved.lse;
  const Tensor none = noNumbers(q);
  AttentionGradients all;
  auto& [dq, dk, dv, db] = all;
  switch (by) {
  case By::flashOnCpu:
    std::tie(dq, dk, dv) = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        grad, q, k, v, o, lse, 0.0, call.causal, asBias(mask, q), call.scale);
    break;
  case By::flash: {
    const Tensor state = at::zeros({2}, none.options());
    std::tie(dq, dk, dv) = at::_scaled_dot_product_flash_attention_backward(
        grad, q, k, v, o, lse, {}, {}, queries, keys, 0.0, call.causal, state, none, call.scale);
    break;
  }
  case By::efficient: {
    const std::int64_t unit = 32;
    const Tensor padded =
        at::constant_pad_nd(lse, {0, (unit - queries % unit) % unit}, kInfinity).contiguous();
    const MaybeTensor bias = asAlignedBias(mask, call);
    const Tensor zero = at::zeros({}, none.options());
    std::tie(dq, dk, dv, db) = at::_scaled_dot_product_efficient_attention_backward(
        grad, q, k, v, bias.value_or(Tensor()), withHeadsBesideRows(o), padded, zero, zero, 0.0,
        {saved.wanted[0], saved.wanted[1], saved.wanted[2], saved.wanted[3]}, call.causal,
        call.scale);
    break;
  }
  default: {
    const Tensor zero = at::zeros({}, none.options());
    std::tie(dq, dk, dv) = at::_scaled_dot_product_cudnn_attention_backward(
        grad, q, k, v, o, lse.unsqueeze(-1), zero, zero,
        asAlignedBias(mask, call).value_or(Tensor()), {}, {}, queries, keys, 0.0, call.causal,
        call.scale);
    break;
  }
  }
  if (db.defined())
    db = db.sum_to_size(call.bias.sizes()).to(call.bias.scalar_type());
  return all;
}

} // namespace

AttentionGradients attentionBackwardByATen(const Tensor& grad, const AttentionCall& given,
                                           const AttentionSaved& saved) {
  const auto [call, mask] = withOneMask(given);
  const By by = chosenBy(call, mask, saved.wanted[3]);
  AttentionGradients all = by == By::formula ? byFormula(grad, call, saved.wanted, false)
                                             : byKernel(by, grad, call, saved, mask);
  const auto finish = [&](Tensor& gradient, unsigned which, const Tensor& like) {
    gradient = saved.wanted[which] ? laidOutAs(like, gradient) : Tensor();
  };
  finish(std::get<0>(all), 0, call.query);
  finish(std::get<1>(all), 1, call.key);
  finish(std::get<2>(all), 2, call.value);
  finish(std::get<3>(all), 3, call.bias);
  return all;
}

AttentionGradients attentionGradients(const Tensor& grad, const AttentionTensors& given,
                                      const AttentionForm& form, const Tensor& seeds,
                                      const std::array<bool, 4>& wanted, bool differentiable) {
  return byFormula(grad, callOf(given, form, seeds), wanted, differentiable);
}

} // namespace kiln::runtime
