// Whole files in and out. A written file is either the old one or the complete new one, whatever
// happens in between, so that an interrupted program leaves nothing half-written behind.
#pragma once

#include "kiln/kiln.h"

namespace kiln {

/// Contents of a file; "-" is the standard input. Throws Error(io).
KILN_API std::string readFile(const std::filesystem::path& path);

/// Replaces or creates a file in one step. What is no regular file (a pipe, /dev/stdout) is
/// written in place. Throws Error(io) naming the path and the reason; nothing is left then.
KILN_API void writeFile(const std::filesystem::path& path, std::string_view contents);
KILN_API void writeFile(const std::filesystem::path& path, std::span<const std::byte> contents);

/// Removes a folder with all that is in it; what cannot be removed is left. In place of
/// std::filesystem::remove_all: LibTorch shows one of its own, which ends programs that find it
/// first.
KILN_API void removeFolder(const std::filesystem::path& path) noexcept;

} // namespace kiln
