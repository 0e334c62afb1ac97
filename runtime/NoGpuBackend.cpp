// In place of GpuBackend.cpp when LibTorch is one without CUDA: says so, and is never asked more.
#include "runtime/Backends.h"

namespace kiln::runtime {

namespace {

class NoGpuBackend : public Backend {
 public:
  NoGpuBackend() : Backend(Place::gpu) {}
  c10::DispatchKey key() const override { return c10::DispatchKey::CUDA; }
  std::string whyNot() const override { return "this LibTorch was built without CUDA"; }
  bool isCapturing() const override { return false; }
  void* stream() const override { refuse(); }
  at::TensorBase empty(at::IntArrayRef, at::ScalarType, at::Device) const override { refuse(); }
  at::TensorBase pinned(std::int64_t) const override { refuse(); }
  Draw draw() const override { refuse(); }
  std::string enter(int) const override { refuse(); }
  Stage until() const override { return Stage::cubin; }
  std::unique_ptr<Kernel> load(const Program&) const override { refuse(); }
  const char* target() const override { return "gpu"; }
  Measuring measuring() const override { refuse(); }
  std::vector<double> time(const std::function<void(std::size_t)>&, std::size_t,
                           std::size_t) const override {
    refuse();
  }

 private:
  [[noreturn]] void refuse() const { throw Error(ErrorKind::unavailable, whyNot()); }
};

} // namespace

Backend& gpuBackend() {
  static auto* one = new NoGpuBackend;
  return *one;
}

} // namespace kiln::runtime
