// The bytes of a chain in a cache file: its members one behind the other, packed by zstd.
#pragma once

#include "models/alphafold/features/Chain.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace kiln::alphafold::packed {

std::string plainBytes(const Chain& chain);
/// Throws Error(corrupt) for bytes that are no chain: sizes that do not fit, unknown types.
Chain chainOf(std::string_view bytes);

std::string compress(std::string_view bytes);
/// To so many bytes, at most 4 GiB. Throws Error(corrupt) otherwise.
std::string decompress(std::string_view bytes, std::uint64_t size);

} // namespace kiln::alphafold::packed
