// The hash by which cubins are known.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace kiln::autotune {

/// SHA-256, hexadecimal.
std::string sha256(std::span<const std::byte> bytes);

} // namespace kiln::autotune
