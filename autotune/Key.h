// From a function and its options to the key of everything that is known about it.
#pragma once

#include "autotune/KernelSpace.h"
#include "autotune/Records.h"
#include "kiln/kiln.h"

namespace kiln::autotune {

struct Described {
  Key key;
  Key open; // the same with all run-time sizes open, and without the space, which depends on them
  std::string text;                // canonical, of the function: its SHA-256 is key.function
  std::vector<KernelSpace> spaces; // of its kernels with schedules, ranked for the sizes
};

/// `sizes`: values of the run-time sizes, one value stands for all; without any they stay open.
/// The device is the running one if it is of that architecture, else the architecture's flagship.
/// Without NVRTC `nvrtc` stays empty. Throws Error(input).
/// The key is the same whichever schedules are listed: it knows the likely ones, so that what is
/// tried beside them changes no key.
Described describe(const Module& module, const CompileOptions& options,
                   std::span<const std::int64_t> sizes,
                   model::Listing listing = model::Listing::likely);

/// The options of a function alone: no schedule given, nothing saved.
CompileOptions optionsUntil(Stage until, const CompileOptions& options);

/// "13.0"; empty without one. `path`: of another library than that which is found.
std::string nvrtcVersion(const std::filesystem::path& path = {});

/// "H200, 132 SMs": the same for a device and for a flagship of its name.
std::string deviceClass(std::string_view name, int multiprocessors);

/// SHA-256 of Kiln's version and of all sources that decide what code comes out.
const std::string& emitterHash();

} // namespace kiln::autotune
