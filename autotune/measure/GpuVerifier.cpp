// See GpuVerifier.h.
#include "autotune/measure/GpuVerifier.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kiln::autotune {
namespace {

/// Elements of the largest tensor that the host compares in a few hundredths of a second.
constexpr std::int64_t kMostElements = std::int64_t{1} << 21;
constexpr std::int64_t kTail = 997; // rows: a prime, so no tile divides it

std::int64_t largestCount(const LaunchPlan& plan, const std::vector<std::int64_t>& symbols) {
  std::int64_t largest = 1;
  for (const auto* group : {&plan.inputs, &plan.outputs})
    for (const TensorInfo& info : *group) {
      std::int64_t count = 1;
      for (std::int64_t size : program::sizesOf(info, symbols))
        count *= size;
      largest = std::max(largest, count);
    }
  return largest;
}

} // namespace

//===- Guarded memory -----------------------------------------------------------------------===//

void Guarded::upload(std::span<const std::byte> values) {
  std::vector<std::byte> all(memory.size(), std::byte{0xff});
  std::ranges::copy(values, all.begin() + static_cast<std::ptrdiff_t>(start));
  memory.upload(all);
}

Guarded::Content Guarded::download() const {
  std::vector<std::byte> all(memory.size());
  memory.download(all);
  const std::span<const std::byte> whole(all);
  auto untouched = [](std::span<const std::byte> part) {
    return std::ranges::all_of(part, [](std::byte b) { return b == std::byte{0xff}; });
  };
  Content content;
  content.intact = untouched(whole.first(start)) && untouched(whole.subspan(start + bytes));
  auto values = whole.subspan(start, bytes);
  content.values.assign(values.begin(), values.end());
  return content;
}

//===- References ---------------------------------------------------------------------------===//

std::vector<GpuVerifier::Shape> GpuVerifier::shapesOf(const LaunchPlan& plan) const {
  Shape main{"its sizes", sizes};
  std::int64_t elements = largestCount(plan, main.sizes);
  if (!main.sizes.empty() && elements > kMostElements) {
    std::int64_t rows = std::max<std::int64_t>(1, elements / main.sizes[0]);
    main.sizes[0] = std::clamp<std::int64_t>(kMostElements / rows, 1, main.sizes[0]);
    main.name = fmt::format("size {}", fmt::join(main.sizes, "x"));
  }
  std::vector<Shape> shapes{main};
  Shape tail = main;
  if (!main.sizes.empty() && main.sizes[0] > 1) {
    tail.sizes[0] = std::min(kTail, main.sizes[0] - 1);
    tail.name = fmt::format("tail {}", fmt::join(tail.sizes, "x"));
    tail.wrong = FailureKind::wrongTail;
    shapes.push_back(tail);
  }
  tail.name += ", least aligned";
  tail.leastAligned = true;
  tail.wrong = FailureKind::misaligned;
  shapes.push_back(tail);
  return shapes;
}

GpuVerifier::Reference& GpuVerifier::reference(const LaunchPlan& plan, const Shape& shape,
                                               std::uint64_t seed) {
  std::string name = fmt::format("{} {}", shape.name, seed);
  for (const auto* group : {&plan.inputs, &plan.outputs})
    for (const TensorInfo& info : *group)
      name += fmt::format(" {}", info.alignment);
  auto& entry = references[name];
  if (entry)
    return *entry;
  auto made = std::make_unique<Reference>();
  std::mt19937_64 random(seed);
  std::vector<ir::Tensor64> values;
  auto place = [&](const TensorInfo& info, program::HostTensor& tensor,
                   std::vector<Guarded>& memory, std::vector<Buffer>& buffers) -> Guarded& {
    std::size_t alignment =
        shape.leastAligned ? static_cast<std::size_t>(info.alignment) : Guarded::zone;
    Guarded& guarded = memory.emplace_back(tensor.data().size(), alignment);
    buffers.push_back(tensor.at(guarded.data() - program::HostTensor::guardBytes));
    return guarded;
  };
  for (const TensorInfo& info : plan.inputs) {
    auto& tensor = made->inputs.emplace_back(info, program::sizesOf(info, shape.sizes));
    tensor.write(program::draw(info, tensor.sizes(), random));
    values.push_back(tensor.read());
    place(info, tensor, made->deviceInputs, made->inputBuffers).upload(tensor.data());
  }
  for (const TensorInfo& info : plan.outputs) {
    auto& tensor = made->outputs.emplace_back(info, program::sizesOf(info, shape.sizes));
    place(info, tensor, made->deviceOutputs, made->outputBuffers);
  }
  made->expected =
      program::expect(Module::parse(module, "<task>"), plan.function, values, plan.outputs);
  entry = std::move(made);
  return *entry;
}

//===- Verifying ----------------------------------------------------------------------------===//

GpuVerifier::Run GpuVerifier::run(const GpuKernel& kernel, Reference& reference,
                                  const Stream& stream) {
  for (Guarded& output : reference.deviceOutputs)
    output.poison();
  Guarded workspace(kernel.program.workspaceBytes(reference.inputBuffers));
  kernel.program.launch(reference.inputBuffers, reference.outputBuffers, workspace.data(),
                        stream.get());
  stream.synchronize();
  Run result;
  for (std::size_t i = 0; i < reference.outputs.size(); ++i) {
    Guarded::Content content = reference.deviceOutputs[i].download();
    if (!content.intact)
      result.outside = fmt::format("output '{}'", reference.outputs[i].info().name);
    result.outputs.push_back(std::move(content.values));
  }
  for (std::size_t i = 0; i < reference.inputs.size(); ++i) {
    program::HostTensor& input = reference.inputs[i];
    Guarded::Content content = reference.deviceInputs[i].download();
    if (content.intact && std::ranges::equal(content.values, input.data()))
      continue;
    result.outside = fmt::format("input '{}'", input.info().name);
    reference.deviceInputs[i].upload(input.data());
  }
  if (!workspace.download().intact)
    result.outside = "the workspace";
  return result;
}

void GpuVerifier::compareOutputs(const Shape& shape, Reference& reference, const Run& run,
                                 Check& check) {
  for (std::size_t i = 0; i < reference.outputs.size() && !check.kind; ++i) {
    program::HostTensor& output = reference.outputs[i];
    std::ranges::copy(run.outputs[i], output.data().begin());
    OutputCheck found = program::compare(output.info(), output.read(), reference.expected.exact[i],
                                         reference.expected.allowed[i]);
    double error = std::abs(found.result - found.reference);
    double share =
        found.passed
            ? (found.allowed > 0 && std::isfinite(error) ? error / found.allowed : 0.0)
            : (std::isfinite(error) && found.allowed > 0 ? error / found.allowed : HUGE_VAL);
    check.verdict.worstError = std::max(check.verdict.worstError, share);
    if (found.passed)
      continue;
    bool isNan = std::isnan(found.result) && !std::isnan(found.reference);
    check.kind = isNan && shape.wrong == FailureKind::wrongResult ? FailureKind::nan : shape.wrong;
    check.log = fmt::format("{}: {}[{}] is {:.9g}, fp64 says {:.9g}, allowed error {:.3g}",
                            shape.name, found.name, fmt::join(found.worst, ","), found.result,
                            found.reference, found.allowed);
  }
}

void GpuVerifier::check(const GpuKernel& kernel, const Shape& shape, Reference& reference,
                        Check& check) {
  Run first = run(kernel, reference, streams[0]), second = run(kernel, reference, streams[1]);
  for (const Run* one : {&first, &second})
    if (!one->outside.empty()) {
      check.kind = FailureKind::wroteOutside;
      check.log = fmt::format("{}: memory of or around {} was written", shape.name, one->outside);
      return;
    }
  if (first.outputs != second.outputs) {
    check.verdict.deterministic = false;
    check.kind = FailureKind::race;
    check.log = fmt::format("{}: two runs on different streams differ", shape.name);
    return;
  }
  compareOutputs(shape, reference, first, check);
}

Check GpuVerifier::verify(const GpuKernel& kernel, std::uint64_t seed) {
  Check result;
  result.verdict.deterministic = true;
  result.verdict.seed = seed;
  result.verdict.reference = "fp64 host";
  for (const Shape& shape : shapesOf(kernel.plan)) {
    check(kernel, shape, reference(kernel.plan, shape, seed), result);
    result.verdict.reference += "; " + shape.name;
    if (result.kind)
      break;
  }
  result.verdict.pass = !result.kind;
  return result;
}

} // namespace kiln::autotune
