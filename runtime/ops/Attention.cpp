// aten::scaled_dot_product_attention, which ATen composes of one of several kernels, or of products
// and a softmax. It is taken above autograd, before ATen chooses, and keeps for its backward what
// it would keep with a kernel or without: neither the result's history nor a number that dropout
// draws depends on whether the kernel is there yet. What has a wrapper, a tangent or a mode around
// it goes on to ATen's composition.
#include "runtime/ops/Attend.h"
#include "runtime/ops/AttentionNode.h"
#include "runtime/ops/AttentionSlices.h"
#include "runtime/ops/AttentionText.h"

#include "runtime/Autocast.h"
#include "runtime/Mask.h"

#include <ATen/SDPBackend.h>
#include <ATen/ops/_fused_sdp_choice.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/scaled_dot_product_attention_compositeimplicitautograd_dispatch.h>

namespace kiln::runtime {

/// In fp64, for comparisons.
static AttentionCall inDouble(const AttentionCall& call) {
  AttentionCall wide = call;
  for (at::Tensor* one : {&wide.query, &wide.key, &wide.value, &wide.bias})
    *one = inDouble(*one);
  return wide;
}
static AttentionSaved inDouble(const AttentionSaved& saved) {
  return {inDouble(saved.output), inDouble(saved.lse), saved.wanted};
}

namespace attending {
namespace {

/// With gaps nowhere, in the order of a tensor's dimensions.
Tensor emptyAs(const Tensor& like, at::IntArrayRef sizes) {
  return at::empty_strided(sizes, denseStrides(sizes, like), like.options());
}

/// For gradients. Where query, key and value are parts of one tensor, equally far apart, as one
/// product makes them, so are their gradients, and whoever made them reads these as one.
std::array<Tensor, 4> emptyGradients(const AttentionCall& a, const std::array<bool, 4>& wanted) {
  const auto wantedAs = [&](std::size_t i, const Tensor& like) {
    return wanted[i] ? emptyAs(like, like.sizes()) : Tensor();
  };
  const std::int64_t step = a.key.storage_offset() - a.query.storage_offset();
  const bool areParts =
      wanted[0] && wanted[1] && wanted[2] && step > 0 && a.query.is_alias_of(a.key) &&
      a.query.is_alias_of(a.value) && a.value.storage_offset() - a.key.storage_offset() == step &&
      a.query.sizes() == a.key.sizes() && a.query.sizes() == a.value.sizes() &&
      a.query.strides() == a.key.strides() && a.query.strides() == a.value.strides();
  Tensor db = wanted[3] ? at::empty(a.bias.sizes(), a.bias.options()) : Tensor();
  if (!areParts)
    return {wantedAs(0, a.query), wantedAs(1, a.key), wantedAs(2, a.value), std::move(db)};
  at::DimVector sizes(a.query.sizes()), strides(a.query.strides());
  sizes.insert(sizes.begin(), 3);
  strides.insert(strides.begin(), step);
  const Tensor all = emptyAs(at::as_strided(a.query, sizes, strides), sizes);
  if (!isAligned(all.select(0, 1))) // nor is the third part
    return {wantedAs(0, a.query), wantedAs(1, a.key), wantedAs(2, a.value), std::move(db)};
  return {all.select(0, 0), all.select(0, 1), all.select(0, 2), std::move(db)};
}

struct Attention {
  using Signature = std::tuple<Tensor, Tensor>(const Tensor&, const AttentionCall&);
  static constexpr Layer layer = Layer::gradient; // called by what stands at the dispatcher's keys
  static constexpr Natives<Signature> natives = {&attentionByATen, &attentionByATen};
  static constexpr const char* operands[] = {"q", "k", "v", "b", "m", "seed", "offset"};
  static constexpr const char* results[] = {"o", "lse"};

  static std::string module(const Key& key) { return attentionText(key); }
  static std::string label(const Key& key, std::span<const std::int64_t> sizes) {
    return attentionLabel(key, sizes);
  }
  static std::vector<std::int64_t> usual(const Key& key, std::span<const std::int64_t> sizes) {
    return usualSizes(key, sizes);
  }
  static Reason describe(Call& call, const Tensor&, const AttentionCall& attention) {
    describeAttention(call, attention);
    return nullptr;
  }
  static std::tuple<Tensor, Tensor> run(const Launch& launch, const Tensor& q,
                                        const AttentionCall& a) {
    const at::AutoDispatchBelowADInplaceOrView below;
    Tensor output = a.output.defined() ? a.output : emptyAs(q, a.outputSizes());
    Tensor lse = a.lse.defined() ? a.lse : launch.empty(a.rowSizes(), at::kFloat);
    launch.strided({&q, &a.key, &a.value, &a.bias, &a.mask, &a.seed, &a.offset}, {&output, &lse});
    return {std::move(output), a.saves ? std::move(lse) : Tensor()};
  }
};

struct AttentionBackward {
  using Signature = AttentionGradients(const Tensor&, const AttentionCall&, const AttentionSaved&);
  static constexpr Layer layer = Layer::gradient;
  static constexpr Natives<Signature> natives = {&attentionBackwardByATen,
                                                 &attentionBackwardByATen};
  static constexpr const char* operands[] = {"q",    "k",      "v", "b",   "m",
                                             "seed", "offset", "o", "lse", "do"};
  static constexpr const char* results[] = {"dq", "dk", "dv", "db"};

  static std::string module(const Key& key) { return attentionBackwardText(key); }
  static std::string label(const Key& key, std::span<const std::int64_t> sizes) {
    return attentionLabel(key, sizes);
  }
  static std::vector<std::int64_t> usual(const Key& key, std::span<const std::int64_t> sizes) {
    return usualSizes(key, sizes);
  }
  static Reason describe(Call& call, const Tensor& grad, const AttentionCall& attention,
                         const AttentionSaved& saved) {
    describeAttention(call, attention, saved, grad);
    return nullptr;
  }
  static AttentionGradients run(const Launch& launch, const Tensor& grad, const AttentionCall& a,
                                const AttentionSaved& saved) {
    const at::AutoDispatchBelowADInplaceOrView below;
    auto [dq, dk, dv, db] = saved.isPlaced() ? saved.gradients : emptyGradients(a, saved.wanted);
    launch.strided({&a.query, &a.key, &a.value, &a.bias, &a.mask, &a.seed, &a.offset, &saved.output,
                    &saved.lse, &grad},
                   {&dq, &dk, &dv, &db});
    return {std::move(dq), std::move(dk), std::move(dv), std::move(db)};
  }
};

/// As the kernel reads it.
Tensor readable(const Tensor& rows, const AttentionCall& call, bool strided) {
  const Tensor shaped =
      rows.sizes() == at::IntArrayRef(call.outputSizes()) ? rows : rows.reshape(call.outputSizes());
  if (hasReadableRows(shaped) && (strided || shaped.is_contiguous()))
    return shaped;
  return shaped.clone(at::MemoryFormat::Contiguous);
}

std::tuple<Tensor, Tensor> attended(const AttentionCall& call) {
  const std::int64_t count = slicesOf(call);
  if (count == 1)
    return callRouted<Attention>(call.query, call.query, call);
  AttentionCall whole = call;
  whole.output = emptyAs(call.query, call.outputSizes());
  if (call.saves)
    whole.lse = at::empty(call.rowSizes(), call.query.options().dtype(at::kFloat));
  for (std::int64_t i = 0; i < count; ++i) {
    const AttentionCall slice = sliceOf(whole, i);
    const auto [output, lse] = callRouted<Attention>(slice.query, slice.query, slice);
    putInto(sliceOf(whole.output, i), output);
    putInto(sliceOf(whole.lse, i), lse);
  }
  return {whole.output, whole.lse};
}

AttentionGradients differentiated(const Tensor& rows, const AttentionCall& call,
                                  const AttentionSaved& saved) {
  const std::int64_t count = slicesOf(call);
  if (count == 1)
    return callRouted<AttentionBackward>(call.query, rows, call, saved);
  AttentionSaved whole = saved;
  std::vector<std::tuple<Tensor, AttentionCall, AttentionSaved>> slices;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    whole.gradients = emptyGradients(call, saved.wanted);
    for (std::int64_t i = 0; i < count; ++i)
      slices.emplace_back(readableSliceOf(rows, i), sliceOf(call, i), sliceOf(whole, i));
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const auto& [grad, slice, kept] = slices[static_cast<std::size_t>(i)];
    const auto [dq, dk, dv, db] = callRouted<AttentionBackward>(slice.query, grad, slice, kept);
    const at::AutoDispatchBelowADInplaceOrView below;
    const Tensor* made[] = {&dq, &dk, &dv, &db};
    for (std::size_t j = 0; j < std::size(made); ++j)
      putInto(sliceOf(whole.gradients[j], i), *made[j]);
  }
  return std::tuple_cat(whole.gradients);
}

AttentionGradients gradientsOf(const Tensor& grad, const AttentionTensors& given,
                               const AttentionForm& form, const Tensor& seeds,
                               const AttentionSaved& saved) {
  if (whyNotAttention(given, form)) // hooks have given other tensors back
    return attentionGradients(grad, given, form, seeds, saved.wanted, false);
  AttentionCall call;
  AttentionSaved shaped = saved;
  Tensor rows;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    call = attentionOf(given, form, seeds);
    const bool strided =
        !call.query.is_contiguous() || !call.key.is_contiguous() || !call.value.is_contiguous();
    rows = readable(grad, call, strided);
    shaped.output = readable(saved.output, call, strided);
    shaped.lse = saved.lse.reshape(call.rowSizes()).contiguous();
    if (!isAligned(shaped.lse)) // as hooks may give it back
      shaped.lse = shaped.lse.clone();
  }
  AttentionGradients all = differentiated(rows, call, shaped);
  const at::AutoDispatchBelowADInplaceOrView below;
  const auto asGiven = [](Tensor& gradient, const Tensor& like) {
    if (gradient.defined() && gradient.sizes() != like.sizes())
      gradient = gradient.reshape(like.sizes());
  };
  asGiven(std::get<0>(all), given.query);
  asGiven(std::get<1>(all), given.key);
  asGiven(std::get<2>(all), given.value);
  asGiven(std::get<3>(all), given.bias);
  return all;
}

/// Of a call that is taken.
Tensor recorded(const AttentionTensors& given, const AttentionForm& form) {
  const bool saves = needGradients(given);
  Tensor seeds, output, lse;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    if (form.p > 0)
      seeds = at::empty({2}, given.query.options().dtype(at::kLong)).random_();
    AttentionCall call = attentionOf(given, form, seeds);
    call.saves = saves;
    std::tie(output, lse) = attended(call);
    if (const at::DimVector sizes = attentionSizes(given); output.sizes() != at::IntArrayRef(sizes))
      output = output.reshape(sizes);
  }
  if (saves) {
    const auto node = std::make_shared<AttentionNode>(given, form);
    torch::autograd::set_history(output, node);
    node->output = SavedVariable(output, /*is_output=*/true);
    node->lse = SavedVariable(lse, false);
    node->seeds = SavedVariable(seeds, false);
  }
  return output;
}

Reason whyNot(const AttentionTensors& given, const AttentionForm& form) {
  if (Reason why = whyNotAttention(given, form))
    return why;
  if (form.p == 0)
    return nullptr;
  const Tensor& query = given.query;
  return canDrawMasks(backendOf(placeOf(query)), std::max<int>(query.device().index(), 0), form.p)
             ? nullptr
             : "no kernel that draws masks can be compiled";
}

std::array<Site*, 2> sites{}; // by place

/// What Kiln takes; undefined: nothing, which is counted.
Tensor taken(const AttentionTensors& given, const AttentionForm& form) {
  const Place place = placeOf(given.query);
  Site* site = sites[static_cast<std::size_t>(place)];
  const Policy& policy = currentPolicy();
  if (!site || !policy.takes(place, site->route.index))
    return {};
  if (Reason why = whyNot(given, form)) {
    site->refuse(why, given.query, policy);
    return {};
  }
  return recorded(given, form);
}

/// Whether ATen would give cuDNN more sequences than it takes, which fails.
bool isTooLongForCudnn(const AttentionTensors& given, const std::optional<Tensor>& mask,
                       const AttentionForm& form) {
  const Tensor& query = given.query;
  return query.is_cuda() && query.dim() == 4 && query.size(0) > kMostOfCudnn &&
         static_cast<at::SDPBackend>(at::_fused_sdp_choice(
             query, given.key, given.value, mask, form.p, form.causal, form.scale, form.shared)) ==
             at::SDPBackend::cudnn_attention;
}

/// By ATen's choice, with its history.
Tensor byATen(const AttentionTensors& given, const std::optional<Tensor>& mask,
              const AttentionForm& form) {
  if (isTooLongForCudnn(given, mask, form)) {
    std::vector<Tensor> parts;
    const std::int64_t all = given.query.size(0);
    for (std::int64_t from = 0; from < all; from += kMostOfCudnn) {
      const std::int64_t count = std::min(kMostOfCudnn, all - from);
      const auto part = [&](const Tensor& all) {
        return all.dim() == 4 && all.size(0) > 1 ? all.narrow(0, from, count) : all;
      };
      parts.push_back(byATen({part(given.query), part(given.key), part(given.value), {}, {}},
                             mask ? std::optional(part(*mask)) : mask, form));
    }
    return at::cat(parts);
  }
  return at::compositeimplicitautograd::scaled_dot_product_attention(
      given.query, given.key, given.value, mask, form.p, form.causal, form.scale, form.shared);
}

Tensor routed(const Tensor& query, const Tensor& key, const Tensor& value,
              const std::optional<Tensor>& mask, double p, bool causal, std::optional<double> scale,
              bool shared) {
  AttentionTensors all{query, key, value, {}, {}};
  const AttentionForm form{p, causal, scale, shared};
  const Tensor* one = given(mask);
  if (one)
    (one->scalar_type() == at::kBool ? all.mask : all.bias) = *one;
  Tensor output = one && causal ? Tensor() : taken(all, form); // of both ATen says why not
  return output.defined() ? output : byATen(all, mask, form);
}

/// Above autograd, and, for inference mode, which has none, where kernels are.
void install(torch::Library& library, Site& site) {
  runtime::install<Attention>(library, site);
  sites[static_cast<std::size_t>(site.backend.place)] = &site;
  const c10::DispatchKey key = site.backend.key();
  library.impl(site.route.name, torch::dispatch(key, &routed));
  library.impl(
      site.route.name,
      torch::dispatch(c10::getAutogradKeyFromBackend(c10::toBackendComponent(key)), &routed));
}

constexpr Route installed(Route route) {
  route.install = &install;
  return route;
}

} // namespace
} // namespace attending

at::Tensor attend(const AttentionTensors& given, const AttentionForm& form) {
  const AttentionTensors all{asProductsRead(given.query), asProductsRead(given.key),
                             asProductsRead(given.value), given.bias, given.mask};
  const c10::impl::ExcludeDispatchKeyGuard asTyped(c10::autocast_dispatch_keyset);
  at::Tensor output = attending::taken(all, form);
  if (output.defined())
    return output;
  AttentionForm plain = form;
  std::optional<at::Tensor> mask;
  std::tie(mask, plain.causal) = attentionMaskOf(all, form.causal);
  if (mask && mask->scalar_type() != at::kBool) // of ATen it has the query's dtype
    mask = mask->to(all.query.scalar_type());
  return attending::byATen(all, mask, plain);
}

extern Route scaledDotProduct, scaledDotProductBackward;
constinit Route scaledDotProduct = attending::installed(
    routeOf<attending::Attention>("scaled_dot_product_attention", "attention", false));
constinit Route scaledDotProductBackward =
    routeOf<attending::AttentionBackward>("attention_backward", "attention", false);

} // namespace kiln::runtime
