// What is known of one key of a routed op: its kernel when there is one, and how often it was
// called.
#pragma once

#include "runtime/Key.h"
#include "runtime/Order.h"

namespace kiln::runtime {

class Site;

struct Plan final : Order {
  Plan(Site& site, const Key& key, std::vector<std::int64_t> sizes);

  OrderText text() const override;
  void accept(const Kernel& made) override;

  Site& site;
  const Key key;
  const std::vector<std::int64_t> firstSizes;   // of the first call
  std::vector<std::uint8_t> slots;              // of the route, in the kernel's order
  std::atomic<std::uint64_t> used = 0;          // calls that ran it
  std::atomic<std::uint64_t> missed = 0;        // calls before it was there, or without it
  std::atomic<std::uint64_t> missedInGraph = 0; // those of them that were being captured
  std::atomic<std::uint64_t> verified = 0, differed = 0;
};

/// Which slot of a route each tensor of a kernel is, inputs first. Throws Error(input) for a name
/// that the route does not have.
struct Route;
std::vector<std::uint8_t> slotsOf(const std::vector<TensorInfo>& inputs,
                                  const std::vector<TensorInfo>& outputs, const Route& route);

} // namespace kiln::runtime
