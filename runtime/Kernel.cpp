// A kernel's names for people.
#include "runtime/Backend.h"

namespace kiln::runtime {

static std::string argumentsOf(const Program& program) {
  std::string text;
  auto add = [&](const std::vector<TensorInfo>& tensors) {
    for (const TensorInfo& tensor : tensors)
      text += (&tensor == tensors.data() ? "" : ", ") + tensor.name;
  };
  add(program.inputs());
  text += " -> ";
  add(program.outputs());
  return text;
}

Kernel::Kernel(const Program& program)
    : arguments(argumentsOf(program)), inputs(program.inputs()), outputs(program.outputs()),
      launches(program.launches()) {}

} // namespace kiln::runtime
