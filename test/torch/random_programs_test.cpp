// kiln::compile of programs that nobody chose, on the host target: results and gradients are no
// further from fp64's than LibTorch's own, for inputs of other sizes and with fewer gradients
// wanted, too. KILN_RANDOM_SEED and KILN_RANDOM_COUNT name others; a test is named after its seed,
// and KILN_RANDOM_PRINT=1 prints the programs.
#include "test/random/Seed.h"
#include "test/torch/AutocastInFp32.h"
#include "test/torch/CompileHelpers.h"
#include "test/torch/RandomProgram.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

namespace kiln::test {

namespace {

using Function = std::function<Tensors(const Tensors& inputs, const Tensors& leaves)>;

/// A call as the program wants it; autocast leaves fp64 alone.
Tensors call(const RandomProgram& program, const Function& f, const Tensors& inputs,
             const Tensors& leaves) {
  if (!program.autocast)
    return f(inputs, leaves);
  const Autocast on(inputs[0].device().type());
  Tensors results = f(inputs, leaves);
  at::autocast::clear_cache();
  return results;
}

/// Results, then the gradients of what wants one, undefined where there is none; results alone
/// where no gradients are recorded: what returns an input as it is would give one that wants a
/// gradient.
Tensors outcome(const RandomProgram& program, const Function& f, const Tensors& inputs,
                const Tensors& leaves, const std::vector<bool>& wanted) {
  Tensors given, all;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    given.push_back(inputs[i].detach().requires_grad_(wanted[i]));
  for (const auto* list : {&std::as_const(given), &leaves})
    for (const at::Tensor& one : *list)
      if (one.requires_grad())
        all.push_back(one);
  Tensors results = call(program, f, given, leaves), roots, cotangents;
  if (!at::GradMode::is_enabled())
    return results;
  for (const at::Tensor& result : results)
    if (result.requires_grad()) {
      roots.push_back(result);
      cotangents.push_back(at::linspace(-1, 1.5, result.numel(), at::kDouble)
                               .view(result.sizes())
                               .to(result.options()));
    }
  if (roots.empty())
    return results;
  const auto gradients = torch::autograd::grad(roots, all, cotangents, /*retain_graph=*/{},
                                               /*create_graph=*/false, /*allow_unused=*/true);
  results.insert(results.end(), gradients.begin(), gradients.end());
  return results;
}

/// Half a unit in the last place.
double roundingOf(const RandomProgram& program) {
  return program.isExact() ? 0x1p-24 : program.dtype == at::kHalf ? 0x1p-11 : 0x1p-8;
}

/// Each number changed by up to `by` times itself.
Tensors inFp64(const Tensors& tensors, double by = 0) {
  Tensors wide;
  for (const at::Tensor& one : tensors) {
    at::Tensor made = one.detach().to(at::kDouble);
    if (by > 0)
      made = made * (1 + by * (2 * at::rand_like(made) - 1));
    wide.push_back(made.requires_grad_(one.requires_grad()));
  }
  return wide;
}

/// How far from fp64's; what is undefined counts as zeros.
double errorOf(const at::Tensor& found, const at::Tensor& exact) {
  if (!found.defined())
    return exact.defined() ? exact.abs().max().item<double>() : 0;
  const at::Tensor far = found.to(at::kDouble) - (exact.defined() ? exact : at::zeros_like(found));
  return far.numel() == 0 ? 0 : far.abs().max().item<double>();
}

/// What a call has to be like: LibTorch's own, fp64's, and fp64's of numbers that are rounded
/// otherwise, which tells what roundings before a cancellation become; and how far LibTorch's
/// numbers are from fp64's, the most of some calls.
struct Expected {
  Tensors theirs, exact, moved;
  std::vector<double> errors;
};

/// The more of what `errors` has and of these.
void raiseErrors(const Tensors& found, const Tensors& exact, std::vector<double>& errors) {
  errors.resize(found.size());
  for (std::size_t i = 0; i < std::min(found.size(), exact.size()); ++i)
    errors[i] = std::max(errors[i], errorOf(found[i], exact[i]));
}

double largestOf(const at::Tensor& tensor) {
  return tensor.defined() && tensor.numel() > 0 ? tensor.abs().max().item<double>() : 0;
}

/// What is nearly nothing beside the others is noise.
std::string compared(const RandomProgram& program, const Tensors& ours, const Expected& expected) {
  for (const Tensors* others : {&expected.theirs, &expected.exact, &expected.moved})
    if (others->size() != ours.size())
      return fmt::format("{} results and gradients, where LibTorch has {}", ours.size(),
                         others->size());
  const double rounding = roundingOf(program);
  double ofAll = 0;
  for (const at::Tensor& one : expected.exact)
    ofAll = std::max(ofAll, largestOf(one));
  for (std::size_t i = 0; i < expected.exact.size(); ++i) {
    const at::Tensor &theirs = expected.theirs[i], &exact = expected.exact[i];
    if (ours[i].defined() && theirs.defined() &&
        (ours[i].sizes() != theirs.sizes() || ours[i].scalar_type() != theirs.scalar_type()))
      return fmt::format("number {} has another shape or dtype", i);
    const double scale = std::max(largestOf(exact), 0.1 * ofAll), own = errorOf(ours[i], exact),
                 atens = expected.errors[i], moved = errorOf(expected.moved[i], exact),
                 allowed = 4 * atens + 16 * moved + 16 * rounding * scale;
    if (!(own <= allowed))
      return fmt::format("number {} ({}): {:.3g} from fp64, LibTorch {:.3g}, by other roundings of "
                         "what is given {:.3g}, the largest {:.3g}",
                         i, i < program.results.size() ? "a result" : "a gradient", own, atens,
                         moved, largestOf(exact));
  }
  return "";
}

/// The same numbers changed by up to a rounding, of the same dtype.
Tensors nearby(const Tensors& tensors, double by) {
  Tensors near;
  for (const at::Tensor& one : tensors) {
    const at::Tensor changed = one.detach().to(at::kDouble);
    near.push_back((changed * (1 + 2 * by * (2 * at::rand_like(changed) - 1)))
                       .to(one.scalar_type())
                       .requires_grad_(one.requires_grad()));
  }
  return near;
}

/// How far LibTorch's are from fp64's, the most of several calls with nearly the same numbers: of
/// what is nearly nothing but roundings, one call may by luck be near.
void drawErrors(const RandomProgram& program, const Function& f, const Tensors& inputs,
                const std::vector<bool>& wanted, Expected& expected) {
  const double by = roundingOf(program);
  for (int draw = 0; draw < 8; ++draw) {
    const Tensors given = nearby(inputs, by), leaves = nearby(program.leaves, by);
    const Tensors theirs = outcome(program, f, given, leaves, wanted),
                  exact = outcome(program, f, inFp64(given), inFp64(leaves), wanted);
    raiseErrors(theirs, exact, expected.errors);
  }
}

/// With the same strides.
at::Tensor movedTo(at::Device device, const at::Tensor& tensor) {
  const auto elements =
      std::int64_t(tensor.storage().nbytes() / std::size_t(tensor.element_size()));
  return at::empty({0}, tensor.options())
      .set_(tensor.storage(), 0, {elements}, {1})
      .to(device)
      .as_strided(tensor.sizes(), tensor.strides(), tensor.storage_offset());
}

Tensors inputsOn(at::Device device, const RandomProgram& program, std::mt19937_64& random) {
  Tensors inputs;
  for (const at::Tensor& one : drawInputs(program, random))
    inputs.push_back(movedTo(device, one));
  return inputs;
}

/// Empty if all calls agree.
std::string problemsOf(const RandomProgram& drawn, at::Device device, std::uint64_t seed) {
  std::mt19937_64 random(seed + 1);
  RandomProgram program = drawn;
  for (at::Tensor& leaf : program.leaves)
    leaf = leaf.to(device).requires_grad_();
  CaptureOptions options = capture::onHost("random");
  if (device.is_cuda())
    options.place = Place::gpu;
  options.check = false; // what a kernel gets wrong shall be seen
  const CompiledFunction compiled(
      [&](const Tensors& given) { return program.run(given, program.leaves); }, options);
  const Function f = [&](const Tensors& given, const Tensors& leaves) {
    return program.run(given, leaves);
  };
  const Function ours = [&](const Tensors& given, const Tensors&) { return compiled(given); };
  for (int call = 0; call < 4; ++call) {
    const at::AutoGradMode withGrad(call < 3);
    const Tensors inputs = inputsOn(device, program, random);
    std::vector<bool> wanted;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      wanted.push_back(call != 2 || random() % 2 == 0);
    const double by = roundingOf(program);
    Expected expected = {
        outcome(program, f, inputs, program.leaves, wanted),
        outcome(program, f, inFp64(inputs), inFp64(program.leaves), wanted),
        outcome(program, f, inFp64(inputs, by), inFp64(program.leaves, by), wanted),
        {}};
    raiseErrors(expected.theirs, expected.exact, expected.errors);
    const Tensors found = outcome(program, ours, inputs, program.leaves, wanted);
    if (std::string problem = compared(program, found, expected); !problem.empty()) {
      drawErrors(program, f, inputs, wanted, expected);
      problem = compared(program, found, expected);
      if (!problem.empty())
        return fmt::format("call {}: {}\n{}", call, problem, compiled.report());
    }
  }
  for (const auto& [why, calls] : compiled.refusals())
    return fmt::format("{} calls ran the function itself: {}\n{}", calls, why, compiled.report());
  return "";
}

void check(std::uint64_t seed, at::Device device) {
  const RandomProgram program = drawProgram(seed);
  if (numberOf("KILN_RANDOM_PRINT", 0) != 0)
    fmt::print("{}", program.text());
  const std::string problems = problemsOf(program, device, seed);
  if (problems.empty())
    return;
  std::string smaller;
  for (std::size_t i = 0; i < program.results.size(); ++i) {
    const RandomProgram part = program.only(i);
    if (const std::string those = problemsOf(part, device, seed); !those.empty())
      smaller = "smaller:\n" + part.text() + those;
  }
  ADD_FAILURE() << "of the program drawn from seed " << seed << ":\n"
                << program.text() << problems << "\n"
                << smaller;
}

class RandomPrograms : public testing::TestWithParam<std::uint64_t> {};

TEST_P(RandomPrograms, AreAsExactAsLibTorch) {
  check(firstSeed() + GetParam(), at::kCPU);
}

TEST_P(RandomPrograms, AreAsExactAsLibTorchOnGpu) {
  if (at::getNumGPUs() == 0)
    GTEST_SKIP() << "needs a GPU";
  check(firstSeed() + GetParam(), {at::kCUDA, 0});
}

INSTANTIATE_TEST_SUITE_P(Drawn, RandomPrograms,
                         testing::Range(std::uint64_t{0}, numberOf("KILN_RANDOM_COUNT", 12)),
                         [](const auto& one) {
                           return fmt::format("seed_{}", firstSeed() + one.param);
                         });

} // namespace

} // namespace kiln::test
