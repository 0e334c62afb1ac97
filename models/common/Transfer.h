// Between host and GPU without waiting: figures on their way to the host, and inputs that travel
// beside what is computed. On a CPU there is nothing to move.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <functional>
#include <optional>

namespace kiln::models {

/// A tensor's copy on the host, begun behind what the device has been told so far.
class HostCopy {
 public:
  explicit HostCopy(const at::Tensor& from);
  /// Waits for the copy alone, not for what the device was told after it.
  const at::Tensor& get();

 private:
  at::Tensor copy;
  std::optional<c10::Event> done;
};

/// A stream of copies of a GPU's own.
class CopyStream {
 public:
  explicit CopyStream(at::Device device);
  /// What `copies` enqueues goes there.
  void enqueue(const std::function<void()>& copies);
  /// What is enqueued on the current stream from here on comes behind all copies.
  void join();
  /// A tensor that was made there is used on the current stream, so that its memory is not given to
  /// another copy too early.
  void use(const at::Tensor& tensor) const;

 private:
  at::Device device;
  std::optional<c10::Stream> stream;
  std::optional<c10::Event> last;
};

} // namespace kiln::models
