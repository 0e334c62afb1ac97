// kiln::nn::LSTM: parameters, and layers one after the other.
#include "kiln/nn.h"

#include "runtime/Autocast.h"
#include "runtime/nn/Recurrence.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/nn/init.h>

namespace kiln::nn {

using at::Tensor;

LSTMImpl::LSTMImpl(std::int64_t inputSize, std::int64_t hiddenSize, const LSTMOptions& options)
    : inputSize(inputSize), hiddenSize(hiddenSize), options(options) {
  const auto refuse = [](const std::string& what) {
    throw Error(ErrorKind::input, "LSTM: " + what);
  };
  if (inputSize < 1 || hiddenSize < 1 || options.layers < 1)
    refuse(fmt::format("input size {}, hidden size {}, {} layers; each must be at least 1",
                       inputSize, hiddenSize, options.layers));
  if (!(options.dropout >= 0 && options.dropout <= 1))
    refuse(
        fmt::format("dropout = {} is no probability; give a number from 0 to 1", options.dropout));
  LSTMImpl::reset();
}

void LSTMImpl::reset() {
  weights.clear();
  const double bound = 1 / std::sqrt(static_cast<double>(hiddenSize));
  const auto add = [&](const std::string& name, at::IntArrayRef sizes) {
    weights.push_back(
        register_parameter(name, torch::nn::init::uniform_(at::empty(sizes), -bound, bound)));
  };
  for (std::int64_t layer = 0; layer < options.layers; ++layer)
    for (std::int64_t d = 0; d < directions(); ++d) {
      const std::int64_t from = layer == 0 ? inputSize : hiddenSize * directions();
      const std::string suffix = fmt::format("_l{}{}", layer, d == 0 ? "" : "_reverse");
      add("weight_ih" + suffix, {4 * hiddenSize, from});
      add("weight_hh" + suffix, {4 * hiddenSize, hiddenSize});
      if (!options.bias)
        continue;
      add("bias_ih" + suffix, {4 * hiddenSize});
      add("bias_hh" + suffix, {4 * hiddenSize});
    }
}

void LSTMImpl::pretty_print(std::ostream& stream) const {
  stream << fmt::format("kiln::nn::LSTM({}, {}, layers={}, bias={}, batch_first={}, dropout={}, "
                        "bidirectional={})",
                        inputSize, hiddenSize, options.layers, options.bias, options.batchFirst,
                        options.dropout, options.bidirectional);
}

void LSTMImpl::use(const torch::nn::Module& other) {
  weights.clear();
  const auto theirs = other.named_parameters(/*recurse=*/false);
  for (auto& own : parameters_)
    weights.push_back(own.value() = theirs[own.key()]);
}

LSTMImpl::State LSTMImpl::initial(const Tensor& x, const std::optional<State>& state) const {
  const at::DimVector sizes = {options.layers * directions(), x.size(1), hiddenSize};
  if (!state) {
    const Tensor zero = at::zeros(sizes, x.options());
    return {zero, zero};
  }
  const auto& [h, c] = *state;
  if (h.sizes() != sizes || c.sizes() != sizes)
    throw Error(ErrorKind::input,
                fmt::format("LSTM: h is [{}] and c [{}] for x with a batch of "
                            "{}; both must be [{}]",
                            fmt::join(h.sizes(), ", "), fmt::join(c.sizes(), ", "), x.size(1),
                            fmt::join(sizes, ", ")));
  return {runtime::asProductsRead(h), runtime::asProductsRead(c)};
}

std::tuple<Tensor, LSTMImpl::State> LSTMImpl::forward(const Tensor& input,
                                                      std::optional<State> state) {
  if (input.dim() != 3 || input.size(2) != inputSize || input.size(options.batchFirst ? 1 : 0) == 0)
    throw Error(ErrorKind::input,
                fmt::format("LSTM: x is [{}]; [{}, {}] with at least one step is taken. Packed "
                            "sequences are not: pad them, or use torch::nn::LSTM",
                            fmt::join(input.sizes(), ", "),
                            options.batchFirst ? "batch, steps" : "steps, batch", inputSize));
  Tensor x = runtime::asProductsRead(options.batchFirst ? input.transpose(0, 1) : input);
  const auto [h0, c0] = initial(x, state);
  std::vector<Tensor> hs, cs;
  const std::size_t each = options.bias ? 4 : 2; // parameters of a direction
  for (std::int64_t layer = 0; layer < options.layers; ++layer) {
    std::vector<Tensor> ys;
    for (std::int64_t d = 0; d < directions(); ++d) {
      const auto at = static_cast<std::int64_t>(hs.size());
      const Tensor* const own = &weights[hs.size() * each];
      const Tensor bias = options.bias ? runtime::asProductsRead(own[2] + own[3]) : Tensor();
      auto [y, h, c] = recur(at::linear(x, runtime::asProductsRead(own[0]), bias),
                             runtime::asProductsRead(own[1]), h0.select(0, at), c0.select(0, at),
                             /*isReversed=*/d == 1);
      ys.push_back(std::move(y));
      hs.push_back(std::move(h));
      cs.push_back(std::move(c));
    }
    x = ys.size() == 1 ? ys[0] : at::cat(ys, -1);
    if (options.dropout > 0 && is_training() && layer + 1 < options.layers)
      x = at::dropout(x, options.dropout, true);
  }
  return {options.batchFirst ? x.transpose(0, 1) : x, {at::stack(hs), at::stack(cs)}};
}

} // namespace kiln::nn
