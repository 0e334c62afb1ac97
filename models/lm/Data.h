// Tokens of a text in a mapped file, and the batches of a run. Which windows a step reads follows
// from the seed and the step alone, so a resumed run reads what an uninterrupted one would have.
#pragma once

#include "models/lm/Tokenizer.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>

namespace kiln::lm {

/// int64 [rows, context] each; targets are the inputs' successors.
struct Batch {
  at::Tensor inputs, targets;
};

class Data {
 public:
  /// The tokens of a text file. Bytes are mapped as they lie; byte pairs are encoded into
  /// `folder`/tokens.safetensors once, which says what it was made of. Throws Error(missing,
  /// input).
  static Data open(const std::filesystem::path& text, const Tokenizer& tokenizer,
                   const std::filesystem::path& folder);
  explicit Data(at::Tensor tokens) : tokens(std::move(tokens)) {}

  /// The last `share` of the tokens is held out. Throws Error(input) if either part is shorter than
  /// a window of `context` tokens and their successor.
  void split(double share, std::int64_t context);

  std::int64_t trained() const { return cut; }
  std::int64_t heldOut() const { return tokens.numel() - cut; }

  /// Windows at random places: rows first, first + 1, ... of a sequence without end.
  Batch batch(std::uint64_t seed, std::int64_t first, std::int64_t rows) const;
  /// Windows one behind the other in what is held out; around again where it ends.
  Batch heldOutBatch(std::int64_t index, std::int64_t rows) const;

 private:
  Batch windows(const std::vector<std::int64_t>& starts) const;

  at::Tensor tokens; // [n], uint8, uint16 or int32
  std::int64_t cut = 0, context = 0;
};

} // namespace kiln::lm
