// Counts what kernels meet and nobody waits for, such as rows that no result can be given for: each
// adds to a number on its device, which is read when somebody asks for the report.
#pragma once

#include "runtime/Backend.h"

#include <ATen/core/Tensor.h>

#include <atomic>
#include <deque>
#include <mutex>
#include <optional>

namespace kiln::runtime {

class Tally {
 public:
  /// `what` follows a count in the report: "rows ...". Objects live as long as the process, since
  /// captured graphs add to their numbers.
  explicit Tally(const char* what) : what(what) {}
  Tally(const Tally&) = delete;
  Tally& operator=(const Tally&) = delete;

  const char* const what;
  std::atomic<std::uint64_t> told = 0; // how many the log has been told of

  /// An fp32 number on the current device, `device`, that a kernel enqueued next by this thread may
  /// read, add to and write: what else does so runs before or after it. Exact up to 2^24. Allocates
  /// at the first call on a device. What a graph does that is captured before any is not counted.
  at::Tensor here(const Backend& backend, at::Device device);

  /// What has been counted there, after what is enqueued on this thread's streams. Null: a capture
  /// or an error of the device keeps it from being read.
  std::optional<std::uint64_t> total(const Backend& backend);

 private:
  struct Numbers {
    at::Device device;
    at::Tensor all;                  // zero until somebody adds
    std::vector<const void*> owners; // a stream, a thread of the host, or a captured call
  };

  std::mutex mutex;
  std::deque<Numbers> numbers;
};

} // namespace kiln::runtime
