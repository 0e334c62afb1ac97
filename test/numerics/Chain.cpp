// See Chain.h.
#include "test/numerics/Chain.h"

#include "codegen/backend/Target.h"
#include "codegen/family/Family.h"
#include "codegen/passes/Passes.h"
#include "dialect/Kiln.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <algorithm>
#include <deque>
#include <map>

namespace kiln::test {
namespace {

/// The target of the GPU that is there, or the usual one.
std::string arch() {
  if (!whyNoGpu().empty())
    return CompileOptions().arch;
  const DeviceInfo& device = Driver::get().currentDevice();
  return std::string(targetOfCapability(device.major, device.minor).arch);
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
  DeviceBuffer workspace(std::max<std::size_t>(executable.workspaceBytes(from, to), 256));
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

} // namespace

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

Parsed::Parsed(const std::string& source) {
  mlir::DialectRegistry registry;
  family::registerDialects(registry);
  context.appendDialectRegistry(registry);
  module = mlir::parseSourceString<mlir::ModuleOp>(source, &context);
  name = (*module->getOps<mlir::func::FuncOp>().begin()).getName().str();
}

void Parsed::differentiate(bool together) {
  passes::DifferentiateOptions options;
  options.together = together;
  mlir::PassManager manager(&context);
  manager.addPass(passes::createDifferentiate(options));
  if (failed(manager.run(*module)))
    throw Error(ErrorKind::input, "no backward of " + name);
}

mlir::func::FuncOp Parsed::find(const char* suffix) {
  return module->lookupSymbol<mlir::func::FuncOp>(name + suffix);
}

mlir::func::FuncOp Parsed::whatIsComputed(const Case& numericCase) {
  if (!numericCase.backward)
    return find();
  differentiate(numericCase.chained);
  return find(numericCase.chained ? "_with_gradient" : "_backward");
}

std::string Parsed::text() {
  std::string text;
  llvm::raw_string_ostream out(text);
  module->print(out);
  return text;
}

Functions functionsOf(const Case& numericCase) {
  CompileOptions options = optionsOf(numericCase, Stage::module);
  options.backward = false;
  Module function = Module::parse(numericCase.text, numericCase.name);
  Parsed parsed(Program::compile(function, options).text(Stage::module)); // with names
  parsed.differentiate(false);
  const std::string forward = parsed.find("_forward") ? "_forward" : "";
  return {Module::parse(parsed.text(), numericCase.name),
          {parsed.name + forward, parsed.name + "_backward"},
          parsed.find().getNumResults()};
}

Chain::Chain(const Case& numericCase, Where where) : numericCase(numericCase), where(where) {
  const Stage until = where == Where::gpu ? Stage::cubin : Stage::cuda;
  if (!numericCase.chained) {
    programs.push_back(compiled(numericCase, until));
    inputs = programs[0].inputs();
    results = programs[0].outputs();
    return;
  }
  const Functions functions = functionsOf(numericCase);
  CompileOptions options = optionsOf(numericCase, until);
  options.backward = false;
  for (const std::string& name : functions.names) {
    options.function = name;
    programs.push_back(Program::compile(functions.module, options));
    if (!numericCase.scheduleOfBackward.empty())
      options.schedule = numericCase.scheduleOfBackward;
  }
  inputs = programs[0].inputs();
  results = programs[0].outputs();
  std::vector<TensorInfo> known = inputs;
  known.insert(known.end(), results.begin(), results.end());
  results.resize(functions.results);
  for (const TensorInfo& info : programs[1].inputs())
    if (std::ranges::find(known, info.name, &TensorInfo::name) == known.end())
      inputs.push_back(info); // gradients that are given
  results.insert(results.end(), programs[1].outputs().begin(), programs[1].outputs().end());
}

std::vector<Storage> Chain::storages(const std::vector<TensorInfo>& tensors) const {
  std::vector<Storage> made;
  for (const TensorInfo& info : tensors) {
    auto given = numericCase.strides.find(info.name);
    made.emplace_back(info, numericCase.sizes,
                      given == numericCase.strides.end() ? std::vector<std::int64_t>()
                                                         : given->second);
  }
  return made;
}

std::vector<Storage> Chain::run(std::vector<Storage>& given) const {
  std::map<std::string, Storage*> there;
  std::deque<std::vector<Storage>> made;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    there[inputs[i].name] = &given[i];
  for (const Program& program : programs) {
    made.push_back(storages(program.outputs()));
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

} // namespace kiln::test
