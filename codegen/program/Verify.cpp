// kiln::verify and kiln::measure: a program on inputs from a seed or from files, on the host or
// on the GPU; compared with fp64, then timed beside a copy.
#include "codegen/program/Verify.h"

#include "codegen/backend/Executable.h"
#include "codegen/backend/Fail.h"
#include "codegen/backend/Symbols.h"
#include "codegen/backend/Timer.h"
#include "codegen/family/Shapes.h"
#include "codegen/host/HostTarget.h"
#include "codegen/program/Compare.h"
#include "codegen/program/Operands.h"
#include "codegen/program/PlainCopy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>

namespace kiln {
namespace {

using program::HostTensor;

ir::Tensor64 valuesOf(const NpyArray& array) {
  ir::Tensor64 values = ir::makeTensor64(array.shape);
  for (std::size_t i = 0; i < values.data.size(); ++i)
    values.data[i] = program::load(array.dtype, array.data.data() + i * sizeInBytes(array.dtype));
  return values;
}

/// The run-time sizes, from the options or the shapes of the arrays given.
std::vector<std::int64_t> symbolsOf(const Program& program, const RunOptions& options) {
  checkSizes(program.state().function, program.inputs(), program.outputs(), options.sizes);
  std::vector<std::int64_t> symbols = options.sizes;
  if (!options.inputs.empty() && program.lists().chunk > 0)
    fail(ErrorKind::input,
         "'{}' is over lists of tensors: its inputs are drawn from a seed, or given from C++ "
         "(kiln/lists.h); leave the arrays out",
         program.state().function);
  if (!options.inputs.empty() && options.inputs.size() != program.inputs().size())
    fail(ErrorKind::input, "{} input arrays given, the program takes {}", options.inputs.size(),
         program.inputs().size());
  for (std::size_t i = 0; i < options.inputs.size(); ++i) {
    const TensorInfo& info = program.inputs()[i];
    const auto& shape = options.inputs[i].shape;
    if (shape.size() != info.shape.size())
      fail(ErrorKind::input, "input '{}': the array has rank {}, the program takes rank {}",
           info.name, shape.size(), info.shape.size());
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const Extent& extent = info.shape[d];
      if (extent.isStatic() && extent.size != shape[d])
        fail(ErrorKind::input,
             "input '{}': dimension {} of the array has {} elements, the program "
             "was compiled for {}",
             info.name, d, shape[d], extent.size);
      if (extent.isStatic())
        continue;
      if (symbols.size() <= static_cast<std::size_t>(extent.symbol))
        symbols.resize(extent.symbol + 1, shape[d]);
      symbols[extent.symbol] = shape[d];
    }
  }
  return symbols;
}

/// Whether the size of an operand gives the extent its value; of a table of lists none does.
bool isGiven(const Extent& extent, const program::Operands& operands) {
  const auto hasIt = [&](const TensorInfo& tensor) {
    return std::ranges::find(tensor.shape, extent.symbol, &Extent::symbol) != tensor.shape.end();
  };
  return extent.isStatic() || std::ranges::any_of(operands.inputs, hasIt) ||
         std::ranges::any_of(operands.outputs, hasIt);
}

/// More rows than kernels count, before anything of their size is made.
void checkRows(const LaunchPlan& plan, const program::Operands& operands,
               std::span<const std::int64_t> symbols) {
  for (const KernelLaunch& kernel : plan.kernels) {
    const auto isKnown = [&](const Extent& extent) { return isGiven(extent, operands); };
    if (!std::ranges::all_of(kernel.rows.factors, isKnown))
      continue;
    double rows = 1;
    for (std::int64_t size : program::sizesOf({kernel.name, {}, kernel.rows.factors, {}}, symbols))
      rows *= static_cast<double>(size);
    if (rows > static_cast<double>(maxRows))
      fail(ErrorKind::input, "kernel '{}': {:.0f} rows, a kernel counts up to {}; split the batch",
           kernel.name, rows, maxRows);
  }
}

/// More than the host target computes in some minutes.
void checkWork(const LaunchPlan& plan, std::span<const std::int64_t> symbols) {
  constexpr double most = 5e9;
  const double work = family::multiplyAddsOf(plan, {symbols.begin(), symbols.end()});
  if (work > most)
    fail(ErrorKind::input,
         "'{}' takes {:.1e} multiply-adds at these sizes, and the host target, thread by thread, "
         "hours for them; it takes up to {:.0e}: run it on a GPU, or leave sizes open ('?') and "
         "give smaller ones with --sizes",
         plan.function, work, most);
}

/// All operands; of lists, parts of these lengths.
struct Tensors {
  std::vector<HostTensor> inputs, outputs;

  Tensors(const Program& program, const RunOptions& options, std::span<const std::int64_t> lengths,
          program::Signs signs = program::Signs::any) {
    auto symbols = symbolsOf(program, options);
    const LaunchPlan& plan = program.state().plan;
    const program::Operands operands(plan, lengths);
    checkRows(plan, operands, symbols);
    if (options.where == Where::host)
      checkWork(plan, symbols);
    std::mt19937_64 random(options.seed);
    for (std::size_t i = 0; i < operands.inputs.size(); ++i) {
      const TensorInfo& info = operands.inputs[i];
      auto& tensor = inputs.emplace_back(info, program::sizesOf(info, symbols));
      tensor.write(options.inputs.empty() ? program::draw(info, symbols, random, signs)
                                          : valuesOf(options.inputs[i]));
    }
    for (const TensorInfo& info : operands.outputs)
      outputs.emplace_back(info, program::sizesOf(info, symbols));
  }
};

std::vector<Buffer> buffersOf(std::vector<HostTensor>& tensors) {
  std::vector<Buffer> buffers;
  for (HostTensor& tensor : tensors)
    buffers.push_back(tensor.buffer());
  return buffers;
}

/// The tensors of one set in device memory, guards included.
struct DeviceSet {
  std::vector<DeviceBuffer> memory;
  std::vector<Buffer> inputs, outputs;

  DeviceSet(const Tensors& tensors, const Stream& stream) {
    add(tensors.inputs, inputs, stream);
    add(tensors.outputs, outputs, stream);
  }
  void add(const std::vector<HostTensor>& tensors, std::vector<Buffer>& buffers,
           const Stream& stream) {
    for (const HostTensor& tensor : tensors) {
      DeviceBuffer& buffer = memory.emplace_back(tensor.guarded().size());
      buffer.upload(tensor.guarded(), stream);
      buffers.push_back(tensor.at(static_cast<std::byte*>(buffer.data())));
    }
  }
};

void runOnHost(const LaunchPlan& plan, const HostProgram& host, Tensors& tensors,
               std::span<const std::int64_t> lengths) {
  std::vector<Buffer> inputs = buffersOf(tensors.inputs), outputs = buffersOf(tensors.outputs);
  const auto lists = program::listsOf(plan, lengths, inputs, outputs);
  if (!lists)
    return host.run(inputs, outputs);
  host.run(
      lists->inputs(lists->table().data(), std::span(inputs).first(program::tensorsBefore(plan))),
      std::span(outputs).first(plan.outputs.size()));
}

/// On a stream of its own, and waiting for no other: graphs may be captured beside it.
void runOnGpu(const LoadedProgram& loaded, Tensors& tensors,
              std::span<const std::int64_t> lengths) {
  Stream stream;
  DeviceSet set(tensors, stream);
  const program::LaunchBuffers buffers(loaded.plan(), lengths, set.inputs, set.outputs);
  DeviceBuffer workspace(
      std::max<std::size_t>(loaded.workspaceBytes(buffers.inputs, buffers.outputs), 256));
  workspace.upload(std::vector<std::byte>(workspace.size(), std::byte{0xff}), stream);
  loaded.launch(buffers.inputs, buffers.outputs, workspace.data(), stream.get());
  stream.synchronize();
  for (std::size_t i = 0; i < tensors.outputs.size(); ++i)
    set.memory[tensors.inputs.size() + i].download(tensors.outputs[i].guarded(), stream);
}

/// What to compare with: the module given, or the program's own function before fusion.
Module referenceOf(const Program& program, const RunOptions& options) {
  if (options.reference)
    return *options.reference;
  if (program.text(Stage::module).empty())
    fail(ErrorKind::input, "the program was resumed from a later stage; give the module to compare "
                           "with (--reference)");
  return Module::parse(program.text(Stage::module), "<module>");
}

} // namespace

Verification verify(const Program& program, const RunOptions& options) {
  constexpr std::int64_t any = std::numeric_limits<std::int64_t>::max();
  const auto shapes = family::shapesOf({program.state().plan, options.sizes, any});
  return program::verify(program, options, shapes.front().lengths);
}

namespace {

/// A program where it runs, loaded or compiled once.
class Runner {
 public:
  Runner(const Program& program, Where where, std::span<const std::int64_t> lengths)
      : plan(program.state().plan), lengths(lengths) {
    if (where == Where::gpu)
      loaded.emplace(plan, program.cubin());
    else
      host.emplace(plan, program.text(Stage::cuda));
  }
  void run(Tensors& tensors, std::vector<std::string>& problems) const {
    for (HostTensor& output : tensors.outputs)
      output.poison();
    if (loaded)
      runOnGpu(*loaded, tensors, lengths);
    else
      runOnHost(plan, *host, tensors, lengths);
    for (HostTensor& output : tensors.outputs)
      if (!output.guardsIntact())
        problems.push_back(
            fmt::format("output '{}': memory outside the tensor was written", output.info().name));
  }

 private:
  const LaunchPlan& plan;
  std::span<const std::int64_t> lengths;
  std::optional<LoadedProgram> loaded;
  std::optional<HostProgram> host;
};

NpyArray toNpy(const HostTensor& tensor) {
  NpyArray array{tensor.info().dtype, tensor.sizes(), {}};
  const ir::Tensor64 values = tensor.read();
  array.data.resize(values.data.size() * sizeInBytes(array.dtype));
  for (std::size_t k = 0; k < values.data.size(); ++k)
    program::store(array.dtype, values.data[k], array.data.data() + k * sizeInBytes(array.dtype));
  return array;
}

/// `leavesOut`: whether some result was not compared (Expected::leavesOut()).
Verification verifyOn(Tensors& tensors, const Runner& runner, const Program& program,
                      const RunOptions& options, std::span<const std::int64_t> lengths,
                      bool& leavesOut) {
  std::vector<ir::Tensor64> inputs;
  for (const HostTensor& tensor : tensors.inputs)
    inputs.push_back(tensor.read());
  Verification result;
  runner.run(tensors, result.problems);
  auto first = tensors.outputs;
  runner.run(tensors, result.problems);
  result.repeatable = true;
  for (std::size_t i = 0; i < first.size(); ++i)
    if (!std::ranges::equal(first[i].data(), tensors.outputs[i].data())) {
      result.repeatable = false;
      result.problems.push_back(
          fmt::format("output '{}' differs between two runs", first[i].info().name));
    }
  const LaunchPlan& plan = program.state().plan;
  const program::Operands operands(plan, lengths);
  auto expected =
      program::expect(referenceOf(program, options), program.state().function, inputs,
                      operands.outputs, family::referenceCost(plan, symbolsOf(program, options)));
  leavesOut = expected.leavesOut();
  result.step = expected.step;
  result.passed = result.problems.empty();
  for (std::size_t i = 0; i < first.size(); ++i) {
    result.outputs.push_back(program::compare(operands.outputs[i], first[i].read(), expected, i));
    result.passed &= result.outputs.back().passed;
    result.results.push_back(toNpy(first[i]));
  }
  return result;
}

/// What was compared on other numbers, for results that had none.
void addTo(Verification& result, const Verification& more) {
  for (std::size_t i = 0; i < result.outputs.size(); ++i)
    if (result.outputs[i].numbers == 0 || !more.outputs[i].passed) {
      result.outputs[i] = more.outputs[i];
      result.results[i] = more.results[i];
    }
  result.problems.insert(result.problems.end(), more.problems.begin(), more.problems.end());
  result.repeatable &= more.repeatable;
  result.passed &= more.passed;
}

} // namespace

Verification program::verify(const Program& program, const RunOptions& options,
                             std::span<const std::int64_t> lengths) {
  Tensors tensors(program, options, lengths);
  const Runner runner(program, options.where, lengths);
  bool leavesOut = false;
  Verification result = verifyOn(tensors, runner, program, options, lengths, leavesOut);
  if (leavesOut && options.inputs.empty()) {
    Tensors positive(program, options, lengths, Signs::positive);
    addTo(result, verifyOn(positive, runner, program, options, lengths, leavesOut));
  }
  return result;
}

Measurement measure(const Program& program, const RunOptions& options) {
  LoadedProgram loaded(program.state().plan, program.cubin());
  const DeviceInfo& device = Driver::get().currentDevice();
  const auto lengths = family::typicalLengthsOf(program.state().plan);
  Tensors tensors(program, options, lengths);
  Measurement result;
  result.device = device.name;
  for (auto* group : {&tensors.inputs, &tensors.outputs})
    for (HostTensor& tensor : *group)
      result.bytes += static_cast<std::int64_t>(tensor.data().size());
  // Sets enough that nothing is still in the L2 when it is used again.
  std::int64_t wanted = 12 * device.l2Bytes / std::max<std::int64_t>(result.bytes, 1) + 1;
  const Stream stream;
  std::vector<DeviceSet> sets;
  for (std::int64_t i = 0, n = std::clamp<std::int64_t>(wanted, 4, 64); i < n; ++i)
    sets.emplace_back(tensors, stream);
  std::vector<program::LaunchBuffers> buffers;
  for (const DeviceSet& set : sets)
    buffers.emplace_back(loaded.plan(), lengths, set.inputs, set.outputs);
  DeviceBuffer workspace(
      std::max<std::size_t>(loaded.workspaceBytes(buffers[0].inputs, buffers[0].outputs), 256));
  program::PlainCopy copy(result.bytes, static_cast<std::int64_t>(sets.size()),
                          program.state().options);
  std::vector<Enqueue> candidates = {[&](CuStream stream, int i) {
                                       const auto& set = buffers[i % buffers.size()];
                                       loaded.launch(set.inputs, set.outputs, workspace.data(),
                                                     stream);
                                     },
                                     [&](CuStream stream, int i) { copy.kernel(stream, i); },
                                     [&](CuStream stream, int i) { copy.node(stream, i); }};
  TimerOptions timing;
  timing.launches = static_cast<int>(std::max<std::size_t>(sets.size(), 20));
  auto times = timeGraph(candidates, timing);
  std::vector<double> sorted = times[0].samples;
  std::ranges::sort(sorted);
  result.microseconds = times[0].medianMicros;
  result.lowest = sorted[sorted.size() / 20];
  result.highest = sorted[sorted.size() - 1 - sorted.size() / 20];
  result.copyMicroseconds = std::min(times[1].medianMicros, times[2].medianMicros);
  result.replays = timing.replays;
  return result;
}

} // namespace kiln
