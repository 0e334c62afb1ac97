// See Tally.h. Kernels of one stream follow each other, so each stream has a number of its own, and
// nothing need be atomic. A captured call has one too: it is replayed on whatever stream, but one
// replay of a graph follows the other.
#include "runtime/Tally.h"

#include "runtime/Call.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <future>

namespace kiln::runtime {

namespace {

/// More than streams and captured calls are; whoever comes later shares the last.
constexpr std::int64_t capacity = 1024;

/// Made in a thread of its own: no mode of the caller's may see it.
at::Tensor zeros(const Backend& backend, at::Device device) {
  return std::async(std::launch::async,
                    [&] {
                      backend.enter(std::max<int>(device.index(), 0));
                      at::Tensor made =
                          at::zeros({capacity}, at::TensorOptions(device).dtype(at::kFloat));
                      static_cast<void>(made.cpu()); // once it is done, other streams find zeros
                      return made;
                    })
      .get();
}

/// No stream and no thread.
constexpr char captured = 0;

const void* ownerOf(const Backend& backend) {
  static thread_local const char thread = 0;
  return backend.place == Place::cpu ? &thread : backend.stream(); // null: the default stream
}

} // namespace

at::Tensor Tally::here(const Backend& backend, at::Device device) {
  const at::AutoDispatchBelowADInplaceOrView below;
  const void* owner = backend.isCapturing() ? &captured : ownerOf(backend);
  const std::lock_guard held(mutex);
  auto mine = std::ranges::find(numbers, device, &Numbers::device);
  if (mine == numbers.end() && owner == &captured)
    return at::zeros({}, at::TensorOptions(device).dtype(at::kFloat)); // of the graph's own memory
  if (mine == numbers.end())
    mine = numbers.emplace(mine, device, zeros(backend, device));
  auto& owners = mine->owners;
  auto found = owner == &captured ? owners.end() : std::ranges::find(owners, owner);
  if (found == owners.end() && std::ssize(owners) < capacity)
    found = owners.insert(found, owner);
  return mine->all[std::min<std::int64_t>(found - owners.begin(), capacity - 1)];
}

std::optional<std::uint64_t> Tally::total(const Backend& backend) {
  std::vector<at::Tensor> all;
  {
    const std::lock_guard held(mutex);
    for (const Numbers& one : numbers)
      if (placeOf(one.all) == backend.place)
        all.push_back(one.all);
  }
  double sum = 0;
  try {
    const at::AutoDispatchBelowADInplaceOrView below;
    for (const at::Tensor& one : all) {
      const c10::OptionalDeviceGuard guard(one.device());
      if (backend.isCapturing())
        return std::nullopt;
      const at::Tensor read = one.cpu();
      for (std::int64_t i = 0; i < capacity; ++i)
        sum += read.const_data_ptr<float>()[i];
    }
  } catch (const std::exception&) { // by what was enqueued before, or in a process that forked
    return std::nullopt;
  }
  return static_cast<std::uint64_t>(sum);
}

} // namespace kiln::runtime
