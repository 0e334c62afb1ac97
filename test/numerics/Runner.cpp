// See Runner.h.
#include "test/numerics/Runner.h"

#include "codegen/backend/Driver.h"
#include "codegen/backend/Target.h"
#include "codegen/passes/FunctionPlan.h"
#include "dialect/Kiln.h"
#include "test/numerics/Values.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>

#include <fmt/format.h>

namespace kiln::test {
namespace {

using ir::Tensor64;

/// The target of the GPU that is there, or the usual one.
std::string arch() {
  if (!whyNoGpu().empty())
    return CompileOptions().arch;
  const DeviceInfo& device = Driver::get().currentDevice();
  return std::string(targetOfCapability(device.major, device.minor).arch);
}

CompileOptions optionsOf(const Case& numericCase, Stage until) {
  CompileOptions options;
  options.backward = numericCase.backward;
  options.schedule = numericCase.schedule;
  options.until = until;
  options.arch = arch();
  return options;
}

Program compiled(const Case& numericCase, Stage until) {
  return Program::compile(Module::parse(numericCase.text, numericCase.name),
                          optionsOf(numericCase, until));
}

/// Moves values by one rounding to fp32, or to their own type if that is narrower.
struct Mover {
  std::mt19937_64& random;
  bool chained = false; // what the forward returns is read by the backward
  void operator()(DType dtype, Tensor64& tensor) const {
    double unit = std::max(precisionOf(dtype).relative, 0x1p-24);
    if (precisionOf(dtype).relative > 0)
      for (double& value : tensor.data)
        value *= random() % 2 ? 1 + unit : 1 - unit;
  }
  /// Values on the way that are stored, between kernels, in a narrow type.
  void operator()(mlir::Value value, Tensor64& tensor) const {
    DType dtype = passes::dtypeOf(ir::tensorType(value).getElementType());
    bool returned = llvm::any_of(value.getUsers(), [](mlir::Operation* user) {
      return llvm::isa<mlir::func::ReturnOp>(user);
    });
    if (dtype != DType::f32 && (chained || !returned))
      (*this)(dtype, tensor);
  }
};

/// The function of a case, beside which derived ones are put.
class Parsed {
 public:
  explicit Parsed(const std::string& source) {
    mlir::DialectRegistry registry;
    ir::registerDialects(registry);
    registry.insert<cu::CuDialect>();
    context.appendDialectRegistry(registry);
    module = mlir::parseSourceString<mlir::ModuleOp>(source, &context);
    name = (*module->getOps<mlir::func::FuncOp>().begin()).getName().str();
  }
  void differentiate(bool together) {
    passes::DifferentiateOptions options;
    options.together = together;
    mlir::PassManager manager(&context);
    manager.addPass(passes::createDifferentiate(options));
    if (failed(manager.run(*module)))
      throw Error(ErrorKind::input, "no backward of " + name);
  }
  mlir::func::FuncOp find(const char* suffix = "") {
    return module->lookupSymbol<mlir::func::FuncOp>(name + suffix);
  }
  std::string text() {
    std::string text;
    llvm::raw_string_ostream out(text);
    module->print(out);
    return text;
  }

  std::string name;

 private:
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

/// What the function, its derived backward or both as one give in fp64; moved by rounding if there
/// is a mover.
std::vector<Tensor64> reference(const Case& numericCase, const std::vector<Tensor64>& inputs,
                                const Mover* mover = nullptr) {
  Parsed parsed(numericCase.text);
  if (numericCase.backward)
    parsed.differentiate(numericCase.chained);
  mlir::func::FuncOp function = parsed.find(!numericCase.backward ? ""
                                            : numericCase.chained ? "_with_gradient"
                                                                  : "_backward");
  auto results =
      ir::evaluate(function.getBody().front(), inputs, [&](mlir::Value value, Tensor64& tensor) {
        if (mover)
          (*mover)(value, tensor);
      });
  if (failed(results))
    throw Error(ErrorKind::input, "no reference of " + parsed.name);
  return std::move(*results);
}

/// What may be wrong of one result: rounding to its type; fp32 rounding of the computation, which
/// grows with the root of the number of terms; and what the same rounding of the inputs changes,
/// since terms may cancel. `moved` holds results from inputs moved by that rounding, none in strict
/// cases.
class Allowance {
 public:
  Allowance(DType dtype, const Tensor64& exact, const std::vector<std::vector<Tensor64>>& moved,
            std::size_t output, std::int64_t terms, Strict strict)
      : precision(precisionOf(dtype)), least(strict == Strict::no ? 0x1p-126 : precision.smallest),
        growth(0x1p-24 * (8.0 + std::sqrt(static_cast<double>(terms)))), exact(exact) {
    bool rows = exact.shape.size() > 1;
    width = rows ? exact.width() : exact.size();
    for (std::int64_t start = 0; width > 0 && start < exact.size(); start += width) {
      double most = 0;
      for (auto& results : moved)
        most = std::max(most, rms(start, [&](std::int64_t i) {
                          return results[output].data[i] - exact.data[i];
                        }));
      double typical = 0;
      if (strict != Strict::elements)
        typical = rms(start, [&](std::int64_t i) { return exact.data[i]; });
      ofRow.push_back(16 * most + growth * typical);
    }
  }
  double at(std::int64_t i) const {
    double size = std::abs(exact.data[i]);
    return precision.relative * size * 1.0001 + growth * size + ofRow[i / width] +
           precision.smallest + least;
  }

  Precision precision;

 private:
  double least;
  template <class Value> double rms(std::int64_t start, Value value) const {
    double square = 0;
    std::int64_t count = 0;
    for (std::int64_t i = start; i < start + width; ++i)
      if (double v = value(i); std::isfinite(v))
        square += v * v, ++count;
    return count ? std::sqrt(square / static_cast<double>(count)) : 0.0;
  }

  double growth;
  const Tensor64& exact;
  std::int64_t width;
  std::vector<double> ofRow;
};

bool agrees(double result, double exact, double allowed, const Precision& precision) {
  if (std::isnan(exact) || std::isnan(result))
    return std::isnan(exact) && std::isnan(result);
  if (std::isinf(exact) || std::isinf(result)) // beyond the largest of the type is infinite too
    return result == exact || (std::isinf(result) && std::signbit(result) == std::signbit(exact) &&
                               std::abs(exact) + allowed > precision.largest);
  return std::abs(result - exact) <= allowed;
}

std::string compare(const TensorInfo& info, const Tensor64& result, const Tensor64& exact,
                    const Allowance& allowance, double disturb) {
  std::int64_t wrong = 0;
  double worst = -1;
  std::string text;
  for (std::int64_t i = 0; i < exact.size(); ++i) {
    double allowed = allowance.at(i), value = result.data[i];
    if (disturb != 0)
      value += disturb * allowed;
    if (agrees(value, exact.data[i], allowed, allowance.precision))
      continue;
    ++wrong;
    double share = std::abs(value - exact.data[i]) / allowed;
    if (worst >= 0 && !(share > worst))
      continue;
    worst = std::isnan(share) ? std::numeric_limits<double>::infinity() : share;
    text = fmt::format("element {}: {:.9g} instead of {:.9g}, {:.3g} allowed", i, value,
                       exact.data[i], allowed);
  }
  return wrong ? fmt::format("{}: {} of {} elements; worst {}\n", info.name, wrong, exact.size(),
                             text)
               : "";
}

std::vector<Storage> storages(const std::vector<TensorInfo>& tensors, const Case& numericCase) {
  std::vector<Storage> made;
  for (const TensorInfo& info : tensors) {
    auto given = numericCase.strides.find(info.name);
    made.emplace_back(info, numericCase.sizes,
                      given == numericCase.strides.end() ? std::vector<std::int64_t>()
                                                         : given->second);
  }
  return made;
}

using Storages = std::vector<Storage*>;

void runOnHost(const Program& program, const Storages& inputs, const Storages& outputs) {
  std::vector<Buffer> from, to;
  for (Storage* input : inputs)
    from.push_back(input->buffer());
  for (Storage* output : outputs)
    to.push_back(output->buffer());
  program.runOnHost(from, to);
}

/// A copy of a tensor and of what is around it on the device, aligned as on the host.
class OnDevice {
 public:
  explicit OnDevice(Storage* from)
      : storage(*from), shift(reinterpret_cast<std::uintptr_t>(storage.memory().data()) % 256),
        image(storage.memory().size() + shift), memory(image.size()) {
    std::ranges::copy(storage.memory(), image.begin() + static_cast<std::ptrdiff_t>(shift));
    memory.upload(image);
  }
  Buffer buffer() {
    Buffer result = storage.buffer();
    auto at = static_cast<std::byte*>(result.data) - storage.memory().data();
    result.data = static_cast<std::byte*>(memory.data()) + shift + at;
    return result;
  }
  void bringBack() {
    memory.download(image);
    std::copy(image.begin() + static_cast<std::ptrdiff_t>(shift), image.end(),
              storage.memory().begin());
  }

 private:
  Storage& storage;
  std::size_t shift;
  std::vector<std::byte> image;
  DeviceBuffer memory;
};

void runOnGpu(const Program& program, const Storages& inputs, const Storages& outputs) {
  std::vector<OnDevice> there(inputs.begin(), inputs.end()), back(outputs.begin(), outputs.end());
  std::vector<Buffer> from, to;
  for (OnDevice& input : there)
    from.push_back(input.buffer());
  for (OnDevice& output : back)
    to.push_back(output.buffer());
  Executable executable(program);
  DeviceBuffer workspace(std::max<std::size_t>(executable.workspaceBytes(from), 256));
  Stream stream;
  executable.launch(from, to, workspace.data(), stream.get());
  stream.synchronize();
  for (OnDevice& output : back)
    output.bringBack();
}

void runProgram(const Program& program, Where where, const Storages& inputs,
                const Storages& outputs) {
  for (Storage* output : outputs)
    output->poison();
  (where == Where::gpu ? runOnGpu : runOnHost)(program, inputs, outputs);
}

/// Programs that run one after another: each finds what it reads among the inputs and what earlier
/// ones computed, by name.
class Chain {
 public:
  Chain(const Case& numericCase, Where where) : numericCase(numericCase), where(where) {
    const Stage until = where == Where::gpu ? Stage::cubin : Stage::cuda;
    if (!numericCase.chained) {
      programs.push_back(compiled(numericCase, until));
      inputs = programs[0].inputs();
      results = programs[0].outputs();
      return;
    }
    CompileOptions options = optionsOf(numericCase, Stage::module);
    options.backward = false;
    Module function = Module::parse(numericCase.text, numericCase.name);
    Parsed parsed(Program::compile(function, options).text(Stage::module)); // with names
    parsed.differentiate(false);
    const unsigned own = parsed.find().getNumResults();
    Module module = Module::parse(parsed.text(), numericCase.name);
    options.until = until;
    for (const char* suffix : {parsed.find("_forward") ? "_forward" : "", "_backward"}) {
      options.function = parsed.name + suffix;
      programs.push_back(Program::compile(module, options));
    }
    inputs = programs[0].inputs();
    results = programs[0].outputs();
    std::vector<TensorInfo> known = inputs;
    known.insert(known.end(), results.begin(), results.end());
    results.resize(own);
    for (const TensorInfo& info : programs[1].inputs())
      if (std::ranges::find(known, info.name, &TensorInfo::name) == known.end())
        inputs.push_back(info); // gradients that are given
    results.insert(results.end(), programs[1].outputs().begin(), programs[1].outputs().end());
  }

  std::vector<Storage> run(std::vector<Storage>& given) const {
    std::map<std::string, Storage*> there;
    std::deque<std::vector<Storage>> made;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      there[inputs[i].name] = &given[i];
    for (const Program& program : programs) {
      made.push_back(storages(program.outputs(), numericCase));
      Storages from, to;
      for (const TensorInfo& info : program.inputs())
        from.push_back(there.at(info.name));
      for (std::size_t i = 0; i < made.back().size(); ++i)
        to.push_back(there[program.outputs()[i].name] = &made.back()[i]);
      runProgram(program, where, from, to);
    }
    std::vector<Storage> chosen;
    for (const TensorInfo& info : results)
      chosen.push_back(std::move(*there.at(info.name)));
    return chosen;
  }

  std::vector<TensorInfo> inputs, results;

 private:
  const Case& numericCase;
  Where where;
  std::vector<Program> programs;
};

} // namespace

std::string problemsOf(const Case& numericCase, Where where, double disturb) {
  const Chain chain(numericCase, where);
  std::mt19937_64 random(std::hash<std::string>()(numericCase.name));
  std::vector<Storage> inputs = storages(chain.inputs, numericCase);
  std::vector<Tensor64> values;
  std::int64_t terms = 1;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    inputs[i].write(randomValues(chain.inputs[i], inputs[i].sizes(), numericCase, i == 0, random));
    values.push_back(inputs[i].read()); // as stored: repeated elements are one
    terms = std::max(terms, values[i].width() + values[i].rows());
  }
  std::vector<Storage> outputs = chain.run(inputs), again = chain.run(inputs);
  std::vector<Tensor64> exact = reference(numericCase, values);
  std::vector<std::vector<Tensor64>> moved;
  Mover mover{random, numericCase.chained};
  for (int draw = 0; draw < (numericCase.strict == Strict::no ? 3 : 0); ++draw) {
    std::vector<Tensor64> nearby = values;
    for (std::size_t i = 0; i < nearby.size(); ++i)
      if (chain.inputs[i].dtype == DType::f32)
        mover(DType::f32, nearby[i]);
    moved.push_back(reference(numericCase, nearby, &mover));
  }
  std::string problems;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const TensorInfo& info = chain.results[i];
    Allowance allowance(info.dtype, exact[i], moved, i, terms, numericCase.strict);
    problems += compare(info, outputs[i].read(), exact[i], allowance, disturb);
    if (!outputs[i].hasBitsOf(again[i]))
      problems += info.name + ": a second run gave other bits\n";
    if (!outputs[i].isPoisonAround())
      problems += info.name + ": written outside\n";
  }
  return problems;
}

void assemble(const Case& numericCase) {
  compiled(numericCase, Stage::cubin);
}

} // namespace kiln::test
