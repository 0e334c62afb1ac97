// Kernel text as a job for NVRTC, with the device library, as the compiler would give it.
#pragma once

#include "codegen/backend/Nvrtc.h"

#include <string>

extern "C" const struct KilnDeviceFile {
  const char *name, *text;
} kiln_device_files[];

namespace kiln::test {

inline CudaJob deviceJob(const std::string& text) {
  CudaJob job;
  job.source = text;
  for (const auto* file = kiln_device_files; file->name; ++file)
    job.headers.push_back({file->name, file->text});
  return job;
}

/// Why no text can be compiled here; empty: it can.
inline std::string whyNoNvrtc() {
  try {
    nvrtcInfo();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

} // namespace kiln::test
