// See GpuVerifier.h.
#include "autotune/measure/GpuVerifier.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kiln::autotune {

using program::LaunchBuffers;
using program::Operands;
using Shape = family::Shape;

namespace {

/// Elements of the largest tensor that the host compares in a few hundredths of a second.
constexpr std::int64_t kMostElements = std::int64_t{1} << 20;

/// Of the numbers that operands hold.
std::string nameOf(const Shape& shape, std::uint64_t seed) {
  return fmt::format("{} {} {}", fmt::join(shape.sizes, "x"), fmt::join(shape.lengths, " "), seed);
}

/// As fast as memory, of tensors of many megabytes.
bool isEqual(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

/// What a wrong value is called.
FailureKind wrongAt(const Shape& shape) {
  return shape.leastAligned ? FailureKind::misaligned
         : shape.isTail     ? FailureKind::wrongTail
                            : FailureKind::wrongResult;
}

} // namespace

//===- Guarded memory -----------------------------------------------------------------------===//

void Guarded::upload(std::span<const std::byte> values) {
  std::vector<std::byte> all(memory.size(), std::byte{0xff});
  std::ranges::copy(values, all.begin() + static_cast<std::ptrdiff_t>(start));
  memory.upload(all);
}

Guarded::Content Guarded::download() const {
  auto all = std::make_unique_for_overwrite<std::byte[]>(memory.size());
  const std::span<std::byte> whole(all.get(), memory.size());
  memory.download(whole);
  auto untouched = [](std::span<const std::byte> part) {
    return std::ranges::all_of(part, [](std::byte b) { return b == std::byte{0xff}; });
  };
  const bool intact = untouched(whole.first(start)) && untouched(whole.subspan(start + bytes));
  return {std::move(all), whole.subspan(start, bytes), intact};
}

//===- References ---------------------------------------------------------------------------===//

std::shared_ptr<GpuVerifier::Reference>
GpuVerifier::makeReference(const std::string& text, const LaunchPlan& plan, const Shape& shape,
                           std::uint64_t seed, program::Signs signs) {
  auto made = std::make_shared<Reference>();
  const Operands operands(plan, shape.lengths);
  std::mt19937_64 random(seed);
  std::vector<ir::Tensor64> values;
  for (const TensorInfo& info : operands.inputs) {
    auto& tensor = made->inputs.emplace_back(info, program::sizesOf(info, shape.sizes));
    tensor.write(program::draw(info, shape.sizes, random, signs));
    values.push_back(tensor.read());
  }
  for (const TensorInfo& info : operands.outputs)
    made->outputs.emplace_back(info, program::sizesOf(info, shape.sizes));
  made->expected = program::expect(Module::parse(text, "<task>"), plan.function, std::move(values),
                                   operands.outputs, family::referenceCost(plan, shape.sizes));
  return made;
}

/// Begins to compute it, unless that was done before.
GpuVerifier::SharedReference& GpuVerifier::reference(const LaunchPlan& plan, const Shape& shape,
                                                     std::uint64_t seed) {
  SharedReference& entry = references[nameOf(shape, seed)];
  if (entry.valid())
    return entry;
  auto compute = [text = module, plan, shape, seed] {
    std::shared_ptr<Reference> made = makeReference(text, plan, shape, seed);
    if (made->expected.leavesOut())
      made = makeReference(text, plan, shape, seed, program::Signs::positive);
    return made;
  };
  entry = std::async(std::launch::async, std::move(compute)).share();
  return entry;
}

GpuVerifier::Memory& GpuVerifier::memory(const LaunchPlan& plan, const Shape& shape,
                                         std::uint64_t seed) {
  std::string name = fmt::format("{} {}", shape.name, nameOf(shape, seed));
  for (const auto* group : {&plan.inputs, &plan.outputs})
    for (const TensorInfo& info : *group)
      name += fmt::format(" {}", info.alignment);
  Memory& made = memories[name];
  if (made.buffers)
    return made;
  made.reference = reference(plan, shape, seed).get();
  auto place = [&](const TensorInfo& info, const program::HostTensor& tensor,
                   std::vector<Guarded>& memory) {
    std::size_t alignment =
        shape.leastAligned ? static_cast<std::size_t>(info.alignment) : Guarded::zone;
    Guarded& guarded = memory.emplace_back(tensor.data().size(), alignment);
    return tensor.at(guarded.data() - program::HostTensor::guardBytes);
  };
  const Operands operands(plan, shape.lengths);
  std::vector<Buffer> inputs, outputs;
  for (std::size_t i = 0; i < operands.inputs.size(); ++i) {
    const program::HostTensor& tensor = made.reference->inputs[i];
    inputs.push_back(place(operands.inputs[i], tensor, made.inputs));
    made.inputs.back().upload(tensor.data());
  }
  for (std::size_t i = 0; i < operands.outputs.size(); ++i)
    outputs.push_back(place(operands.outputs[i], made.reference->outputs[i], made.outputs));
  made.buffers.emplace(plan, shape.lengths, std::move(inputs), std::move(outputs));
  return made;
}

bool GpuVerifier::areEqual(const Outputs& a, const Outputs& b) {
  return std::ranges::equal(a, b, [](const Guarded::Content& one, const Guarded::Content& other) {
    return isEqual(one.values, other.values);
  });
}

//===- Verifying ----------------------------------------------------------------------------===//

GpuVerifier::Run GpuVerifier::run(const GpuKernel& kernel, Memory& memory, const Stream& stream) {
  for (Guarded& output : memory.outputs)
    output.poison();
  const LaunchBuffers& buffers = *memory.buffers;
  Guarded workspace(kernel.program.workspaceBytes(buffers.inputs, buffers.outputs));
  kernel.program.launch(buffers.inputs, buffers.outputs, workspace.data(), stream.get());
  stream.synchronize();
  Run result;
  for (std::size_t i = 0; i < memory.outputs.size(); ++i) {
    Guarded::Content content = memory.outputs[i].download();
    if (!content.intact)
      result.outside = fmt::format("output '{}'", memory.reference->outputs[i].info().name);
    result.outputs.push_back(std::move(content));
  }
  if (!workspace.download().intact)
    result.outside = "the workspace";
  return result;
}

/// An input that is no longer what it was is mended, and named.
std::string GpuVerifier::changedInput(Memory& memory) {
  std::string changed;
  for (std::size_t i = 0; i < memory.inputs.size(); ++i) {
    const program::HostTensor& input = memory.reference->inputs[i];
    Guarded::Content content = memory.inputs[i].download();
    if (content.intact && isEqual(content.values, input.data()))
      continue;
    changed = fmt::format("input '{}'", input.info().name);
    memory.inputs[i].upload(input.data());
  }
  return changed;
}

OutputCheck GpuVerifier::compareOutput(Reference& reference, const Guarded::Content& found,
                                       std::size_t i) {
  const program::HostTensor& like = reference.outputs[i];
  if (reference.expected.step > 1) {
    const auto at = [&](std::int64_t element) {
      return program::load(like.info().dtype, found.values.data() + like.offsetOf(element));
    };
    return program::compare(like.info(), at, reference.expected, i);
  }
  program::HostTensor output = like;
  std::ranges::copy(found.values, output.data().begin());
  return program::compare(output.info(), output.read(), reference.expected, i);
}

void GpuVerifier::compareOutputs(const Shape& shape, Reference& reference, const Outputs& outputs,
                                 Check& check) {
  for (std::size_t i = 0; i < outputs.size() && !check.kind; ++i) {
    OutputCheck found = compareOutput(reference, outputs[i], i);
    double error = std::abs(found.result - found.reference);
    double share =
        found.passed
            ? (found.allowed > 0 && std::isfinite(error) ? error / found.allowed : 0.0)
            : (std::isfinite(error) && found.allowed > 0 ? error / found.allowed : HUGE_VAL);
    check.verdict.worstError = std::max(check.verdict.worstError, share);
    if (found.passed)
      continue;
    bool isNan = std::isnan(found.result) && !std::isnan(found.reference);
    const FailureKind wrong = wrongAt(shape);
    check.kind = isNan && wrong == FailureKind::wrongResult ? FailureKind::nan : wrong;
    check.log = fmt::format("{}: {}[{}] is {:.9g}, fp64 says {:.9g}, allowed error {:.3g}",
                            shape.name, found.name, fmt::join(found.worst, ","), found.result,
                            found.reference, found.allowed);
  }
}

void GpuVerifier::check(const GpuKernel& kernel, const Shape& shape, Memory& memory,
                        Outputs& proven, Check& check) {
  Run first = run(kernel, memory, streams[0]), second = run(kernel, memory, streams[1]);
  for (const std::string& outside : {first.outside, second.outside, changedInput(memory)})
    if (!outside.empty()) {
      check.kind = FailureKind::wroteOutside;
      check.log = fmt::format("{}: memory of or around {} was written", shape.name, outside);
      return;
    }
  if (!areEqual(first.outputs, second.outputs)) {
    check.verdict.deterministic = false;
    check.kind = FailureKind::race;
    check.log = fmt::format("{}: two runs on different streams differ", shape.name);
    return;
  }
  if (areEqual(first.outputs, proven))
    return;
  compareOutputs(shape, *memory.reference, first.outputs, check);
  if (!check.kind)
    proven = std::move(first.outputs);
}

void GpuVerifier::prepare(const LaunchPlan& plan, std::uint64_t seed) {
  const std::vector<Shape> shapes = family::shapesOf({plan, sizes, kMostElements});
  for (const Shape& shape : shapes)
    reference(plan, shape, seed);
  for (const Shape& shape : shapes)
    reference(plan, shape, seed).wait();
}

Check GpuVerifier::verify(const GpuKernel& kernel, std::uint64_t seed) {
  Check result;
  result.verdict.deterministic = true;
  result.verdict.seed = seed;
  result.verdict.reference = "fp64 host";
  const std::vector<Shape> shapes = family::shapesOf({kernel.plan, sizes, kMostElements});
  prepare(kernel.plan, seed);
  std::map<std::string, Outputs> proven; // by what operands hold
  for (const Shape& shape : shapes) {
    Memory& placed = memory(kernel.plan, shape, seed);
    check(kernel, shape, placed, proven[nameOf(shape, seed)], result);
    result.verdict.reference += "; " + shape.name;
    if (const std::int64_t step = placed.reference->expected.step; step > 1)
      result.verdict.reference += fmt::format(", a row of {}", step);
    if (result.kind)
      break;
  }
  result.verdict.pass = !result.kind;
  // Of the numbers on which the best is verified once more, unless they would keep all cores from
  // what is compiled and compared meanwhile: few are asked for where a default stays.
  const auto isSampled = [&](const Shape& shape) {
    return reference(kernel.plan, shape, seed).get()->expected.step > 1;
  };
  if (!references.contains(nameOf(shapes[0], seed - 1)) && std::ranges::none_of(shapes, isSampled))
    for (const Shape& shape : shapes)
      reference(kernel.plan, shape, seed + 1);
  return result;
}

} // namespace kiln::autotune
