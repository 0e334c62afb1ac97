// See AttentionCall.h.
#include "runtime/ops/AttentionCall.h"

#include "runtime/Plain.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/as_strided.h>
#include <algorithm>
#include <cmath>
#include <numeric>
#include <ranges>
#include <vector>

namespace kiln::runtime {

namespace {

using at::Tensor;

constexpr std::int64_t maxHeadWidth = 256, maxHeads = 65535, maxSize = std::int64_t(1) << 31;
constexpr std::size_t maxLeading = 2;

/// Sizes and strides of [leading..., heads, rows, columns]. Where a bias or a mask is the same
/// along a dimension its size is 1.
struct View {
  at::DimVector sizes, strides;
  void insert(std::size_t d, std::int64_t size, std::int64_t stride) {
    sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(d), size);
    strides.insert(strides.begin() + static_cast<std::ptrdiff_t>(d), stride);
  }
  void erase(std::size_t d) {
    sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(d));
    strides.erase(strides.begin() + static_cast<std::ptrdiff_t>(d));
  }
};

using Views = std::array<View, 5>; // of query, key, value, bias, mask; empty: there is none

std::array<const Tensor*, 5> listOf(const AttentionTensors& all) {
  return {&all.query, &all.key, &all.value, &all.bias, &all.mask};
}

/// Three dimensions are a batch without heads, unless heads of keys are shared.
bool hasHeads(const AttentionTensors& all) {
  return all.query.dim() > 3 || (all.query.dim() == 3 && all.query.size(0) != all.key.size(0));
}

View viewOf(const Tensor& tensor, std::size_t rank, bool heads) {
  View view{at::DimVector(tensor.sizes()), at::DimVector(tensor.strides())};
  while (view.sizes.size() < rank)
    view.insert(0, 1, 0);
  if (!heads)
    view.insert(rank - 2, 1, 0);
  return view;
}

/// Of an expanded tensor what there is of it, unless each of its elements has a gradient.
void dropRepeated(View& view) {
  for (std::size_t d = 0; d < view.sizes.size(); ++d)
    if (view.strides[d] == 0)
      view.sizes[d] = 1;
}

/// Whether leading dimensions d and d + 1 can be walked as one.
bool isOne(const View& view, const View& query, std::size_t d) {
  if (view.sizes.empty())
    return true;
  const bool outer = view.sizes[d] == query.sizes[d],
             inner = view.sizes[d + 1] == query.sizes[d + 1];
  if (!outer && !inner)
    return true;
  return outer && inner && view.strides[d] == view.strides[d + 1] * view.sizes[d + 1];
}

/// As few leading dimensions as all tensors allow, but one.
void collapse(Views& views) {
  const auto each = [&](const auto& change) {
    for (View& view : views)
      if (!view.sizes.empty())
        change(view);
  };
  const auto leading = [&] { return views[0].sizes.size() - 3; };
  for (std::size_t d = leading(); d-- > 0;)
    if (views[0].sizes[d] == 1)
      each([d](View& view) { view.erase(d); });
  for (std::size_t d = leading(); d-- > 1;) {
    const View query = views[0];
    if (std::ranges::all_of(views, [&](const View& view) { return isOne(view, query, d - 1); }))
      each([d](View& view) {
        view.sizes[d] *= view.sizes[d - 1];
        view.erase(d - 1);
      });
  }
  if (leading() == 0)
    each([](View& view) { view.insert(0, 1, 0); });
}

Views viewsOf(const AttentionTensors& all) {
  const auto rank = static_cast<std::size_t>(all.query.dim());
  const bool heads = hasHeads(all);
  Views views;
  const auto list = listOf(all);
  for (std::size_t i = 0; i < list.size(); ++i)
    if (list[i]->defined())
      views[i] = viewOf(*list[i], rank, heads);
  for (const std::size_t i : {3, 4})
    if (list[i]->defined() && !list[i]->requires_grad())
      dropRepeated(views[i]);
  collapse(views);
  return views;
}

Tensor as(const View& view, const Tensor& tensor) {
  if (!tensor.defined() || (view.sizes == tensor.sizes() && view.strides == tensor.strides()))
    return tensor;
  return at::as_strided(tensor, view.sizes, view.strides);
}

Reason whyNotTensors(const AttentionTensors& all) {
  for (const Tensor* tensor : listOf(all)) {
    if (!tensor->defined())
      continue;
    if (Reason why = whyNotPlain(*tensor))
      return why;
    if (tensor->layout() != at::kStrided)
      return kStrides;
    if (tensor->device() != all.query.device())
      return kDevices;
  }
  const at::ScalarType type = all.query.scalar_type();
  if (all.key.scalar_type() != type || all.value.scalar_type() != type)
    return kDtypes;
  if (!dtypeOf(type))
    return kDtype;
  if (all.bias.defined() && all.bias.scalar_type() != type && all.bias.scalar_type() != at::kFloat)
    return kDtypes;
  return all.mask.defined() && all.mask.scalar_type() != at::kBool ? kDtypes : nullptr;
}

bool isBroadcast(const Tensor& tensor, at::IntArrayRef scores) {
  if (!tensor.defined())
    return true;
  const auto own = tensor.sizes();
  return own.size() <= scores.size() &&
         std::equal(
             own.begin(), own.end(), scores.end() - static_cast<std::ptrdiff_t>(own.size()),
             [](std::int64_t size, std::int64_t wanted) { return size == 1 || size == wanted; });
}

Reason whyNotShapes(const AttentionTensors& all, bool shared) {
  const auto q = all.query.sizes(), k = all.key.sizes(), v = all.value.sizes();
  const std::size_t rank = q.size();
  if (rank < 2 || k.size() != rank || v.size() != rank)
    return kShapes;
  if (all.query.numel() == 0 || all.key.numel() == 0 || all.value.numel() == 0)
    return kEmpty;
  const std::size_t leading = rank - std::min<std::size_t>(rank, 3);
  const bool sameLeading =
      q.slice(0, leading) == k.slice(0, leading) && q.slice(0, leading) == v.slice(0, leading);
  if (!sameLeading || q[rank - 1] != k[rank - 1] || k[rank - 2] != v[rank - 2])
    return kShapes;
  if (rank > 2) {
    const std::int64_t heads = q[rank - 3], keyHeads = k[rank - 3];
    if (v[rank - 3] != keyHeads || (shared ? heads % keyHeads != 0 : heads != keyHeads))
      return kShapes;
    if (heads > maxHeads && hasHeads(all))
      return "more than 65,535 heads";
  }
  if (q[rank - 1] > maxHeadWidth || v[rank - 1] > maxHeadWidth)
    return "heads wider than 256";
  if (all.query.numel() / q[rank - 1] > maxSize || k[rank - 2] > maxSize)
    return kTall;
  at::DimVector scores(q);
  scores[rank - 1] = k[rank - 2];
  return isBroadcast(all.bias, scores) && isBroadcast(all.mask, scores) ? nullptr : kShapes;
}

} // namespace

double AttentionForm::scaleOf(const Tensor& query) const {
  return scale.value_or(1 / std::sqrt(static_cast<double>(query.size(-1))));
}

at::DimVector AttentionCall::outputSizes() const {
  at::DimVector sizes = rowSizes();
  sizes.push_back(value.size(-1));
  return sizes;
}

/// The same in fp32, with a mask or a bias too. Products of fp32 are three of tf32 each, whose sums
/// are added up in fp32: both directions took 0.45 to 0.9 of LibTorch's time with rows of 16 and 32
/// elements, 0.8 to 1.0 of 40, 0.9 to 1.2 of 48, 1.1 to 1.7 of 64 and 1.4 to 2.0 of 80 and wider;
/// the forward alone 0.9 to 1.05 of 64, 1.0 to 1.7 of 80 and wider. The gradient of a bias LibTorch
/// adds up from one of all scores.
static Reason whyFasterInFp32(const AttentionTensors& given, bool draws) {
  constexpr std::int64_t widest = 64, widestOfBoth = 40;
  if (given.bias.defined() && given.bias.requires_grad())
    return nullptr;
  // What is drawn may not depend on whether gradients are recorded: a checkpoint does so later.
  return std::max(given.query.size(-1), given.value.size(-1)) >
                 (draws || needGradients(given) ? widestOfBoth : widest)
             ? "fp32 rows that LibTorch's own kernels multiply faster: wider than 64, or than 40 "
               "with gradients"
             : nullptr;
}

/// Why LibTorch's own kernels are faster, on a GPU, for many queries; in bf16 and fp16 without a
/// bias or a mask, for which it has no such kernels. Of keys that several heads share the gradient
/// has products of warps, which take more than twice the time. Dropout draws 16 bits for each
/// probability three times, where LibTorch has 8: 1.1 to 1.4 times the time.
static Reason whyFasterByLibTorch(const AttentionTensors& given, const AttentionForm& form) {
  constexpr std::int64_t many = 64;
  const Tensor& query = given.query;
  if (!query.is_cuda() || query.dim() != 4 || query.size(-2) < many)
    return nullptr;
  if (query.scalar_type() == at::kFloat)
    return whyFasterInFp32(given, form.p > 0);
  if (given.bias.defined() || given.mask.defined())
    return nullptr;
  if (form.shared && query.size(-3) != given.key.size(-3))
    return "keys that several heads share, which LibTorch's own kernels read faster";
  return form.p > 0 ? "dropout without a mask, for which LibTorch's own kernels draw faster"
                    : nullptr;
}

bool needGradients(const AttentionTensors& given) {
  return at::GradMode::is_enabled() && std::ranges::any_of(listOf(given), [](const Tensor* tensor) {
           return tensor->defined() && tensor->requires_grad();
         });
}

Reason whyNotAttention(const AttentionTensors& given, const AttentionForm& form) {
  for (const Tensor* tensor : {&given.query, &given.key, &given.value})
    if (!tensor->defined())
      return kUndefined;
  if (Reason why = whyNotTensors(given))
    return why;
  if (Reason why = whyNotShapes(given, form.shared))
    return why;
  constexpr std::int64_t exactWidth = 128; // of fp32, see kiln.attention
  if (given.query.scalar_type() == at::kFloat &&
      std::max(given.query.size(-1), given.value.size(-1)) > exactWidth)
    return "fp32 rows wider than 128, which LibTorch's own kernels compute more exactly";
  if (Reason why = whyFasterByLibTorch(given, form))
    return why;
  if (!(form.p >= 0 && form.p < 1))
    return "a dropout of all, or none that is a probability";
  if (!std::isfinite(form.scaleOf(given.query)))
    return "a scale that is not finite";
  return viewsOf(given)[0].sizes.size() - 3 <= maxLeading
             ? nullptr
             : "more than two leading dimensions that differ in how the tensors walk them";
}

bool hasReadableRows(const Tensor& tensor) {
  const std::int64_t step = tensor.dim() == 0 || tensor.size(-1) == 1 ? 1 : tensor.stride(-1);
  return step == 1 && isAligned(tensor);
}

at::DimVector denseStrides(at::IntArrayRef sizes, const Tensor& like) {
  std::vector<std::size_t> order(sizes.size()); // of dimensions, the outermost first
  std::iota(order.begin(), order.end(), std::size_t(0));
  std::stable_sort(order.begin(), order.end() - 1, [&](std::size_t a, std::size_t b) {
    return like.strides()[a] > like.strides()[b];
  });
  at::DimVector strides(sizes);
  std::int64_t step = 1;
  for (const std::size_t d : std::views::reverse(order)) {
    strides[d] = step;
    step *= sizes[d];
  }
  return strides;
}

AttentionCall callOf(const AttentionTensors& given, const AttentionForm& form,
                     const Tensor& seeds) {
  AttentionCall call;
  static_cast<AttentionTensors&>(call) = given;
  call.scale = form.scaleOf(given.query);
  call.p = form.p;
  call.causal = form.causal;
  if (seeds.defined()) {
    call.seed = seeds[0];
    call.offset = seeds[1];
  }
  return call;
}

AttentionCall attentionOf(const AttentionTensors& given, const AttentionForm& form,
                          const Tensor& seeds) {
  const auto readable = [](const Tensor& tensor) {
    return !tensor.defined() || hasReadableRows(tensor)
               ? tensor
               : tensor.clone(at::MemoryFormat::Contiguous);
  };
  /// One that is repeated along its rows is read once a row.
  const auto readableOnce = [&](const Tensor& tensor) {
    const bool repeats = tensor.defined() && tensor.dim() > 0 && tensor.stride(-1) == 0;
    return repeats && isAligned(tensor) && !tensor.requires_grad() ? tensor : readable(tensor);
  };
  const AttentionTensors ready = {readable(given.query), readable(given.key), readable(given.value),
                                  readableOnce(given.bias), readableOnce(given.mask)};
  const Views views = viewsOf(ready);
  return callOf({as(views[0], ready.query), as(views[1], ready.key), as(views[2], ready.value),
                 as(views[3], ready.bias), as(views[4], ready.mask)},
                form, seeds);
}

at::DimVector attentionSizes(const AttentionTensors& given) {
  at::DimVector sizes(given.query.sizes());
  sizes.back() = given.value.size(-1);
  return sizes;
}

} // namespace kiln::runtime
