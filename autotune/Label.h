// What the name that people give a key says of its function: "layer_norm_bf16_128 65536 backward"
// and "layer_norm 65536x128 bf16 backward" are both of layer_norm's backward.
#pragma once

#include <string>
#include <string_view>

namespace kiln::autotune {

/// Its first word without sizes, dtypes and the direction; the word as it is if nothing else is
/// left.
std::string opOfLabel(std::string_view label);
bool isBackwardLabel(std::string_view label);

} // namespace kiln::autotune
