// See Check.h.
#include "runtime/compile/Check.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/autograd.h>

namespace kiln::compiled {

RandomState::RandomState(const Tensors& arguments) {
  std::vector<at::Device> devices{at::kCPU};
  for (const at::Tensor& argument : arguments)
    if (std::find(devices.begin(), devices.end(), argument.device()) == devices.end())
      devices.push_back(argument.device());
  for (const at::Device device : devices) {
    at::Generator generator = at::globalContext().defaultGenerator(device);
    const std::lock_guard held(generator.mutex());
    states.emplace_back(generator, generator.get_state());
  }
}

void RandomState::restore() {
  for (auto& [generator, state] : states) {
    const std::lock_guard held(generator.mutex());
    generator.set_state(state);
  }
}

namespace {

/// Of the norm: kernels round once what ATen rounds after each operation.
double toleranceOf(const Tape& tape) {
  double tolerance = 1e-3;
  for (const Value& value : tape.values)
    tolerance = std::max(tolerance, value.dtype == at::kBFloat16 ? 5e-2
                                    : value.dtype == at::kHalf   ? 1e-2
                                                                 : 0);
  return tolerance;
}

double rms(const at::Tensor& tensor) {
  return tensor.numel() == 0
             ? 0
             : at::linalg_vector_norm(tensor, 2, {}, false, at::kDouble).item<double>() /
                   std::sqrt(static_cast<double>(tensor.numel()));
}

/// The first of `ours` that is not as `theirs`, by number; below 0: none. An undefined tensor is
/// zeros. What is nearly nothing beside the others is noise.
int firstDifferent(const Tensors& theirs, const Tensors& ours, double tolerance, double& by) {
  double largest = 0;
  std::vector<double> sizes;
  const auto finite = [](const at::Tensor& x, const at::Tensor& where) {
    return at::where(at::isfinite(where), x, at::zeros_like(x));
  };
  for (const at::Tensor& tensor : theirs) {
    sizes.push_back(tensor.defined() && tensor.is_floating_point() ? rms(finite(tensor, tensor))
                                                                   : 0);
    largest = std::max(largest, sizes.back());
  }
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const at::Tensor &a = ours[i], &b = theirs[i];
    if (!a.defined() && !b.defined())
      continue;
    if (a.defined() && !a.is_floating_point()) {
      by = (a != b).to(at::kFloat).mean().item<double>();
      if (a.numel() > 0 && by > tolerance)
        return static_cast<int>(i);
      continue;
    }
    const at::Tensor difference = !b.defined() ? a : !a.defined() ? b : a - b;
    by = rms(finite(difference, b.defined() ? b : a)) / std::max({sizes[i], 0.1 * largest, 1e-30});
    if (!(by <= tolerance))
      return static_cast<int>(i);
  }
  return -1;
}

Tensors gradientsOf(const Tensors& results, const Tensors& leaves) {
  Tensors roots, cotangents;
  for (const at::Tensor& result : results)
    if (result.requires_grad()) {
      roots.push_back(result);
      cotangents.push_back(
          at::linspace(-1, 1.5, result.numel(), result.options()).view(result.sizes()));
    }
  return torch::autograd::grad(roots, leaves, cotangents, /*retain_graph=*/true,
                               /*create_graph=*/false, /*allow_unused=*/true);
}

} // namespace

std::string whatDiffers(const Tape& tape, const Tensors& expected, const Tensors& results,
                        const Tensors& leaves) {
  bool anyGradient = false;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const at::Tensor &a = results[i], &b = expected[i];
    if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type() ||
        a.requires_grad() != b.requires_grad())
      return fmt::format("result {} is {} [{}]{} instead of {} [{}]{}", i,
                         c10::toString(a.scalar_type()), fmt::join(a.sizes(), ", "),
                         a.requires_grad() ? " with a gradient" : "",
                         c10::toString(b.scalar_type()), fmt::join(b.sizes(), ", "),
                         b.requires_grad() ? " with a gradient" : "");
    anyGradient |= a.requires_grad();
  }
  const double tolerance = toleranceOf(tape);
  double by = 0;
  const auto say = [&](const char* what, int which) {
    return fmt::format("{} {} differs by {:.2e} of its norm; {:.0e} are allowed", what, which, by,
                       tolerance);
  };
  {
    const at::NoGradGuard off;
    if (const int which = firstDifferent(expected, results, tolerance, by); which >= 0)
      return say("result", which);
  }
  if (!anyGradient || leaves.empty())
    return "";
  const Tensors theirs = gradientsOf(expected, leaves), ours = gradientsOf(results, leaves);
  const at::NoGradGuard off;
  const int which = firstDifferent(theirs, ours, tolerance, by);
  return which < 0 ? "" : say("gradient", which);
}

} // namespace kiln::compiled
