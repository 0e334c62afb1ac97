// See Plan.h.
#include "runtime/Plan.h"

#include "runtime/Route.h"
#include "runtime/Site.h"

#include <algorithm>
#include <fmt/format.h>

namespace kiln::runtime {

Plan::Plan(Site& site, const Key& key, std::vector<std::int64_t> sizes)
    : Order(site.backend, key.device), site(site), key(key), firstSizes(std::move(sizes)) {}

OrderText Plan::text() const {
  const Route& route = site.route;
  RouteText text = route.text(key);
  return {std::move(text.module),
          std::move(text.function),
          route.backward,
          fmt::format("{} {}", route.name, labelOf(route, key, firstSizes)),
          firstSizes,
          route.onlyChosen,
          route.usual ? route.usual(key, firstSizes) : std::vector<std::int64_t>()};
}

void Plan::accept(const Kernel& made) {
  slots = slotsOf(made.inputs, made.outputs, site.route);
}

std::vector<std::uint8_t> slotsOf(const std::vector<TensorInfo>& inputs,
                                  const std::vector<TensorInfo>& outputs, const Route& route) {
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
  add(inputs, route.operands, 0);
  add(outputs, route.results, route.operands.size());
  return slots;
}

} // namespace kiln::runtime
