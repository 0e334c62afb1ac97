// The functions that routed attentions are compiled of, and the part of a key that says which.
#pragma once

#include "runtime/Key.h"
#include "runtime/ops/AttentionCall.h"

#include <span>
#include <string>
#include <vector>

namespace kiln::runtime {

/// Into the key of a call; of a backward, what it reads besides.
void describeAttention(Call& call, const AttentionCall& attention);
void describeAttention(Call& call, const AttentionCall& attention, const AttentionSaved& saved,
                       const at::Tensor& grad);

/// Whether kernels may hold the bias, for whose number of keys they are then compiled.
bool holdsBias(const AttentionCall& attention);

/// Of a call's run-time sizes those that kernels of a key are chosen for: of each leading one the
/// power of two beneath it, of queries and keys a few more, four numbers an octave.
std::vector<std::int64_t> usualSizes(const Key& key, std::span<const std::int64_t> sizes);

/// As kernel-compile has it of the op with the same shapes, so that what was tuned for it is found.
std::string attentionText(const Key& key);
std::string attentionBackwardText(const Key& key);

/// "8x16x1024:77x64 bf16": batch, heads, queries, keys where they are not as many, width.
std::string attentionLabel(const Key& key, std::span<const std::int64_t> sizes);

} // namespace kiln::runtime
