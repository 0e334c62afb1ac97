// A compiled program over lists, ready to run where tensors lie; one a text and device, for all
// optimizers of the process.
#pragma once

#include "kiln/lists.h"
#include "runtime/Backend.h"

#include <memory>
#include <optional>
#include <string>

namespace kiln::optim {

class ListProgram {
 public:
  ListProgram(const Program& program, runtime::Backend& backend);

  const ListsInfo& lists() const { return program.lists(); }
  std::size_t launches() const { return program.launches(); }
  std::size_t workspaceBytes(std::span<const Buffer> inputs) const;
  void launch(std::span<const Buffer> inputs, std::span<const Buffer> outputs,
              void* workspace) const;

 private:
  Program program;
  runtime::Backend& backend;
  std::optional<Executable> executable; // none on the host
};

/// Compiled at the first call. Throws Error, then and whenever it is asked for again.
std::shared_ptr<const ListProgram> listProgram(const std::string& text, const char* name,
                                               runtime::Backend& backend, int device);

} // namespace kiln::optim
