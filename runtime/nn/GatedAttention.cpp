// kiln::nn::attention, sigmoidGate, and GatedAttention: projections, attention between them, and
// the gate and its bias in one kernel.
#include "kiln/nn.h"

#include "runtime/nn/Functions.h"
#include "runtime/ops/Attend.h"

#include <ATen/ops/linear.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/nn/init.h>

namespace kiln::nn {

using at::Tensor;

Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask,
                 const Tensor& bias) {
  if (mask.defined() && mask.scalar_type() != at::kBool)
    throw Error(ErrorKind::input,
                fmt::format("attention: the mask is {}; it must be bool, true where a key is seen; "
                            "floats that are added are a bias",
                            c10::toString(mask.scalar_type())));
  runtime::AttentionTensors all{query, key, value, bias, mask};
  if (bias.defined() && bias.scalar_type() != at::kFloat)
    all.bias = bias.to(query.scalar_type());
  return runtime::attend(all, {});
}

Tensor sigmoidGate(const Tensor& x, const Tensor& gate, const Tensor& bias) {
  const FusedFunction& gated =
      shared("sigmoid_gate", {}, [](Expr o, Expr g, Expr b) { return o * kiln::sigmoid(g + b); });
  return call(gated, x, gate, bias)[0];
}

GatedAttentionImpl::GatedAttentionImpl(std::int64_t width, std::int64_t heads,
                                       const GatedAttentionOptions& given)
    : width(width), heads(heads), options(given) {
  if (width < 1 || heads < 1)
    throw Error(
        ErrorKind::input,
        fmt::format("GatedAttention: width {}, {} heads; both must be at least 1", width, heads));
  if (options.headWidth == 0 && width % heads != 0)
    throw Error(ErrorKind::input,
                fmt::format("GatedAttention: {} heads do not divide the width {}; "
                            "give headWidth",
                            heads, width));
  options.keyWidth = options.keyWidth > 0 ? options.keyWidth : width;
  options.headWidth = options.headWidth > 0 ? options.headWidth : width / heads;
  options.outputWidth = options.outputWidth > 0 ? options.outputWidth : width;
  GatedAttentionImpl::reset();
}

void GatedAttentionImpl::reset() {
  namespace init = torch::nn::init;
  const std::int64_t inner = heads * options.headWidth;
  const auto linear = [&](const char* name, std::int64_t from, std::int64_t to, bool bias) {
    auto made =
        register_module(name, torch::nn::Linear(torch::nn::LinearOptions(from, to).bias(bias)));
    init::xavier_uniform_(made->weight);
    return made;
  };
  query = linear("query", width, inner, false);
  key = linear("key", options.keyWidth, inner, false);
  value = linear("value", options.keyWidth, inner, false);
  gate = linear("gate", width, inner, true);
  output = linear("output", inner, options.outputWidth, true);
  init::zeros_(gate->weight);
  init::ones_(gate->bias);
  init::zeros_(output->bias);
  if (options.zeroOutput)
    init::zeros_(output->weight);
}

void GatedAttentionImpl::pretty_print(std::ostream& stream) const {
  stream << fmt::format("kiln::nn::GatedAttention({}, heads={}, key_width={}, head_width={}, "
                        "output_width={})",
                        width, heads, options.keyWidth, options.headWidth, options.outputWidth);
}

Tensor GatedAttentionImpl::forward(const Tensor& x, const Tensor& y, const Tensor& mask,
                                   const Tensor& bias) {
  const bool fits = x.dim() >= 2 && y.dim() == x.dim() && x.size(-1) == width &&
                    y.size(-1) == options.keyWidth &&
                    x.sizes().slice(0, x.dim() - 2) == y.sizes().slice(0, x.dim() - 2);
  if (!fits)
    throw Error(ErrorKind::input,
                fmt::format("GatedAttention: x is [{}], y [{}]; they must be [..., Q, {}] and "
                            "[..., K, {}] with the same leading dimensions",
                            fmt::join(x.sizes(), ", "), fmt::join(y.sizes(), ", "), width,
                            options.keyWidth));
  if (mask.defined() && (mask.scalar_type() != at::kBool || mask.dim() < 1))
    throw Error(ErrorKind::input,
                fmt::format("GatedAttention: the mask is {} [{}]; it must be bool "
                            "[..., K], true where a key is seen",
                            c10::toString(mask.scalar_type()), fmt::join(mask.sizes(), ", ")));
  const auto byHead = [&](const Tensor& rows) { // [..., heads, length, head]
    return rows.unflatten(-1, {heads, options.headWidth}).transpose(-3, -2);
  };
  const Tensor seen = mask.defined() ? mask.unsqueeze(-2).unsqueeze(-2) : mask;
  const Tensor attended = attention(byHead(query->forward(x)), byHead(key->forward(y)),
                                    byHead(value->forward(y)), seen, bias);
  return output->forward(
      sigmoidGate(attended.transpose(-3, -2).flatten(-2), at::linear(x, gate->weight), gate->bias));
}

} // namespace kiln::nn
