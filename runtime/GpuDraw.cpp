// See GpuDraw.h. A table of many offsets to come is made once in a while; a call takes the address
// of its own.
#include "runtime/GpuDraw.h"

#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/from_blob.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>

#include <deque>
#include <mutex>
#include <optional>

namespace kiln::runtime {

namespace {

constexpr std::uint64_t kMoved = std::uint64_t(1) << 62;
constexpr std::uint64_t kStep = 4; // generators advance by multiples of it

at::TensorOptions longs() {
  return at::TensorOptions(at::Device(at::kCUDA, c10::cuda::current_device())).dtype(at::kLong);
}

/// The numbers of one device: its seed, then offsets, each a step from the one before.
class Numbers {
 public:
  Draw at(std::uint64_t newSeed, std::uint64_t offset) {
    const std::lock_guard held(mutex);
    const auto stream = c10::cuda::getCurrentCUDAStream();
    if (!covers(newSeed, offset))
      make(newSeed, offset, stream);
    if (stream != *madeOn) {
      if (!made.query())
        made.block(stream);
      c10::cuda::CUDACachingAllocator::recordStream(table.storage().data_ptr(), stream);
    }
    const auto* numbers = table.const_data_ptr<std::int64_t>();
    return {numbers, numbers + 1 + (offset - first) / kStep, table};
  }

 private:
  static constexpr std::int64_t offsets = 1 << 16;

  bool covers(std::uint64_t newSeed, std::uint64_t offset) const {
    return table.defined() && newSeed == seed && offset >= first &&
           (offset - first) / kStep < static_cast<std::uint64_t>(offsets) &&
           (offset - first) % kStep == 0;
  }

  void make(std::uint64_t newSeed, std::uint64_t offset, const c10::cuda::CUDAStream& stream) {
    seed = newSeed;
    first = offset;
    const auto start = static_cast<std::int64_t>(kMoved + offset);
    const std::int64_t step = kStep;
    // One element more in front, where the seed goes.
    table = at::arange(start - step, start + offsets * step, step, longs());
    table[0].fill_(static_cast<std::int64_t>(seed));
    madeOn = stream;
    made.record(stream);
  }

  std::mutex mutex;
  at::Tensor table;
  std::uint64_t seed = 0, first = 0;
  std::optional<c10::cuda::CUDAStream> madeOn;
  at::cuda::CUDAEvent made;
};

Numbers& numbersOf(c10::DeviceIndex device) {
  static auto* all = new std::deque<Numbers>(
      static_cast<std::size_t>(c10::cuda::device_count())); // routers may run until the very end
  return (*all)[static_cast<std::size_t>(device)];
}

} // namespace

Draw drawOnGpu() {
  const auto device = c10::cuda::current_device();
  at::Generator generator = at::cuda::detail::getDefaultCUDAGenerator(device);
  const auto state = [&] {
    const std::lock_guard held(generator.mutex());
    return at::check_generator<at::CUDAGeneratorImpl>(generator)->philox_cuda_state(kStep);
  }();
  if (!state.captured_)
    return numbersOf(device).at(state.seed_.val, state.offset_.val);
  const at::Tensor offset = at::from_blob(state.offset_.ptr, {}, longs())
                                .add(static_cast<std::int64_t>(kMoved + state.offset_intragraph_));
  return {state.seed_.ptr, offset.const_data_ptr(), offset};
}

} // namespace kiln::runtime
