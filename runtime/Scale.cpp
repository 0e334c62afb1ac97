// See Scale.h. The kernel is that of an elementwise function with a line more, at which its blocks
// end: what functions are written in has no conditions.
#include "runtime/Scale.h"

#include "kiln/kiln.h"
#include "runtime/Call.h"
#include "runtime/OwnKernel.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace kiln::runtime {

namespace {

constexpr std::int64_t width = 1024;

std::string moduleOf(DType dtype) {
  const std::string rows = fmt::format("tensor<?x{}x{}>", width, name(dtype)),
                    wide = fmt::format("tensor<?x{}xf32>", width);
  const bool isNarrow = dtype != DType::f32;
  return fmt::format("func.func @scale(%x: {0}, %factor: tensor<f32>) -> {0} {{\n", rows) +
         (isNarrow ? fmt::format("  %xf = arith.extf %x : {} to {}\n", rows, wide) : "") +
         fmt::format("  %f = kiln.broadcast %factor dims [] like {0} : tensor<f32>, {1} -> {1}\n"
                     "  {2} = arith.mulf {0}, %f : {1}\n",
                     isNarrow ? "%xf" : "%x", wide, isNarrow ? "%yf" : "%y") +
         (isNarrow ? fmt::format("  %y = arith.truncf %yf : {} to {}\n", wide, rows) : "") +
         fmt::format("  return %y : {}\n}}\n", rows);
}

/// The text of a kernel that ends when it has read the factor and that is one.
std::string endingAtOne(std::string text) {
  constexpr std::string_view read = "const float factor_0 = load_vector<1, 1>(factor)[0];\n";
  const std::size_t at = text.find(read);
  if (at == std::string::npos)
    throw Error(ErrorKind::infeasible, "scale: the kernel does not read its factor first");
  return text.insert(at + read.size(), "  if (factor_0 == 1.0f)\n    return;\n");
}

template <DType dtype> Program make(const Backend& backend, int device) {
  CompileOptions options;
  options.arch = backend.enter(device);
  // As many blocks as fit: few that end at once.
  options.schedule =
      fmt::format("#kiln.schedule<lanes = 64, vector = {}, rows = 2, threads = 128, "
                  "blocks = 8, grid = resident, keep = registers, launch = programmatic>",
                  16 / sizeInBytes(dtype));
  options.until = Stage::cuda;
  const Program plain = Program::compile(Module::parse(moduleOf(dtype), "scale"), options);
  options.until = backend.until();
  options.schedule.clear();
  return Program::resume(Stage::cuda, endingAtOne(plain.text(Stage::cuda)), options);
}

OwnKernel& kernelOf(DType dtype) {
  static auto* ofF32 = new OwnKernel("scale f32", &make<DType::f32>);
  static auto* ofBf16 = new OwnKernel("scale bf16", &make<DType::bf16>);
  static auto* ofF16 = new OwnKernel("scale f16", &make<DType::f16>);
  return dtype == DType::f32 ? *ofF32 : dtype == DType::bf16 ? *ofBf16 : *ofF16;
}

std::int64_t roundedUp(std::int64_t elements) {
  return (elements + width - 1) / width * width;
}

bool hasRoom(const at::Tensor& x) {
  const auto bytes = (x.storage_offset() + roundedUp(x.numel())) * x.element_size();
  return x.is_contiguous() && isAligned(x) &&
         static_cast<std::int64_t>(x.storage().nbytes()) >= bytes;
}

} // namespace

at::Tensor emptyToScale(const Backend& backend, at::IntArrayRef sizes, at::ScalarType dtype,
                        at::Device device) {
  const std::int64_t elements = c10::multiply_integers(sizes);
  if (elements % width == 0)
    return at::Tensor(backend.empty(sizes, dtype, device));
  const at::Tensor all(backend.empty({roundedUp(elements)}, dtype, device));
  return all.narrow(0, 0, elements).view(sizes);
}

void scaleUnlessOne(const Backend& backend, const at::Tensor& x, const at::Tensor& factor) {
  const auto dtype = dtypeOf(x.scalar_type());
  const int device = std::max<int>(x.device().index(), 0);
  const Kernel* kernel = dtype && hasRoom(x) ? kernelOf(*dtype).on(backend, device) : nullptr;
  if (!kernel) {
    x.mul_(factor.view(at::DimVector(x.dim(), 1))); // with dimensions, so that fp32 is computed in
    return;
  }
  const std::int64_t rows = roundedUp(x.numel()) / width;
  kernel->launch({&rows, 1}, std::array<void*, 3>{x.mutable_data_ptr(), factor.mutable_data_ptr(),
                                                  x.mutable_data_ptr()});
}

} // namespace kiln::runtime
