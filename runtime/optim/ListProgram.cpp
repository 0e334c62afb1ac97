// See ListProgram.h.
#include "runtime/optim/ListProgram.h"

#include "kiln/cache.h"
#include "runtime/Compiler.h"
#include "runtime/Log.h"

#include <map>
#include <mutex>

namespace kiln::optim {

ListProgram::ListProgram(const Program& program, runtime::Backend& backend)
    : program(program), backend(backend) {
  if (backend.until() == Stage::cubin)
    executable.emplace(program);
}

std::size_t ListProgram::workspaceBytes(std::span<const Buffer> inputs) const {
  return executable ? executable->workspaceBytes(inputs) : 0;
}

void ListProgram::launch(std::span<const Buffer> inputs, std::span<const Buffer> outputs,
                         void* workspace) const {
  if (executable)
    executable->launch(inputs, outputs, workspace, backend.stream());
  else
    program.runOnHost(inputs, outputs);
}

std::shared_ptr<const ListProgram> listProgram(const std::string& text, const char* name,
                                               runtime::Backend& backend, int device) {
  static std::mutex mutex;
  static auto* all = new std::map<std::string, std::shared_ptr<const ListProgram>>;
  std::lock_guard held(mutex);
  auto& program = (*all)[fmt::format("{} {} {}", backend.target(), device, text)];
  if (!program) {
    TuningTask task{Module::parse(text, name), {}, {}, name};
    program = std::make_shared<const ListProgram>(
        runtime::compileNow(std::move(task), backend, device), backend);
    runtime::log("{}: compiled for lists of tensors", name);
  }
  return program;
}

} // namespace kiln::optim
