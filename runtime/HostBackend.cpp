// Tensors of the CPU: kernels run on the host target, thread by thread and checked. For tests.
#include "runtime/Backend.h"

#include "runtime/Backends.h"

#include <ATen/EmptyTensor.h>

namespace kiln::runtime {

namespace {

class HostKernel : public Kernel {
 public:
  HostKernel(const Program& program, const Route& route)
      : Kernel(program), program(program), slots(slotsOf(program, route)) {}

  void launch(std::int64_t rows, std::span<void* const> pointers) const override {
    std::vector<Buffer> inputs, outputs;
    std::size_t next = 0;
    auto add = [&](const std::vector<TensorInfo>& tensors, std::vector<Buffer>& buffers) {
      for (const TensorInfo& tensor : tensors) {
        Buffer& buffer = buffers.emplace_back(Buffer{pointers[slots[next++]], {}, {}});
        for (const Extent& extent : tensor.shape)
          buffer.sizes.push_back(extent.isStatic() ? extent.size : rows);
      }
    };
    add(program.inputs(), inputs);
    add(program.outputs(), outputs);
    program.runOnHost(inputs, outputs);
  }

 private:
  Program program;
  std::vector<std::uint8_t> slots;
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
  std::string enter(int) const override { return CompileOptions().arch; }
  Stage until() const override { return Stage::cuda; }
  std::unique_ptr<Kernel> load(const Program& program, const Route& route) const override {
    return std::make_unique<HostKernel>(program, route);
  }
  const char* target() const override { return "host"; }
};

} // namespace

Backend& hostBackend() {
  static auto* one = new HostBackend;
  return *one;
}

} // namespace kiln::runtime
