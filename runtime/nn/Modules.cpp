// kiln::nn but attention: each forward is a fused function.
#include "kiln/nn.h"

#include "runtime/nn/Functions.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/ne.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/nn/init.h>

namespace kiln::nn {

namespace {

using at::Tensor;

void checkWidth(const char* module, const Tensor& x, std::span<const std::int64_t> shape) {
  const bool fits = x.dim() >= static_cast<std::int64_t>(shape.size()) &&
                    std::equal(shape.begin(), shape.end(), x.sizes().end() - shape.size());
  if (!fits)
    throw Error(ErrorKind::input,
                fmt::format("{}: x is [{}]; its last dimensions must be [{}]", module,
                            fmt::join(x.sizes(), ", "), fmt::join(shape, ", ")));
}

Tensor ones(at::IntArrayRef shape) {
  return torch::nn::init::ones_(at::empty(shape));
}
Tensor zeros(at::IntArrayRef shape) {
  return torch::nn::init::zeros_(at::empty(shape));
}

std::string textOf(const NormOptions& options) {
  return fmt::format("eps={}, affine={}, bias={}", options.eps, options.affine,
                     options.affine && options.bias);
}

/// What is traced of a norm.
struct Norm {
  bool isCentred;
  double eps;
  std::optional<at::ScalarType> dtype;

  Numbers numbers() const {
    return {{eps, static_cast<double>(isCentred), dtype ? static_cast<double>(*dtype) : -1}};
  }
  Expr operator()(const Expr& x, const auto&... parameters) const {
    Expr y = of(x, parameters...);
    return dtype ? y.to(*dtype) : y;
  }

 private:
  Expr of(const Expr& x, const Expr& weight, const Expr& bias) const {
    return kiln::layerNorm(x, weight, bias, eps);
  }
  Expr of(const Expr& x, const auto&... weight) const {
    return isCentred ? kiln::layerNorm(x, weight..., eps) : kiln::rmsNorm(x, weight..., eps);
  }
};

Norm normOf(bool isCentred, const NormOptions& options) {
  return {isCentred, options.eps, options.dtype};
}

Tensor normalized(const Norm& norm, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const char* name = norm.isCentred ? "layer_norm" : "rms_norm";
  if (bias.defined())
    return call(
        shared(name, norm.numbers(), [norm](Expr x, Expr g, Expr b) { return norm(x, g, b); }), x,
        weight, bias)[0];
  if (weight.defined())
    return call(shared(name, norm.numbers(), [norm](Expr x, Expr g) { return norm(x, g); }), x,
                weight)[0];
  return call(shared(name, norm.numbers(), [norm](Expr x) { return norm(x); }), x)[0];
}

/// Of x + r, and x + r.
std::tuple<Tensor, Tensor> normalizedSum(const Norm& norm, const Tensor& x, const Tensor& residual,
                                         const Tensor& weight, const Tensor& bias) {
  if (!residual.defined())
    return {normalized(norm, x, weight, bias), x};
  const char* name = norm.isCentred ? "add_layer_norm" : "add_rms_norm";
  const auto both = [norm](const Expr& x, const Expr& r, const auto&... parameters) {
    const Expr sum = (x + r).rounded();
    return std::array{norm(sum, parameters...), sum};
  };
  std::vector<Tensor> results;
  if (bias.defined())
    results = call(shared(name, norm.numbers(),
                          [both](Expr x, Expr r, Expr g, Expr b) { return both(x, r, g, b); }),
                   x, residual, weight, bias);
  else if (weight.defined())
    results =
        call(shared(name, norm.numbers(), [both](Expr x, Expr r, Expr g) { return both(x, r, g); }),
             x, residual, weight);
  else
    results = call(shared(name, norm.numbers(), [both](Expr x, Expr r) { return both(x, r); }), x,
                   residual);
  return {std::move(results[0]), std::move(results[1])};
}

} // namespace

LayerNormImpl::LayerNormImpl(std::vector<std::int64_t> normalizedShape, const NormOptions& options)
    : normalizedShape(std::move(normalizedShape)), options(options) {
  LayerNormImpl::reset();
}
void LayerNormImpl::reset() {
  weight = options.affine ? ones(normalizedShape) : Tensor();
  bias = options.affine && options.bias ? zeros(normalizedShape) : Tensor();
  weight = register_parameter("weight", weight, weight.defined());
  bias = register_parameter("bias", bias, bias.defined());
}
void LayerNormImpl::pretty_print(std::ostream& stream) const {
  stream << fmt::format("kiln::nn::LayerNorm([{}], {})", fmt::join(normalizedShape, ", "),
                        textOf(options));
}
void LayerNormImpl::use(const Tensor& sharedWeight, const Tensor& sharedBias) {
  weight = parameters_["weight"] = sharedWeight;
  bias = parameters_["bias"] = sharedBias;
}
Tensor LayerNormImpl::forward(const Tensor& x) {
  checkWidth("LayerNorm", x, normalizedShape);
  const Norm norm = normOf(/*isCentred=*/true, options);
  if (normalizedShape.size() == 1)
    return normalized(norm, x, weight, bias);
  const auto row = [](const Tensor& parameter) {
    return parameter.defined() ? parameter.flatten() : parameter;
  };
  const Tensor flat = x.flatten(x.dim() - static_cast<std::int64_t>(normalizedShape.size()));
  return normalized(norm, flat, row(weight), row(bias)).view(x.sizes());
}

RMSNormImpl::RMSNormImpl(std::int64_t width, const NormOptions& options)
    : width(width), options(options) {
  RMSNormImpl::reset();
}
void RMSNormImpl::reset() {
  weight = options.affine ? ones({width}) : Tensor();
  weight = register_parameter("weight", weight, weight.defined());
}
void RMSNormImpl::pretty_print(std::ostream& stream) const {
  stream << fmt::format("kiln::nn::RMSNorm({}, eps={}, affine={})", width, options.eps,
                        options.affine);
}
Tensor RMSNormImpl::forward(const Tensor& x) {
  checkWidth("RMSNorm", x, {&width, 1});
  return normalized(normOf(/*isCentred=*/false, options), x, weight, {});
}

AddLayerNormImpl::AddLayerNormImpl(std::int64_t width, const NormOptions& options)
    : width(width), options(options) {
  AddLayerNormImpl::reset();
}
void AddLayerNormImpl::reset() {
  weight = options.affine ? ones({width}) : Tensor();
  bias = options.affine && options.bias ? zeros({width}) : Tensor();
  weight = register_parameter("weight", weight, weight.defined());
  bias = register_parameter("bias", bias, bias.defined());
}
void AddLayerNormImpl::pretty_print(std::ostream& stream) const {
  stream << fmt::format("kiln::nn::AddLayerNorm({}, {})", width, textOf(options));
}
std::tuple<Tensor, Tensor> AddLayerNormImpl::forward(const Tensor& x, const Tensor& residual) {
  checkWidth("AddLayerNorm", x, {&width, 1});
  return normalizedSum(normOf(/*isCentred=*/true, options), x, residual, weight, bias);
}

AddRMSNormImpl::AddRMSNormImpl(std::int64_t width, const NormOptions& options)
    : width(width), options(options) {
  AddRMSNormImpl::reset();
}
void AddRMSNormImpl::reset() {
  weight = options.affine ? ones({width}) : Tensor();
  weight = register_parameter("weight", weight, weight.defined());
}
void AddRMSNormImpl::pretty_print(std::ostream& stream) const {
  stream << fmt::format("kiln::nn::AddRMSNorm({}, eps={}, affine={})", width, options.eps,
                        options.affine);
}
std::tuple<Tensor, Tensor> AddRMSNormImpl::forward(const Tensor& x, const Tensor& residual) {
  checkWidth("AddRMSNorm", x, {&width, 1});
  return normalizedSum(normOf(/*isCentred=*/false, options), x, residual, weight, {});
}

Tensor swiglu(const Tensor& gate, const Tensor& x) {
  return call(shared("swiglu", {}, [](Expr g, Expr x) { return silu(g) * x; }), gate, x)[0];
}

SwiGLUImpl::SwiGLUImpl(std::int64_t width, std::int64_t hidden) : width(width), hidden(hidden) {
  SwiGLUImpl::reset();
}
void SwiGLUImpl::reset() {
  const auto linear = [&](const char* name, std::int64_t in, std::int64_t out) {
    return register_module(name, torch::nn::Linear(torch::nn::LinearOptions(in, out).bias(false)));
  };
  w1 = linear("w1", width, hidden);
  w2 = linear("w2", hidden, width);
  w3 = linear("w3", width, hidden);
}
void SwiGLUImpl::pretty_print(std::ostream& stream) const {
  stream << fmt::format("kiln::nn::SwiGLU({}, hidden={})", width, hidden);
}
Tensor SwiGLUImpl::forward(const Tensor& x) {
  return w2->forward(swiglu(w1->forward(x), w3->forward(x)));
}

DropoutAddImpl::DropoutAddImpl(double p) : p(p) {
  if (!(p >= 0 && p <= 1))
    throw Error(ErrorKind::input,
                fmt::format("DropoutAdd: p = {} is no probability; give a number from 0 to 1", p));
}
void DropoutAddImpl::reset() {}
void DropoutAddImpl::pretty_print(std::ostream& stream) const {
  stream << fmt::format("kiln::nn::DropoutAdd(p={})", p);
}
Tensor DropoutAddImpl::forward(const Tensor& y, const Tensor& residual, const Tensor& bias) {
  const double drop = is_training() ? p : 0;
  const auto thinned = [drop](const Expr& x) { return drop > 0 ? dropout(x, drop) : x; };
  if (bias.defined())
    return call(
        shared("dropout_add", {{drop}}, [&](Expr y, Expr r, Expr b) { return r + thinned(y + b); }),
        y, residual, bias)[0];
  return call(shared("dropout_add", {{drop}}, [&](Expr y, Expr r) { return r + thinned(y); }), y,
              residual)[0];
}

CrossEntropyImpl::CrossEntropyImpl(const CrossEntropyForm& form, Reduction reduction)
    : form(form), reduction(reduction) {}
void CrossEntropyImpl::reset() {}
void CrossEntropyImpl::pretty_print(std::ostream& stream) const {
  stream << fmt::format("kiln::nn::CrossEntropy(ignore_index={}, label_smoothing={}, z_loss={})",
                        form.ignoreIndex, form.labelSmoothing, form.zLoss);
}
Tensor CrossEntropyImpl::forward(const Tensor& logits, const Tensor& target) {
  if (logits.dim() == 0 || target.sizes() != logits.sizes().slice(0, logits.dim() - 1))
    throw Error(ErrorKind::input,
                fmt::format("CrossEntropy: logits are [{}], the target [{}]; logits [..., classes] "
                            "go with class indices [...]",
                            fmt::join(logits.sizes(), ", "), fmt::join(target.sizes(), ", ")));
  const FusedFunction& rows = shared(
      "cross_entropy", {{static_cast<double>(form.ignoreIndex), form.labelSmoothing, form.zLoss}},
      [&](Expr x, Expr t) { return crossEntropy(x, t, form).to(at::kFloat); });
  const Tensor losses = call(rows, logits, target.unsqueeze(-1))[0].squeeze(-1);
  if (reduction == Reduction::none)
    return losses;
  const Tensor sum = losses.sum();
  return reduction == Reduction::sum ? sum : sum / target.ne(form.ignoreIndex).sum();
}

} // namespace kiln::nn
