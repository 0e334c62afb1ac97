// The names of a program's tensors, for people and as slots of a route; once a kernel.
#include "runtime/Backend.h"
#include "runtime/Route.h"

#include <algorithm>
#include <fmt/format.h>

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

Kernel::Kernel(const Program& program) : arguments(argumentsOf(program)) {}

std::vector<std::uint8_t> slotsOf(const Program& program, const Route& route) {
  std::vector<std::uint8_t> slots;
  auto add = [&](const std::vector<TensorInfo>& tensors, std::span<const char* const> names,
                 std::size_t firstSlot) {
    for (const TensorInfo& tensor : tensors) {
      const auto found = std::ranges::find(names, std::string_view(tensor.name),
                                           [](const char* name) { return std::string_view(name); });
      if (found == names.end())
        throw Error(ErrorKind::input,
                    fmt::format("{}: the program has a tensor '{}', the route has "
                                "no operand or result of that name",
                                route.name, tensor.name));
      slots.push_back(
          static_cast<std::uint8_t>(firstSlot + static_cast<std::size_t>(found - names.begin())));
    }
  };
  add(program.inputs(), route.operands, 0);
  add(program.outputs(), route.results, route.operands.size());
  return slots;
}

} // namespace kiln::runtime
