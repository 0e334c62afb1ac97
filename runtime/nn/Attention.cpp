// kiln::nn::MultiheadAttention: projections, and attention between them.
#include "kiln/nn.h"

#include "runtime/ops/Attend.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/nn/init.h>

namespace kiln::nn {

using at::Tensor;

MultiheadAttentionImpl::MultiheadAttentionImpl(std::int64_t embedDim, std::int64_t heads,
                                               const AttentionOptions& options)
    : embedDim(embedDim), heads(heads), options(options) {
  if (heads < 1 || embedDim < 1 || embedDim % heads != 0)
    throw Error(
        ErrorKind::input,
        fmt::format("MultiheadAttention: {} heads do not divide the width {}", heads, embedDim));
  MultiheadAttentionImpl::reset();
}

void MultiheadAttentionImpl::reset() {
  namespace init = torch::nn::init;
  const std::int64_t kdim = options.kdim > 0 ? options.kdim : embedDim;
  const std::int64_t vdim = options.vdim > 0 ? options.vdim : embedDim;
  const auto weight = [&](const char* name, std::int64_t rows, std::int64_t columns) {
    return register_parameter(name, init::xavier_uniform_(at::empty({rows, columns})));
  };
  if (kdim == embedDim && vdim == embedDim) {
    in_proj_weight = weight("in_proj_weight", 3 * embedDim, embedDim);
  } else {
    q_proj_weight = weight("q_proj_weight", embedDim, embedDim);
    k_proj_weight = weight("k_proj_weight", embedDim, kdim);
    v_proj_weight = weight("v_proj_weight", embedDim, vdim);
  }
  if (options.bias)
    in_proj_bias = register_parameter("in_proj_bias", at::zeros({3 * embedDim}));
  out_proj = register_module(
      "out_proj",
      torch::nn::Linear(torch::nn::LinearOptions(embedDim, embedDim).bias(options.bias)));
  if (options.bias)
    init::zeros_(out_proj->bias);
}

void MultiheadAttentionImpl::pretty_print(std::ostream& stream) const {
  stream << fmt::format("kiln::nn::MultiheadAttention({}, heads={}, dropout={}, batch_first={})",
                        embedDim, heads, options.dropout, options.batchFirst);
}

/// One product where the inputs are one tensor.
std::array<Tensor, 3> MultiheadAttentionImpl::project(const Tensor& query, const Tensor& key,
                                                      const Tensor& value) const {
  if (in_proj_weight.defined() && query.is_same(key) && key.is_same(value)) {
    const auto all = at::linear(query, in_proj_weight, in_proj_bias).chunk(3, -1);
    return {all[0], all[1], all[2]};
  }
  const auto part = [&](const Tensor& all, std::int64_t i) {
    return all.defined() ? all.narrow(0, i * embedDim, embedDim) : Tensor();
  };
  const auto weight = [&](const Tensor& own, std::int64_t i) {
    return own.defined() ? own : part(in_proj_weight, i);
  };
  return {at::linear(query, weight(q_proj_weight, 0), part(in_proj_bias, 0)),
          at::linear(key, weight(k_proj_weight, 1), part(in_proj_bias, 1)),
          at::linear(value, weight(v_proj_weight, 2), part(in_proj_bias, 2))};
}

/// Into `all`: masks of bools stay such, and others are added to the scores [N, heads, L, S].
void MultiheadAttentionImpl::addMasks(runtime::AttentionTensors& all, const Tensor& keyPaddingMask,
                                      const Tensor& attnMask) const {
  const auto add = [&](const Tensor& mask) {
    Tensor& known = mask.scalar_type() == at::kBool ? all.mask : all.bias;
    const Tensor more =
        mask.scalar_type() == at::kBool ? mask.logical_not() : mask.to(all.query.scalar_type());
    known = !known.defined() ? more : more.scalar_type() == at::kBool ? known & more : known + more;
  };
  if (attnMask.defined())
    add(attnMask.dim() < 3
            ? attnMask
            : attnMask.reshape({all.query.size(0), heads, attnMask.size(-2), attnMask.size(-1)}));
  if (keyPaddingMask.defined())
    add(keyPaddingMask.unsqueeze(1).unsqueeze(1));
}

std::tuple<Tensor, Tensor> MultiheadAttentionImpl::forward(const Tensor& query, const Tensor& key,
                                                           const Tensor& value,
                                                           const Tensor& keyPaddingMask,
                                                           bool needWeights, const Tensor& attnMask,
                                                           bool isCausal) {
  if (needWeights)
    throw Error(ErrorKind::input, "MultiheadAttention: attention weights are never stored; pass "
                                  "needWeights = false, or use torch::nn::MultiheadAttention");
  if (query.dim() != key.dim() || key.dim() != value.dim() || query.dim() < 2 || query.dim() > 3 ||
      query.size(-1) != embedDim)
    throw Error(ErrorKind::input,
                fmt::format("MultiheadAttention: query [{}], key [{}], value [{}]; all have 3 "
                            "dimensions, or 2 without a batch, and the query ends with {}",
                            fmt::join(query.sizes(), ", "), fmt::join(key.sizes(), ", "),
                            fmt::join(value.sizes(), ", "), embedDim));
  const bool isBatched = query.dim() == 3;
  auto projected = project(query, key, value);
  for (Tensor& each : projected) { // [N, heads, length, embed / heads]
    if (!isBatched)
      each = each.unsqueeze(0);
    else if (!options.batchFirst)
      each = each.transpose(0, 1);
    each = each.unflatten(-1, {heads, embedDim / heads}).transpose(1, 2);
  }
  runtime::AttentionTensors all{projected[0], projected[1], projected[2], {}, {}};
  const Tensor padding =
      keyPaddingMask.defined() && !isBatched ? keyPaddingMask.unsqueeze(0) : keyPaddingMask;
  addMasks(all, padding, attnMask);
  Tensor y = runtime::attend(all, {is_training() ? options.dropout : 0.0, isCausal, {}, false});
  y = y.transpose(1, 2).flatten(2);
  if (!isBatched)
    y = y.squeeze(0);
  else if (!options.batchFirst)
    y = y.transpose(0, 1);
  return {out_proj->forward(y), Tensor()};
}

} // namespace kiln::nn
