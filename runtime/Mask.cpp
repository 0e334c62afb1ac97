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

namespace kiln::runtime {

namespace {

constexpr std::int64_t width = 1024; // what is drawn for the end of a tensor may reach beyond it

/// %like lends its shape alone.
constexpr const char* module =
    "func.func @mask(%like: tensor<?x1024xi1>, %seed: tensor<i64>, %offset: tensor<i64>,\n"
    "    %least: tensor<i32>) -> tensor<?x1024xi1> {\n"
    "  %u = kiln.random %seed, %offset like %like : tensor<?x1024xi1> -> tensor<?x1024xi32>\n"
    "  %leasts = kiln.broadcast %least dims [] like %u"
    " : tensor<i32>, tensor<?x1024xi32> -> tensor<?x1024xi32>\n"
    "  %mask = arith.cmpi sge, %u, %leasts : tensor<?x1024xi32>\n"
    "  return %mask : tensor<?x1024xi1>\n}\n";

OwnKernel& kernel() {
  static auto* one = new OwnKernel("masks", [](const Backend& backend, int device) {
    return compileNow({Module::parse(module, "mask"), {}, {}, "mask"}, backend, device);
  });
  return *one;
}

int indexOf(const at::Tensor& tensor) {
  return std::max<int>(tensor.device().index(), 0);
}

} // namespace

bool canDrawMasks(const Backend& backend, int device) {
  return kernel().on(backend, device) != nullptr;
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
  const std::int64_t rows = (like.numel() + width - 1) / width;
  const at::Tensor mask(backend.empty({rows, width}, at::kBool, like.device()));
  const at::Tensor limit = at::full({}, least, like.options().dtype(at::kInt));
  const Draw drawn = backend.draw();
  const std::array pointers = {mask.mutable_data_ptr(), const_cast<void*>(drawn.seed),
                               const_cast<void*>(drawn.offset), limit.mutable_data_ptr(),
                               mask.mutable_data_ptr()};
  kernel().on(backend, indexOf(like))->launch({&rows, 1}, pointers);
  return shapedLike(mask, like);
}

} // namespace kiln::runtime
