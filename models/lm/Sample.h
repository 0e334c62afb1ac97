// Lets a model write.
#pragma once

#include "models/lm/Model.h"
#include "models/lm/Tokenizer.h"

namespace kiln::lm {

/// The prompt, or a line break, and `options.sample` tokens behind it, drawn by temperature from
/// the likeliest top-k.
std::string sample(Transformer& model, const Tokenizer& tokenizer, const Options& options,
                   at::Device device);

} // namespace kiln::lm
