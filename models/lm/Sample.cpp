// See Sample.h.
#include "models/lm/Sample.h"

#include "models/common/Precision.h"

namespace kiln::lm {

using at::Tensor;

namespace {

/// From logits [vocabulary].
Token draw(const Tensor& logits, const Options& options) {
  if (options.temperature == 0)
    return Token(logits.argmax().item<std::int64_t>());
  Tensor scaled = logits.to(at::kFloat) / options.temperature;
  if (options.topK > 0 && options.topK < scaled.numel()) {
    const Tensor least = std::get<0>(scaled.topk(options.topK)).min();
    scaled = scaled.masked_fill(scaled < least, -std::numeric_limits<float>::infinity());
  }
  return Token(at::multinomial(scaled.softmax(0), 1).item<std::int64_t>());
}

} // namespace

std::string sample(Transformer& model, const Tokenizer& tokenizer, const Options& options,
                   at::Device device) {
  const torch::NoGradGuard constant;
  const Autocast autocast(device.type(), Autocast::of(options.precision));
  std::vector<Token> tokens = tokenizer.encode(options.prompt.empty() ? "\n" : options.prompt);
  at::manual_seed(std::uint64_t(options.seed));
  for (std::int64_t i = 0; i < options.sample; ++i) {
    const auto length = std::min<std::int64_t>(model->config.context, std::int64_t(tokens.size()));
    const Tensor window =
        torch::tensor(std::vector<std::int64_t>(tokens.end() - length, tokens.end()),
                      at::TensorOptions(at::kLong).device(device));
    tokens.push_back(draw(model(window.unsqueeze(0))[0][-1], options));
  }
  return tokenizer.decode(tokens);
}

} // namespace kiln::lm
