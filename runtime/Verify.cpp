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
#include <algorithm>
#include <c10/util/Exception.h>
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

/// `b`: what is right, as far as is known; `type`: of `a`.
Comparison compare(const at::Tensor& ours, const at::Tensor& right, at::ScalarType type) {
  const at::Tensor a = ours.to(at::kDouble), b = right.to(at::kDouble);
  const at::Tensor finite = at::isfinite(b);
  const at::Tensor zeros = at::zeros_like(b);
  const at::Tensor numbers = at::where(finite, b, zeros);
  const double rms = std::sqrt(numbers.square().mean().item<double>());
  const at::Tensor allowed = (numbers.abs() + rms) * toleranceOf(type);
  const at::Tensor same = (a == b) | (a.isnan() & b.isnan());
  // Where only one is finite the difference is infinite or NaN; both count as infinite.
  const at::Tensor difference =
      at::where(same, zeros, (a - b).abs()).nan_to_num(INFINITY, INFINITY, INFINITY);
  const at::Tensor ratio = at::where(difference == 0, zeros, difference / allowed);
  return {ratio.max().item<double>(), difference.max().item<double>()};
}

/// Whether ours is right though ATen's is another: within what is allowed of fp64's, or, where the
/// function magnifies the roundings of its operands, not much farther from it than ATen's is.
bool isNear(const at::Tensor& ours, const at::Tensor& theirs, const at::Tensor& exact) {
  constexpr double farther = 2;
  const at::ScalarType type = theirs.scalar_type();
  const double allowed = std::max(1.0, farther * compare(theirs, exact, type).worst);
  return compare(ours, exact, type).worst <= allowed;
}

NpyArray toNpy(const at::Tensor& tensor, DType dtype) {
  const at::Tensor host = tensor.detach().cpu().contiguous();
  NpyArray array;
  array.dtype = dtype;
  array.shape.assign(host.sizes().begin(), host.sizes().end());
  const auto* bytes = static_cast<const std::byte*>(host.const_data_ptr());
  array.data.assign(bytes, bytes + host.nbytes());
  return array;
}

std::string textOf(const std::exception& error) {
  const auto* torchs = dynamic_cast<const c10::Error*>(&error);
  return torchs ? torchs->what_without_backtrace() : error.what();
}

/// What goes wrong while a difference is looked into is told, and ends no run.
template <typename Work> std::string orWhyNot(const char* what, const Work& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    return fmt::format("({}: {})", what, textOf(error));
  }
}

} // namespace

std::string Launch::differenceOf(const Results& ours, const Results& theirs,
                                 const std::function<Results()>& exact) const {
  const std::span<const char* const> names = plan.site.route.results;
  std::string text;
  Results right; // computed if it is asked for
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (ours[i].defined() != theirs[i].defined() ||
        (ours[i].defined() && (ours[i].sizes() != theirs[i].sizes() ||
                               ours[i].scalar_type() != theirs[i].scalar_type()))) {
      text += fmt::format(" {} has another shape or dtype;", names[i]);
      continue;
    }
    if (!ours[i].defined() || ours[i].numel() == 0)
      continue;
    const Comparison c = compare(ours[i], theirs[i], theirs[i].scalar_type());
    if (c.worst <= 1)
      continue;
    const std::string unknown = orWhyNot("not compared with fp64", [&] {
      if (right.empty())
        right = exact();
      return isNear(ours[i], theirs[i], right[i]) ? "near" : "";
    });
    if (unknown != "near")
      text += fmt::format(" {} differs by {:.3g}, {:.3g} times what is allowed{}{};", names[i],
                          c.largest, c.worst, unknown.empty() ? "" : " ", unknown);
  }
  return text;
}

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
  const std::vector<std::int64_t> sizes = call.sizes();
  for (std::size_t i = 0; i < program.inputs().size(); ++i) {
    const TensorInfo& input = program.inputs()[i];
    NpyArray array = toNpy(kept[slots[i]], input.dtype);
    array.shape.clear();
    for (const Extent& extent : input.shape)
      array.shape.push_back(extent.isStatic() ? extent.size
                                              : sizes[static_cast<std::size_t>(extent.symbol)]);
    const auto file = folder / (input.name + ".npy");
    writeNpy(file, array);
    command += fmt::format(" --input {}", file.string());
  }
  return command;
}

bool Launch::agrees(const Results& ours, const Results& theirs,
                    const std::function<Results()>& exact, const Policy& policy) const {
  const Route& route = plan.site.route;
  plan.verified.fetch_add(1, std::memory_order_relaxed);
  std::string difference;
  try {
    difference = differenceOf(ours, theirs, exact);
  } catch (const std::exception& error) { // no memory for copies in fp64, say
    log("{} {}: not compared: {}", route.name, labelOf(route, plan.key, call.sizes()),
        textOf(error));
    return false;
  }
  if (difference.empty())
    return true;
  const bool isFirst = plan.differed.fetch_add(1, std::memory_order_relaxed) == 0;
  if (!isFirst && !policy.strict)
    return false;
  const std::string text =
      fmt::format("{} {}: Kiln and ATen differ:{} reproduce with\n  {}", route.name,
                  labelOf(route, plan.key, call.sizes()), difference,
                  orWhyNot("the operands could not be written", [&] { return reproduction(); }));
  if (isLogging())
    writeLog(text);
  else
    fmt::print(stderr, "kiln: {}\n", text);
  if (policy.strict)
    throw Error(ErrorKind::verification, text);
  return false;
}

} // namespace kiln::runtime
