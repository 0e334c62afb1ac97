// Tensors as .npy files, NumPy's format, to exchange them with Python and with people.
// Row-major only; bf16, which NumPy has no name for, is stored as two-byte records ('<V2').
#pragma once

#include "kiln/kiln.h"

namespace kiln {

struct NpyArray {
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> data; // row-major, little-endian
};

/// `origin` names the file in messages. Throws Error(input) for what is malformed.
KILN_API NpyArray parseNpy(std::span<const std::byte> bytes, std::string_view origin = "<memory>");
KILN_API std::vector<std::byte> toNpy(const NpyArray& array);

KILN_API NpyArray readNpy(const std::filesystem::path& path); // also throws Error(io)
KILN_API void writeNpy(const std::filesystem::path& path, const NpyArray& array);

} // namespace kiln
