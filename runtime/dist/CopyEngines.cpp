// See CopyEngines.h.
#include "runtime/dist/CopyEngines.h"

#include <ATen/ATen.h>
#include <algorithm>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <thread>

namespace kiln::dist {

using at::Tensor;

namespace {

constexpr std::size_t kLanes = 2;

/// Elements [begin, end) of a buffer.
struct Range {
  std::int64_t begin, end;
};

Range partOf(int rank, std::int64_t each) {
  return {rank * each, (rank + 1) * each};
}

/// fn(where it begins in the buffer, its elements) for what of the parts lies in a range.
template <typename Each>
void forEachIn(const std::vector<Group::Part>& parts, Range range, Each each) {
  for (const auto& [elements, offset] : parts) {
    const std::int64_t begin = std::max(range.begin, offset),
                       end = std::min(range.end, offset + elements.numel());
    if (begin < end)
      each(begin, elements.slice(0, begin - offset, end - offset));
  }
}

} // namespace

Tensor CopyEngines::empty(std::int64_t elements, at::ScalarType dtype) {
  const std::int64_t bytes = elements * std::int64_t(c10::elementSize(dtype));
  grow(bytes);
  Buffer made{.block = memory->allocate(bytes), .ofRanks = {}};
  for (int rank = 0; rank < memory->size(); ++rank)
    made.ofRanks.push_back(made.block.of(rank, elements, dtype));
  const Tensor mine = made.block.bytes.view(dtype);
  return buffers.emplace(mine.const_data_ptr(), std::move(made)), mine;
}

bool CopyEngines::has(const Tensor& buffer) const {
  const auto found = buffers.find(buffer.const_data_ptr());
  return found != buffers.end() &&
         std::int64_t(buffer.nbytes()) == found->second.block.bytes.numel();
}

CopyEngines::Buffer& CopyEngines::known(const Tensor& buffer) {
  return buffers.at(buffer.const_data_ptr());
}

/// Lanes can take a buffer of so many bytes. Nothing may be on its way when they grow.
void CopyEngines::grow(std::int64_t bytes) {
  if (!lanes.empty() && lanes.front().bytes >= bytes)
    return;
  c10::impl::VirtualGuardImpl(memory->device().type()).synchronizeDevice(memory->device().index());
  while (lanes.size() < kLanes)
    lanes.push_back({.stream = streamOf(memory->device()), .received = {}});
  for (Lane& lane : lanes) {
    lane.received = memory->allocate(bytes); // behind which all ranks are here
    lane.bytes = bytes;
    lane.views.clear();
  }
}

/// The same one on all ranks, since they ask in the same order.
CopyEngines::Lane& CopyEngines::nextLane() {
  return lanes[next++ % kLanes];
}

/// What ranks receive in this lane.
const std::vector<Tensor>& CopyEngines::received(Lane& lane, at::ScalarType dtype) const {
  std::vector<Tensor>& views = lane.views[dtype];
  for (int rank = int(views.size()); rank < memory->size(); ++rank)
    views.push_back(
        lane.received.of(rank, lane.bytes / std::int64_t(c10::elementSize(dtype)), dtype));
  return views;
}

/// To every other rank what it adds up, beginning with the next one, so that no two send to one.
void CopyEngines::send(Lane& lane, const Buffer& of, const std::vector<Part>& parts) const {
  const int size = memory->size(), rank = memory->rank();
  const Tensor& own = of.ofRanks[std::size_t(rank)];
  const std::int64_t each = own.numel() / size;
  for (int k = 1; k < size; ++k) {
    const int peer = (rank + k) % size;
    const Tensor& there = received(lane, own.scalar_type())[std::size_t(peer)];
    forEachIn(parts, partOf(peer, each), [&](std::int64_t begin, const Tensor& elements) {
      const std::int64_t at = begin - peer * each + rank * each;
      there.slice(0, at, at + elements.numel()).copy_(elements, /*non_blocking=*/true);
    });
  }
}

void CopyEngines::add(Lane& lane, Buffer& of, const std::vector<Part>& parts, double scale,
                      const Tensor& mine) const {
  const int size = memory->size(), rank = memory->rank();
  const Tensor& own = of.ofRanks[std::size_t(rank)];
  const std::int64_t each = own.numel() / size;
  const Tensor& there = received(lane, own.scalar_type())[std::size_t(rank)];
  std::vector<std::vector<Tensor>> from(std::size_t(size), std::vector<Tensor>{});
  std::vector<Tensor> to;
  forEachIn(parts, partOf(rank, each), [&](std::int64_t begin, const Tensor& elements) {
    const std::int64_t at = begin - rank * each, end = at + elements.numel();
    for (int peer = 0; peer < size; ++peer)
      from[std::size_t(peer)].push_back(
          peer == rank ? elements : there.slice(0, peer * each + at, peer * each + end));
    to.push_back(mine.defined() ? mine.slice(0, at, end)
                                : own.slice(0, begin, begin + elements.numel()));
  });
  if (!to.empty())
    of.sums.try_emplace(scale, scale).first->second.run(from, to);
}

/// This rank's part to all others.
void CopyEngines::spread(const Buffer& of) const {
  const int size = memory->size(), rank = memory->rank();
  const std::int64_t each = of.ofRanks[0].numel() / size;
  const auto [begin, end] = partOf(rank, each);
  for (int k = 1; k < size; ++k)
    of.ofRanks[std::size_t((rank + k) % size)]
        .slice(0, begin, end)
        .copy_(of.ofRanks[std::size_t(rank)].slice(0, begin, end), /*non_blocking=*/true);
}

CopyEngines::Work CopyEngines::sum(const Tensor& buffer, const std::vector<Part>& parts,
                                   double scale, const Tensor& mine) {
  Buffer& here = known(buffer);
  Lane& lane = nextLane();
  return enqueueOn(lane.stream, [&] {
    const auto given = parts.empty() ? std::vector<Part>{{buffer, 0}} : parts;
    send(lane, here, given);
    lane.received.barrier(); // all have sent: parts of this buffer may be overwritten
    add(lane, here, given, scale, mine);
    if (!mine.defined())
      spread(here);
    lane.received.barrier(); // all have added: memory to receive in is free again
  });
}

CopyEngines::Work CopyEngines::gather(const Tensor& buffer) {
  const Buffer& here = known(buffer);
  const Lane& lane = nextLane();
  return enqueueOn(lane.stream, [&] {
    lane.received.barrier(); // nobody reads what was there any more
    spread(here);
    lane.received.barrier();
  });
}

void CopyEngines::abort(std::chrono::milliseconds most,
                        const std::function<bool()>& haveOthersEnded) {
  using std::chrono::milliseconds;
  constexpr milliseconds pause{5};
  const c10::StreamGuard guard(streamOf(memory->device()));
  const auto areIdle = [&] {
    return std::ranges::all_of(lanes, [](const Lane& lane) { return lane.stream.query(); });
  };
  for (milliseconds passed{0}; passed < most && !(haveOthersEnded() && areIdle());
       passed += pause) {
    for (const Lane& lane : lanes)
      lane.received.letPass();
    std::this_thread::sleep_for(pause);
  }
}

} // namespace kiln::dist
