// SHA-256 as hexadecimal text: names of cubins, keys and rows.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace kiln::autotune {

std::string sha256(std::span<const std::byte> bytes);
std::string sha256(std::string_view text);

} // namespace kiln::autotune
