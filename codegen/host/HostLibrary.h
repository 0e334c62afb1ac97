// Generated CUDA text made into a library of this machine: compiled by the system's C++ compiler
// with the twin of target.cuh, loaded, and kept for the rest of the process.
#pragma once

#include "codegen/host/host_runtime.h"
#include "kiln/kiln.h"

#include <mutex>

namespace kiln {

/// True if this build itself runs under AddressSanitizer and UndefinedBehaviorSanitizer.
bool isSanitizedBuild();

struct HostCompileOptions {
  std::string compiler = {};           // command; empty: $KILN_HOST_CXX, else c++
  std::vector<std::string> flags = {}; // after the ones that are always given
  bool sanitize = isSanitizedBuild();
  std::filesystem::path keep = {}; // leave text, headers and log in this folder; empty: remove
};

class HostLibrary {
 public:
  /// Equal texts and options give the same library. With KILN_HOST_CACHE set, libraries are also
  /// kept in that folder for later processes. Throws Error(unavailable) without a compiler,
  /// Error(input) with its messages if it refuses the text.
  static std::shared_ptr<HostLibrary> compile(std::string_view cudaText,
                                              const HostCompileOptions& options = {});

  /// Entry point of a kernel. Throws Error(input) if there is none of this name.
  void* kernel(std::string_view name) const;

  /// The table inside the library: whoever runs a kernel holds the mutex.
  HostRuntime& runtime() const { return *table; }
  std::mutex& mutex() const { return running; }

 private:
  explicit HostLibrary(void* handle);
  static std::shared_ptr<HostLibrary> load(const std::filesystem::path& path);

  void* handle;
  HostRuntime* table = nullptr;
  mutable std::mutex running;
};

} // namespace kiln
