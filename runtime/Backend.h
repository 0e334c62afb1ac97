// Where tensors lie and kernels run: a GPU, or the host target for tensors of the CPU.
#pragma once

#include "kiln/torch.h"

#include <ATen/core/TensorBase.h>
#include <c10/core/DispatchKey.h>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace kiln::runtime {

/// A compiled program, ready to be launched.
class Kernel {
 public:
  explicit Kernel(const Program& program);
  virtual ~Kernel() = default;
  const std::string arguments; // "x, gamma -> y, mean, rstd"
  const std::vector<TensorInfo> inputs, outputs;
  const std::size_t launches; // of a launch of the program
  /// `sizes`: the run-time sizes by symbol. `pointers`: of the inputs and then of the outputs.
  virtual void launch(std::span<const std::int64_t> sizes,
                      std::span<void* const> pointers) const = 0;
  /// The same of tensors with sizes and strides of their own.
  virtual void launch(std::span<const Buffer> read, std::span<const Buffer> written) const = 0;
};

/// Where a kernel reads the seed and the offset of its random numbers, an i64 each, until what is
/// enqueued next is.
struct Draw {
  const void *seed = nullptr, *offset = nullptr;
  at::TensorBase keeps; // their memory
};

class Backend {
 public:
  explicit Backend(Place place) : place(place) {}
  virtual ~Backend() = default;

  const Place place;
  virtual c10::DispatchKey key() const = 0;
  /// Why nothing can run here; empty if it can.
  virtual std::string whyNot() const = 0;
  virtual bool isCapturing() const = 0;
  virtual void* stream() const = 0; // of this thread and device; null on the host
  virtual at::TensorBase empty(at::IntArrayRef sizes, at::ScalarType dtype,
                               at::Device device) const = 0;
  /// Bytes of the host that copies to a device do not wait for; inside a capture too.
  virtual at::TensorBase pinned(std::int64_t bytes) const = 0;
  /// Of the default generator of the current device, which it advances.
  virtual Draw draw() const = 0;
  /// Makes `device` the current one of a thread that compiles, and names its architecture.
  virtual std::string enter(int device) const = 0;
  /// How far programs are compiled for it.
  virtual Stage until() const = 0;
  virtual std::unique_ptr<Kernel> load(const Program& program) const = 0;
  virtual const char* target() const = 0; // as kernel-compile names it

  struct Measuring {
    std::int64_t rotated = 0; // bytes beyond which what is rotated does not stay in a cache
    std::int64_t usable = 0;  // that a measurement may take
    double microseconds = 0;  // that a run takes at least
  };
  virtual Measuring measuring() const = 0;
  /// Microseconds a call, of each of `rounds` runs of `calls` calls one after another, which get
  /// their numbers in a run: ATen's, which allocate their results.
  virtual std::vector<double> time(const std::function<void(std::size_t)>& call, std::size_t calls,
                                   std::size_t rounds) const = 0;
};

Backend& backendOf(Place place);
inline Place placeOf(at::Device device) {
  return device.is_cpu() ? Place::cpu : Place::gpu;
}

} // namespace kiln::runtime
