// Finds and opens NVRTC and the CUDA driver at run time, and can say where it looked. Nothing here
// is linked, so every Kiln binary starts on a machine without a toolkit or a GPU.
#pragma once

#include "kiln/kiln.h"

namespace kiln {

/// A place to look: a file, or a bare name that the dynamic loader searches itself.
struct LibraryPlace {
  std::string path;
  std::string origin; // why it is on the list: "KILN_NVRTC", "CUDA_HOME", ...
};

struct LibraryAttempt {
  LibraryPlace place;
  std::string result; // "loaded", "no such file" or the loader's message
};

/// An opened library. It stays open until the process ends: both libraries leave threads and
/// exit handlers behind that an early close would pull the code away from.
struct SharedLibrary {
  void* handle = nullptr;
  std::string path;
  void* find(const char* symbol) const; // null if it has none
};

/// Places in order of preference. A path given explicitly or in KILN_NVRTC is the only one then:
/// whoever names a library must not silently get another.
std::vector<LibraryPlace> nvrtcPlaces(const std::filesystem::path& explicitPath = {});
std::vector<LibraryPlace> driverPlaces();

/// Opens the first library that loads; `attempts`, if not null, gets every place tried.
/// Throws Error(unavailable) listing the places and what to do.
SharedLibrary openNvrtc(const std::filesystem::path& explicitPath = {},
                        std::vector<LibraryAttempt>* attempts = nullptr);
SharedLibrary openDriver(std::vector<LibraryAttempt>* attempts = nullptr);

/// Lines "  path (origin): result", for errors and for `doctor`.
std::string describe(const std::vector<LibraryAttempt>& attempts);

} // namespace kiln
