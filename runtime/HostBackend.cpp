// Tensors of the CPU: kernels run on the host target, thread by thread and checked. For tests.
#include "runtime/Backend.h"

#include "runtime/Backends.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <algorithm>
#include <array>
#include <chrono>

namespace kiln::runtime {

namespace {

class HostKernel : public Kernel {
 public:
  explicit HostKernel(const Program& program) : Kernel(program), program(program) {}

  void launch(std::span<const std::int64_t> sizes, std::span<void* const> pointers) const override {
    std::size_t at = 0;
    auto buffersOf = [&](const std::vector<TensorInfo>& tensors) {
      std::vector<Buffer> buffers;
      for (const TensorInfo& tensor : tensors) {
        Buffer& buffer = buffers.emplace_back(Buffer{pointers[at++], {}, {}});
        if (std::ranges::find(tensor.strides, -1) == tensor.strides.end())
          buffer.strides = tensor.strides; // else packed
        for (const Extent& extent : tensor.shape)
          buffer.sizes.push_back(
              extent.isStatic() ? extent.size : sizes[static_cast<std::size_t>(extent.symbol)]);
      }
      return buffers;
    };
    const std::vector<Buffer> read = buffersOf(inputs), written = buffersOf(outputs);
    launch(read, written);
  }
  void launch(std::span<const Buffer> read, std::span<const Buffer> written) const override {
    program.runOnHost(read, written);
  }

 private:
  Program program;
};

class HostBackend : public Backend {
 public:
  HostBackend() : Backend(Place::cpu) {}
  c10::DispatchKey key() const override { return c10::DispatchKey::CPU; }
  std::string whyNot() const override { return ""; }
  bool isCapturing() const override { return false; }
  void* stream() const override { return nullptr; }
  at::TensorBase empty(at::IntArrayRef sizes, at::ScalarType dtype, at::Device) const override {
    return at::detail::empty_cpu(sizes, dtype);
  }
  at::TensorBase pinned(std::int64_t bytes) const override {
    return at::detail::empty_cpu({bytes}, at::kByte);
  }
  Draw draw() const override {
    thread_local std::array<std::int64_t, 2> numbers;
    auto* generator =
        at::check_generator<at::CPUGeneratorImpl>(at::detail::getDefaultCPUGenerator());
    const std::lock_guard held(generator->mutex_);
    for (std::int64_t& number : numbers)
      number = static_cast<std::int64_t>(generator->random64());
    return {&numbers[0], &numbers[1], {}};
  }
  std::string enter(int) const override { return CompileOptions().arch; }
  Stage until() const override { return Stage::cuda; }
  std::unique_ptr<Kernel> load(const Program& program) const override {
    return std::make_unique<HostKernel>(program);
  }
  const char* target() const override { return "host"; }
  Measuring measuring() const override { return {0, std::int64_t(1) << 30, 0}; }
  std::vector<double> time(const std::function<void(std::size_t)>& call, std::size_t calls,
                           std::size_t rounds) const override {
    std::vector<double> samples;
    for (std::size_t round = 0; round < rounds; ++round) {
      const auto begin = std::chrono::steady_clock::now();
      for (std::size_t i = 0; i < calls; ++i)
        call(i);
      const std::chrono::duration<double, std::micro> took =
          std::chrono::steady_clock::now() - begin;
      samples.push_back(took.count() / static_cast<double>(calls));
    }
    return samples;
  }
};

} // namespace

Backend& hostBackend() {
  static auto* one = new HostBackend;
  return *one;
}

} // namespace kiln::runtime
