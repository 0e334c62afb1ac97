// Work on a stream of a GPU beside the caller's, in the form of c10d's operations.
#pragma once

#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <functional>
#include <optional>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace kiln::dist {

/// What has been enqueued on a stream, as c10d's operations are.
class Enqueued : public c10d::Work {
 public:
  explicit Enqueued(at::Device device) : device(device), done(device.type()) {}
  void record(const c10::Stream& stream) {
    done.record(stream);
    recorded = stream;
  }

  bool isCompleted() override { return done.query(); }
  bool isSuccess() const override { return true; }
  bool wait(std::chrono::milliseconds) override {
    synchronize();
    return true;
  }
  void synchronize() override;

 private:
  at::Device device;
  c10::Event done;
  std::optional<c10::Stream> recorded;
};

/// Does `work` on a stream, behind what the current one has got so far.
c10::intrusive_ptr<c10d::Work> enqueueOn(const c10::Stream& stream,
                                         const std::function<void()>& work);
/// What the current stream has got so far.
c10::intrusive_ptr<c10d::Work> enqueuedOnCurrent(at::Device device);
/// Of high priority: what waits for it shall not.
c10::Stream streamOf(at::Device device);

} // namespace kiln::dist
