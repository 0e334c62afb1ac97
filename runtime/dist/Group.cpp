// See kiln/dist/group.h.
#include "kiln/dist/group.h"

#include "runtime/dist/Fail.h"
#include "runtime/dist/GroupImpl.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <cstring>
#include <exception>
#include <future>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

namespace kiln::dist {

using at::Tensor;

namespace {

constexpr std::chrono::milliseconds kLook{1000};

/// Returns when it is done, or throws what c10d or another rank says.
void waitOnHost(c10d::Work& work, Alarm& alarm, std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit + kLook;
  for (;;) {
    try {
      work.wait(std::min(kLook, limit));
      return;
    } catch (const std::exception& error) {
      if (work.isCompleted())
        throw;
    }
    if (std::chrono::steady_clock::now() > end)
      throw std::runtime_error("it has not ended within the time limit");
    if (alarm.isRaised())
      throw std::runtime_error("another rank has failed");
  }
}

} // namespace

/// Copies first, since to abort NCCL waits for all that is enqueued on the device; then both at a
/// time, since copies may wait for sums by NCCL. That they do not end is no news.
void Group::Impl::abortDevice() {
  if (!device || !options.device.is_cuda())
    return;
  std::call_once(deviceAborted, [this] {
    try {
      using std::chrono::seconds;
      if (copies)
        copies->abort(seconds(1), [] { return true; });
      auto nccl = std::async(std::launch::async, [this] { device->abort(); });
      if (copies)
        copies->abort(seconds(10),
                      [&] { return nccl.wait_for(seconds(0)) == std::future_status::ready; });
      nccl.get();
    } catch (const std::exception&) {
    }
  });
}

Pending::Pending() = default;
Pending::Pending(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
Pending::Pending(Pending&&) noexcept = default;

Pending& Pending::operator=(Pending&& other) noexcept {
  std::swap(impl, other.impl);
  return *this;
}

Pending::~Pending() {
  if (impl && std::uncaught_exceptions() > 0) { // this rank ends; its peers may never take part
    impl->group->alarm->leave();
    [[maybe_unused]] const auto* left = impl.release(); // whose tensors are still written to
    return;
  }
  try {
    wait();
  } catch (const std::exception&) { // whoever asks next is told
  }
}

void Pending::wait() {
  if (!impl)
    return;
  const std::unique_ptr<Impl> now = std::move(impl);
  now->group->alarm->check();
  try {
    if (now->onHost)
      waitOnHost(*now->work, *now->group->alarm, now->group->options.limit);
    else
      now->work->wait();
  } catch (const std::exception& error) {
    now->group->alarm->fail(now->operation, error.what());
  }
}

void Group::Impl::checkTensor(const char* name, const Tensor& tensor) const {
  if (!tensor.defined() || tensor.device() != options.device || !tensor.is_contiguous())
    fail(ErrorKind::input, "{}: a contiguous tensor on {} is needed, this one is {}", name,
         options.device.str(),
         !tensor.defined()         ? "undefined"
         : !tensor.is_contiguous() ? "not contiguous"
                                   : "on " + tensor.device().str());
}

Pending Group::Impl::begin(const char* name, c10d::Backend& backend, std::vector<Tensor> tensors,
                           const Begin& begin) {
  const Operation operation{name, tensors.back().nbytes(), step};
  alarm->check();
  if (aborted)
    fail(ErrorKind::unavailable, "rank {} of {}: {} of {} bytes at step {}: the group was aborted",
         place.rank, place.size, name, operation.bytes, step);
  c10::intrusive_ptr<c10d::Work> work;
  try {
    work = begin(backend);
  } catch (const std::exception& error) {
    alarm->fail(operation, error.what());
  }
  const bool onHost = tensors.back().is_cpu();
  if (!onHost && !isCapturing(options.device))
    watch->add(work, operation);
  return Pending(std::make_unique<Pending::Impl>(
      Pending::Impl{std::move(work), operation, this, std::move(tensors), onHost}));
}

Pending Group::Impl::onDevice(const char* name, std::vector<Tensor> tensors, const Begin& begin) {
  for (const Tensor& tensor : tensors)
    checkTensor(name, tensor);
  if (isAlone() || tensors.back().numel() == 0)
    return {};
  return this->begin(name, *device, std::move(tensors), begin);
}

std::shared_ptr<Group> Group::alone(at::Device device) {
  return std::shared_ptr<Group>(
      new Group(std::unique_ptr<Impl>(new Impl{.place = {}, .options = {.device = device}})));
}

std::shared_ptr<Group> Group::start(const Place& place, const GroupOptions& options) {
  if (options.peerBytes < 0)
    fail(ErrorKind::input, "peerBytes = {}; 0 or more are allowed", options.peerBytes);
  if (options.limit.count() <= 0)
    fail(ErrorKind::input, "a time limit of {} ms; it must be above 0", options.limit.count());
  if (!options.device.is_cpu() && !options.device.is_cuda())
    fail(ErrorKind::input, "ranks with tensors on {}; allowed are cpu and cuda",
         options.device.str());
  if (place.size == 1 && place.launcher.empty())
    return alone(options.device);
  std::unique_ptr<Impl> impl(new Impl{.place = place, .options = options});
  impl->store = meet(place, options);
  Impl* self = impl.get();
  impl->alarm = std::make_unique<Alarm>(impl->store->clone(), place, options.limit,
                                        [self] { self->abortDevice(); });
  try {
    impl->host = glooOf(impl->store, place, options);
    impl->device = options.device.is_cpu() ? impl->host : ncclOf(impl->store, place, options);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    impl->alarm->fail({"start", 0, 0}, error.what());
  }
  if (options.device.is_cuda())
    impl->watch = std::make_unique<Watch>(
        options.limit, [self] { return self->alarm->isRaised(); },
        [self](const Operation& operation, const std::string& why) {
          self->alarm->raise(operation, why);
        });
  const std::shared_ptr<Group> group(new Group(std::move(impl)));
  group->shareMemory();
  return group;
}

/// Peers from 1 KiB on; below, the start would wait for what no sum needs.
void Group::shareMemory() {
  const GroupOptions& options = impl->options;
  if (options.peerBytes >= 1024) {
    const SharedMemory memory("peerBytes", impl->store, impl->place, options);
    impl->peers = std::make_unique<PeerMemory>(memory, options.peerBytes);
    if (!options.peersAlways)
      impl->peers->measure(*this);
  }
  const bool isLocal = options.device.is_cuda() && place().localSize == size();
  const bool byChoice = options.copyEngines ? *options.copyEngines
                                            : isLocal && size() > 1 &&
                                                  largest(gpusReachEachOther(size()) ? 0 : 1) == 0;
  if (byChoice && size() > 1)
    impl->copies = std::make_unique<CopyEngines>(
        std::make_shared<SharedMemory>("copyEngines", impl->store, impl->place, options));
}

std::int64_t Group::peerBytes() const {
  return impl->peers ? impl->peers->limit() : 0;
}

Group::Group(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}

/// Gloo's threads cannot be told to stop waiting for a peer: after a failure, or while an exception
/// passes, of which the others are told, they are left to the end of the process.
Group::~Group() {
  bool failed = impl->aborted || std::uncaught_exceptions() > impl->exceptions;
  if (failed && impl->alarm)
    impl->alarm->leave();
  else
    impl->asked = {};
  impl->watch.reset();
  if (impl->isAlone())
    return;
  try {
    impl->alarm->check();
  } catch (const Error&) {
    failed = true;
  }
  if (impl->options.device.is_cuda() && !failed)
    impl->device->shutdown();
  if (failed) {
    impl->abortDevice(); // what peers will never join would keep the process from ending
    static_cast<void>(impl->device.release());
    static_cast<void>(impl->host.release());
    static_cast<void>(impl->store.release());
    [[maybe_unused]] const auto* left = impl.release(); // what is pending refers to it
  }
}

const Place& Group::place() const {
  return impl->place;
}
at::Device Group::device() const {
  return impl->options.device;
}
std::chrono::milliseconds Group::limit() const {
  return impl->options.limit;
}

/// Of one number a rank, through the host's backend.
double Group::Impl::reduce(const char* name, double value, c10d::ReduceOp::RedOpType op) {
  if (isAlone())
    return value;
  const Tensor one = at::full({1}, value, at::kDouble);
  begin(name, *host, {one}, reduced(one, op)).wait();
  return *one.const_data_ptr<double>();
}

double Group::sum(double value) {
  return impl->reduce("sum", value, c10d::ReduceOp::SUM);
}

double Group::largest(double value) {
  return impl->reduce("largest", value, c10d::ReduceOp::MAX);
}

std::vector<std::string> Group::gather(const std::string& text) {
  if (impl->isAlone())
    return {text};
  const auto longest = std::int64_t(largest(double(text.size()))) + 8;
  Tensor mine = at::zeros({longest}, at::kByte), all = at::zeros({longest * size()}, at::kByte);
  auto* bytes = mine.mutable_data_ptr<std::uint8_t>();
  const std::uint64_t length = text.size();
  std::memcpy(bytes, &length, 8);
  std::memcpy(bytes + 8, text.data(), text.size());
  impl->begin("gather", *impl->host, {mine, all},
              [&](c10d::Backend& backend) { return backend._allgather_base(all, mine); })
      .wait();
  std::vector<std::string> texts;
  for (int rank = 0; rank < size(); ++rank) {
    const auto* from = all.const_data_ptr<std::uint8_t>() + rank * longest;
    std::uint64_t count = 0;
    std::memcpy(&count, from, 8);
    texts.emplace_back(reinterpret_cast<const char*>(from + 8), count);
  }
  return texts;
}

void Group::barrier() {
  sum(0);
}

bool Group::agreed(bool value) {
  if (impl->isAlone())
    return value;
  bool said = false;
  if (impl->asked) {
    impl->asked.wait();
    said = *impl->answer.const_data_ptr<double>() > 0;
  }
  impl->answer = at::full({1}, value ? 1.0 : 0.0, at::kDouble);
  impl->asked = impl->begin("agreement", *impl->host, {impl->answer},
                            Impl::reduced(impl->answer, c10d::ReduceOp::MAX));
  return said;
}

void Group::setStep(std::int64_t step) {
  impl->step = step;
}

void Group::check() {
  if (impl->alarm)
    impl->alarm->check();
}

void Group::abort() {
  impl->aborted = true;
  impl->abortDevice();
}

} // namespace kiln::dist
