// Runs the system's C++ compiler on kernel text.
#pragma once

#include "codegen/host/HostLibrary.h"

namespace kiln {

/// A compiler that was found and answered, and everything that it is given.
class HostCompiler {
 public:
  /// Throws Error(unavailable) if the command cannot be run.
  explicit HostCompiler(const HostCompileOptions& options);

  /// Name for the library made of this text: changes with text, headers, compiler and flags.
  std::string key(std::string_view cudaText) const;

  /// Writes text, headers and log into `folder` and returns the library made there.
  /// Throws Error(input) with the command and the compiler's messages.
  std::filesystem::path build(std::string_view cudaText, const std::filesystem::path& folder) const;

 private:
  std::vector<std::string> command;
  std::string version;
};

} // namespace kiln
