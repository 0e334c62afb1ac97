// kiln::to_kiln: walks a module's children and swaps those that nobody calls by their type.
#include "kiln/nn.h"

#include <fmt/format.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/modules/rnn.h>

namespace kiln {

namespace {

/// A module that takes the place of another.
struct Replacement {
  torch::nn::AnyModule module;
  const char* name;
};

template <typename Made>
Replacement replacement(std::shared_ptr<Made> made, const char* name, const torch::nn::Module& of) {
  made->train(of.is_training());
  return {torch::nn::AnyModule(std::move(made)), name};
}

Replacement replacementOf(const torch::nn::LayerNormImpl& norm) {
  const auto& theirs = norm.options;
  auto made = std::make_shared<nn::LayerNormImpl>(
      theirs.normalized_shape(),
      nn::NormOptions{.eps = theirs.eps(), .affine = theirs.elementwise_affine()});
  if (norm.weight.defined()) // the same tensors: optimizers and checkpoints know them
    made->use(norm.weight, norm.bias);
  return replacement(std::move(made), "kiln::nn::LayerNorm", norm);
}

Replacement replacementOf(const torch::nn::LSTMImpl& lstm) {
  const auto& theirs = lstm.options;
  auto made =
      std::make_shared<nn::LSTMImpl>(theirs.input_size(), theirs.hidden_size(),
                                     nn::LSTMOptions{.layers = theirs.num_layers(),
                                                     .bias = theirs.bias(),
                                                     .batchFirst = theirs.batch_first(),
                                                     .dropout = theirs.dropout(),
                                                     .bidirectional = theirs.bidirectional()});
  made->use(lstm);
  return replacement(std::move(made), "kiln::nn::LSTM", lstm);
}

bool hasProjections(const torch::nn::LSTMImpl& lstm) {
  return lstm.options.proj_size() > 0;
}

std::optional<Replacement> replacementOf(const torch::nn::Module& module) {
  if (const auto* norm = dynamic_cast<const torch::nn::LayerNormImpl*>(&module))
    return replacementOf(*norm);
  if (const auto* lstm = dynamic_cast<const torch::nn::LSTMImpl*>(&module);
      lstm && !hasProjections(*lstm))
    return replacementOf(*lstm);
  return std::nullopt;
}

/// Why a child keeps its type, for those that Kiln has something for.
const char* whyNot(const torch::nn::Module& module) {
  if (dynamic_cast<const torch::nn::LayerNormImpl*>(&module))
    return "its parent calls it as torch::nn::LayerNorm; kiln::enable() takes its ops";
  if (const auto* lstm = dynamic_cast<const torch::nn::LSTMImpl*>(&module))
    return hasProjections(*lstm) ? "kiln::nn::LSTM has no projections (proj_size)"
                                 : "its parent calls it as torch::nn::LSTM; write kiln::nn's there";
  if (dynamic_cast<const torch::nn::MultiheadAttentionImpl*>(&module))
    return "its parent calls it as torch::nn::MultiheadAttention; write kiln::nn's there";
  if (dynamic_cast<const torch::nn::GELUImpl*>(&module) ||
      dynamic_cast<const torch::nn::SiLUImpl*>(&module) ||
      dynamic_cast<const torch::nn::SoftmaxImpl*>(&module))
    return "one op: kiln::enable() takes it as it is";
  return nullptr;
}

void walk(torch::nn::Module& module, const std::string& path, std::string& text) {
  auto* sequential = dynamic_cast<torch::nn::SequentialImpl*>(&module);
  std::size_t index = 0;
  for (const auto& child : module.named_children()) {
    const std::string name = path.empty() ? child.key() : path + "." + child.key();
    const auto made = sequential ? replacementOf(*child.value()) : std::nullopt;
    if (made) {
      *(sequential->begin() + static_cast<std::ptrdiff_t>(index)) = made->module;
      module.replace_module(child.key(), made->module.ptr());
      text += fmt::format("{}: swapped, now {} with the same parameters\n", name, made->name);
    } else if (const char* why = whyNot(*child.value())) {
      text += fmt::format("{}: not swapped: {}\n", name, why);
    }
    walk(*child.value(), name, text);
    ++index;
  }
}

} // namespace

std::string
to_kiln(torch::nn::Module& module) { // NOLINT(readability-identifier-naming): see the header
  std::string text;
  walk(module, "", text);
  return text.empty() ? "nothing that Kiln has a module for\n" : text;
}

} // namespace kiln
