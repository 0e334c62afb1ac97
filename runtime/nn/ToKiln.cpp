// kiln::to_kiln: walks a module's children and swaps those that nobody calls by their type.
#include "kiln/nn.h"

#include <fmt/format.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/normalization.h>

namespace kiln {

namespace {

/// The module that takes the place of another; null: there is none.
std::shared_ptr<nn::LayerNormImpl> replacementOf(const torch::nn::Module& module) {
  const auto* norm = dynamic_cast<const torch::nn::LayerNormImpl*>(&module);
  if (!norm)
    return nullptr;
  const auto& theirs = norm->options;
  auto made = std::make_shared<nn::LayerNormImpl>(
      theirs.normalized_shape(),
      nn::NormOptions{.eps = theirs.eps(), .affine = theirs.elementwise_affine()});
  if (norm->weight.defined()) { // the same tensors: optimizers and checkpoints know them
    made->use(norm->weight, norm->bias);
  }
  made->train(norm->is_training());
  return made;
}

/// Why a child keeps its type, for those that Kiln has something for.
const char* whyNot(const torch::nn::Module& module) {
  if (dynamic_cast<const torch::nn::LayerNormImpl*>(&module))
    return "its parent calls it as torch::nn::LayerNorm; kiln::enable() takes its ops";
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
    const auto made = sequential ? replacementOf(*child.value()) : nullptr;
    if (made) {
      *(sequential->begin() + static_cast<std::ptrdiff_t>(index)) = torch::nn::AnyModule(made);
      module.replace_module(child.key(), made);
      text += fmt::format("{}: swapped, now kiln::nn::LayerNorm with the same parameters\n", name);
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
