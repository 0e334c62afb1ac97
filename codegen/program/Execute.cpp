// Running programs: on the host target, and through the driver.
#include "codegen/backend/Executable.h"
#include "codegen/backend/Fail.h"
#include "codegen/backend/Target.h"
#include "codegen/host/HostTarget.h"
#include "codegen/program/State.h"

namespace kiln {

void Program::runOnHost(std::span<const Buffer> inputs, std::span<const Buffer> outputs) const {
  const std::string& text = state().texts[static_cast<int>(Stage::cuda)];
  if (text.empty())
    fail(ErrorKind::input,
         "the program was compiled until '{}' only; the host target runs its "
         "CUDA text",
         name(state().options.until));
  HostProgram(state().plan, text).run(inputs, outputs);
}

std::string deviceArch() {
  const DeviceInfo& device = Driver::get().currentDevice();
  return std::string(targetOfCapability(device.major, device.minor).arch);
}

struct Executable::State {
  LoadedProgram program;
};

Executable::Executable(const Program& program)
    : state_(new State{LoadedProgram(program.state().plan, program.cubin())}) {}

std::size_t Executable::workspaceBytes(std::span<const Buffer> inputs,
                                       std::span<const Buffer> outputs) const {
  return state_->program.workspaceBytes(inputs, outputs);
}
void Executable::launch(std::span<const Buffer> inputs, std::span<const Buffer> outputs,
                        void* workspace, void* stream, const LaunchOptions& options) const {
  state_->program.launch(inputs, outputs, workspace, stream, options);
}
std::size_t Executable::workspaceBytes(std::span<const std::int64_t> sizes) const {
  return state_->program.workspaceBytes(sizes);
}
void Executable::launch(std::span<const std::int64_t> sizes, std::span<void* const> pointers,
                        void* workspace, void* stream, const LaunchOptions& options) const {
  state_->program.launch(sizes, pointers, workspace, stream, options);
}

} // namespace kiln
