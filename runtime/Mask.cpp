// See Mask.h.
#include "runtime/Mask.h"

#include "kiln/cache.h"
#include "runtime/Compiler.h"
#include "runtime/OwnKernel.h"

#include <ATen/ops/as_strided.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>

namespace kiln::runtime {

namespace {

constexpr std::int64_t width = 1024; // what is drawn for the end of a tensor may reach beyond it
constexpr std::int64_t tunedRows = 10240; // bench/workloads/training/masks.txt

/// Numbers of so many bits; %like lends its shape alone.
std::string moduleOf(int bits) {
  return fmt::format(
      "func.func @mask(%like: tensor<?x1024xi1>, %seed: tensor<i64>, %offset: tensor<i64>,\n"
      "    %least: tensor<i32>) -> tensor<?x1024xi1> {{\n"
      "  %u = kiln.random %seed, %offset bits {} like %like"
      " : tensor<?x1024xi1> -> tensor<?x1024xi32>\n"
      "  %leasts = kiln.broadcast %least dims [] like %u"
      " : tensor<i32>, tensor<?x1024xi32> -> tensor<?x1024xi32>\n"
      "  %mask = arith.cmpi sge, %u, %leasts : tensor<?x1024xi32>\n"
      "  return %mask : tensor<?x1024xi1>\n}}\n",
      bits);
}

template <int bits> OwnKernel& kernelOf() {
  static auto* one = new OwnKernel("masks", [](const Backend& backend, int device) {
    return compileNow({Module::parse(moduleOf(bits), "mask"), {}, {tunedRows}, "mask"}, backend,
                      device);
  });
  return *one;
}
OwnKernel& kernelOf(int bits) {
  return bits == 16 ? kernelOf<16>() : kernelOf<32>();
}

/// Of a probability, as kiln.dropout has it and draws for it.
double asKernelsHave(double p) {
  return static_cast<float>(p);
}
int bitsOf(double p) {
  return std::min(asKernelsHave(p), 1 - asKernelsHave(p)) * 128 >= 1 ? 16 : 32;
}

/// Rows of so many elements at least.
at::Tensor drawRows(const Backend& backend, at::Device device, std::int64_t elements, int bits,
                    const Draw& drawn, std::int32_t least) {
  const std::int64_t rows = (elements + width - 1) / width;
  const at::Tensor mask(backend.empty({rows, width}, at::kBool, device));
  const at::Tensor limit = at::full({}, least, at::TensorOptions(device).dtype(at::kInt));
  const std::array pointers = {mask.mutable_data_ptr(), const_cast<void*>(drawn.seed),
                               const_cast<void*>(drawn.offset), limit.mutable_data_ptr(),
                               mask.mutable_data_ptr()};
  kernelOf(bits)
      .on(backend, std::max<int>(device.index(), 0))
      ->launch(std::span(&rows, 1), std::span<void* const>(pointers));
  return mask;
}

} // namespace

bool canDrawMasks(const Backend& backend, int device) {
  return kernelOf<32>().on(backend, device) != nullptr;
}

bool canDrawMasks(const Backend& backend, int device, double p) {
  return kernelOf(bitsOf(p)).on(backend, device) != nullptr;
}

std::int32_t leastKept(double p) {
  const double words = 0x1p32;
  return static_cast<std::int32_t>(
      static_cast<std::int64_t>(std::min(std::round(p * words), words - 1) - words / 2));
}

at::Tensor flat(const at::Tensor& dense) {
  return at::as_strided(dense, {dense.numel()}, {1});
}

at::Tensor shapedLike(const at::Tensor& row, const at::Tensor& like) {
  at::DimVector strides(like.strides());
  if (like.is_contiguous()) // then those of a dimension of size 1 are anything
    for (std::int64_t d = like.dim() - 1, step = 1; d >= 0; step *= like.size(d--))
      strides[static_cast<std::size_t>(d)] = step;
  return at::as_strided(row, like.sizes(), strides);
}

at::Tensor drawMask(const Backend& backend, const at::Tensor& like, std::int32_t least) {
  const Draw drawn = backend.draw();
  return shapedLike(drawRows(backend, like.device(), like.numel(), 32, drawn, least), like);
}

at::Tensor maskOf(const Backend& backend, at::Device device, at::IntArrayRef sizes,
                  const at::Tensor& seed, const at::Tensor& offset, double p) {
  const int bits = bitsOf(p);
  const double steps = std::exp2(bits), half = 0x1p31;
  const double least = std::round(asKernelsHave(p) * steps) / steps * 0x1p32 - half;
  std::int64_t elements = 1;
  for (const std::int64_t size : sizes)
    elements *= size;
  const at::Tensor rows = drawRows(backend, device, elements, bits,
                                   {seed.const_data_ptr(), offset.const_data_ptr(), {}},
                                   static_cast<std::int32_t>(std::min(least, half - 1)));
  return flat(rows).narrow(0, 0, elements).view(sizes);
}

} // namespace kiln::runtime
