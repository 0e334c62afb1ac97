// See Key.h. The text of a function is the one that MLIR prints: blanks, comments and names of
// values in the source do not matter; names of arguments do, since launch plans hold them.
#include "autotune/Key.h"

#include "autotune/Kernels.h"
#include "autotune/store/Sha256.h"
#include "codegen/backend/Driver.h"
#include "codegen/backend/Nvrtc.h"
#include "codegen/family/Buffers.h"
#include "codegen/program/State.h"

#include "kiln_source_hash.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kiln::autotune {

const std::string& emitterHash() {
  static const std::string hash = sha256(std::string(version()) + '\0' + KILN_SOURCE_HASH);
  return hash;
}

std::string deviceClass(std::string_view name, int multiprocessors) {
  std::string text(name);
  for (std::string_view word : {"NVIDIA ", " SXM"})
    if (std::size_t at = text.find(word); at != std::string::npos)
      text.erase(at, word.size());
  return fmt::format("{}, {} SMs", text, multiprocessors);
}

namespace {

std::string deviceFor(const Target& target) {
  try {
    const DeviceInfo& device = Driver::get().currentDevice();
    if (&targetOfCapability(device.major, device.minor) == &target)
      return deviceClass(device.name, device.multiprocessors);
  } catch (const Error&) {
    // No driver, no GPU, or one that Kiln does not know: its flagship stands for the target.
  }
  return deviceClass(target.flagship, target.multiprocessors);
}

std::string textOf(const TensorInfo& tensor, std::span<const std::int64_t> sizes) {
  std::vector<std::string> shape;
  for (const Extent& extent : tensor.shape)
    if (extent.isStatic())
      shape.push_back(std::to_string(extent.size));
    else if (sizes.empty())
      shape.emplace_back("?");
    else
      shape.push_back(std::to_string(
          sizes[std::min<std::size_t>(static_cast<std::size_t>(extent.symbol), sizes.size() - 1)]));
  return fmt::format("{}[{}]/{}", name(tensor.dtype), fmt::join(shape, "x"), tensor.alignment);
}

std::string tensorsOf(const LaunchPlan& plan, std::span<const std::int64_t> sizes) {
  auto all = [&](const std::vector<TensorInfo>& tensors, const std::vector<TensorInfo>& lists) {
    std::vector<std::string> texts;
    for (const TensorInfo& tensor : tensors)
      texts.push_back(textOf(tensor, sizes));
    for (const TensorInfo& list : lists)
      texts.push_back(list.part == 0 ? fmt::format("{}[list]", name(list.dtype))
                                     : fmt::format("{}[list {}]", name(list.dtype), list.part));
    return fmt::format("{}", fmt::join(texts, " "));
  };
  return all(plan.inputs, plan.lists.inputs) + " -> " + all(plan.outputs, plan.lists.outputs);
}

std::vector<KernelSpace> spacesOf(const std::vector<NamedKernel>& kernels, const Target& target,
                                  model::Listing listing) {
  std::vector<KernelSpace> spaces;
  for (const NamedKernel& kernel : kernels) {
    Space space = kernel.model->space(target, listing);
    KernelSpace& found = spaces.emplace_back();
    found.kernel = family::entryName(kernel.name);
    found.model = kernel.model;
    found.feasible = std::move(space.feasible);
    found.bytes = kernel.model->bytesRead() + kernel.model->bytesWritten();
    found.roofline = model::rooflineOf(*kernel.model, target);
    for (const auto& [rule, refused] : space.refused)
      found.refusals.push_back({found.kernel, rule, refused.count, refused.worst});
  }
  return spaces;
}

/// The schedules that each kernel is likely to have, in an order that is not the cost model's: an
/// edit to a knob or a constraint changes the keys of just those kernels that it concerns.
std::string hashOf(const std::vector<KernelSpace>& spaces) {
  std::string all;
  for (const KernelSpace& space : spaces) {
    std::vector<std::string> texts;
    for (const Candidate& candidate : space.feasible)
      texts.push_back(toText(candidate.schedule));
    std::ranges::sort(texts);
    all += fmt::format("{}", fmt::join(texts, "\n")) + '\0';
  }
  return sha256(all);
}

} // namespace

std::string nvrtcVersion(const std::filesystem::path& path) {
  try {
    NvrtcInfo info = nvrtcInfo(path);
    return fmt::format("{}.{}", info.major, info.minor);
  } catch (const Error&) {
    return "";
  }
}

CompileOptions optionsUntil(Stage until, const CompileOptions& options) {
  CompileOptions bare = options;
  bare.until = until;
  bare.schedule.clear();
  bare.saveTemps.clear();
  return bare;
}

Described describe(const Module& module, const CompileOptions& options,
                   std::span<const std::int64_t> sizes, model::Listing listing) {
  Program fused = Program::compile(module, optionsUntil(Stage::fused, options));
  const Target& target = findTarget(options.arch);
  const PlannedFunction planned = plannedFunction(fused.text(Stage::fused), sizes);
  std::vector<KernelSpace> spaces = spacesOf(planned.kernels, target, model::Listing::likely);
  const std::string& text = fused.text(Stage::module);
  Key key = {.function = sha256(text),
             .tensors = tensorsOf(planned.launch, sizes),
             .regime = Regime::cold,
             .arch = std::string(target.arch),
             .device = deviceFor(target),
             .nvrtc = nvrtcVersion(options.nvrtc),
             .flags = codeOptions(),
             .emitter = emitterHash(),
             .space = hashOf(spaces)};
  if (listing != model::Listing::likely)
    spaces = spacesOf(planned.kernels, target, listing);
  Key open = key;
  open.tensors = tensorsOf(planned.launch, {});
  open.space.clear(); // which depends on the sizes: few rows leave many schedules without work
  return {std::move(key), std::move(open), text, std::move(spaces)};
}

} // namespace kiln::autotune
