// A kernel that no call of an op is compiled for: one for all shapes, made by whoever asks for it
// first on a device, who waits, and then there, or not, for the life of the process.
#pragma once

#include "runtime/Backend.h"

#include <array>
#include <mutex>

namespace kiln::runtime {

class OwnKernel {
 public:
  using Make = Program (*)(const Backend& backend, int device);
  /// `make` throws Error where there is none; the log has why. Objects are static.
  OwnKernel(const char* name, Make make) : name(name), make(make) {}

  /// Null: there is none. Safe inside a capture.
  const Kernel* on(const Backend& backend, int device);

 private:
  struct OfDevice {
    std::once_flag asked;
    std::unique_ptr<Kernel> kernel;
  };
  const char* const name;
  const Make make;
  std::array<std::array<OfDevice, 256>, 2> kernels; // as many devices as a key can tell apart
};

} // namespace kiln::runtime
