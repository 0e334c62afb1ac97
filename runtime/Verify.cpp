// Mode::verify: Kiln's results beside ATen's, and how to reproduce a difference.
#include "kiln/files.h"
#include "kiln/npy.h"
#include "runtime/Compiler.h"
#include "runtime/Launch.h"
#include "runtime/Log.h"
#include "runtime/Route.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <cmath>
#include <cstdio>
#include <unistd.h>

namespace kiln::runtime {

namespace {

/// Of an element, beside the root mean square of its tensor: a few roundings of the dtype, and for
/// fp32 the differences of long sums that are added in another order.
double toleranceOf(at::ScalarType type) {
  return type == at::kBFloat16 ? 0x1p-6 : type == at::kHalf ? 0x1p-9 : 1e-4;
}

struct Comparison {
  double worst = 0;   // difference, in units of what is allowed there
  double largest = 0; // difference
};

Comparison compare(const at::Tensor& ours, const at::Tensor& theirs) {
  const at::Tensor a = ours.to(at::kDouble), b = theirs.to(at::kDouble);
  const at::Tensor finite = at::isfinite(b);
  const at::Tensor zeros = at::zeros_like(b);
  const at::Tensor numbers = at::where(finite, b, zeros);
  const double rms = std::sqrt(numbers.square().mean().item<double>());
  const at::Tensor allowed = (numbers.abs() + rms) * toleranceOf(theirs.scalar_type());
  const at::Tensor same = (a == b) | (a.isnan() & b.isnan());
  // Where only one is finite the difference is infinite or NaN; both count as infinite.
  const at::Tensor difference =
      at::where(same, zeros, (a - b).abs()).nan_to_num(INFINITY, INFINITY, INFINITY);
  const at::Tensor ratio = at::where(difference == 0, zeros, difference / allowed);
  return {ratio.max().item<double>(), difference.max().item<double>()};
}

NpyArray toNpy(const at::Tensor& tensor) {
  const at::Tensor host = tensor.detach().cpu().contiguous();
  NpyArray array;
  array.dtype = *dtypeOf(host.scalar_type());
  array.shape.assign(host.sizes().begin(), host.sizes().end());
  const auto* bytes = static_cast<const std::byte*>(host.const_data_ptr());
  array.data.assign(bytes, bytes + host.nbytes());
  return array;
}

std::string differenceOf(const std::vector<at::Tensor>& ours, const std::vector<at::Tensor>& theirs,
                         std::span<const char* const> names) {
  std::string text;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (ours[i].defined() != theirs[i].defined() ||
        (ours[i].defined() && (ours[i].sizes() != theirs[i].sizes() ||
                               ours[i].scalar_type() != theirs[i].scalar_type())))
      text += fmt::format(" {} has another shape or dtype;", names[i]);
    else if (ours[i].defined() && ours[i].numel() > 0)
      if (Comparison c = compare(ours[i], theirs[i]); c.worst > 1)
        text += fmt::format(" {} differs by {:.3g}, {:.3g} times what is allowed;", names[i],
                            c.largest, c.worst);
  }
  return text;
}

} // namespace

/// Writes module and operands into a folder; the command that runs them against fp64.
std::string Launch::reproduction() const {
  static std::atomic<int> counter = 0;
  const Route& route = plan.site.route;
  const auto folder = std::filesystem::temp_directory_path() /
                      fmt::format("kiln-{}-{}-{}", route.name, ::getpid(), counter.fetch_add(1));
  std::filesystem::create_directories(folder);
  const auto module = folder / "module.mlir";
  const RouteText text = route.text(plan.key);
  writeFile(module, text.module);
  CompileOptions options;
  options.function = text.function;
  options.backward = route.backward;
  options.readAhead = false;
  options.until = Stage::cuda;
  std::string command =
      fmt::format("kernel-compile run {} --target={}{}{}", module.string(),
                  plan.site.backend.target(), route.backward ? " --backward --no-read-ahead" : "",
                  text.function.empty() ? "" : " --function=" + text.function);
  const Program program = Program::compile(Module::parse(text.module), options);
  const auto slots = slotsOf(program.inputs(), program.outputs(), route);
  for (std::size_t i = 0; i < program.inputs().size(); ++i) {
    const TensorInfo& input = program.inputs()[i];
    NpyArray array = toNpy(kept[slots[i]]);
    array.shape.clear();
    for (const Extent& extent : input.shape)
      array.shape.push_back(extent.isStatic() ? extent.size : call.rows);
    const auto file = folder / (input.name + ".npy");
    writeNpy(file, array);
    command += fmt::format(" --input {}", file.string());
  }
  return command;
}

bool Launch::agrees(const std::vector<at::Tensor>& ours, const std::vector<at::Tensor>& theirs,
                    const Policy& policy) const {
  const Route& route = plan.site.route;
  plan.verified.fetch_add(1, std::memory_order_relaxed);
  const std::string difference = differenceOf(ours, theirs, route.results);
  if (difference.empty())
    return true;
  const bool isFirst = plan.differed.fetch_add(1, std::memory_order_relaxed) == 0;
  if (!isFirst && !policy.strict)
    return false;
  const std::string text =
      fmt::format("{} {}: Kiln and ATen differ:{} reproduce with\n  {}", route.name,
                  labelOf(plan.key, call.rows), difference, reproduction());
  if (isLogging())
    writeLog(text);
  else
    fmt::print(stderr, "kiln: {}\n", text);
  if (policy.strict)
    throw Error(ErrorKind::verification, text);
  return false;
}

} // namespace kiln::runtime
