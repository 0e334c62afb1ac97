// Whole files in and out. A file is either the old one or the complete new one, whatever happens
// in between: text goes to a temporary file in the same folder, to the disk, then into place.
#pragma once

#include "kiln/kiln.h"

namespace kiln {

/// Contents of a file; "-" is the standard input. Throws Error(io).
std::string readFile(const std::filesystem::path& path);

/// Replaces or creates a file in one step and removes its temporary file on failure. What is no
/// regular file (a pipe, /dev/stdout) is written in place. Throws Error(io).
void writeFile(const std::filesystem::path& path, std::string_view contents);
void writeFile(const std::filesystem::path& path, std::span<const std::byte> contents);

} // namespace kiln
