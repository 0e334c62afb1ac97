// See ListProgram.h.
#include "runtime/optim/ListProgram.h"

#include "kiln/cache.h"
#include "runtime/Compiler.h"

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
  if (!program)
    program = std::make_shared<const ListProgram>(
        runtime::compileNow({Module::parse(text, name), {}, {}, name}, backend, device), backend);
  return program;
}

} // namespace kiln::optim
