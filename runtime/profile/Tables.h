// What a profile says, from its plain events: who called whom, averages, tables, memory. Pure.
#pragma once

#include "kiln/profile.h"

#include <span>

namespace kiln::profile {

/// One event of a profile. On the CPU: an op, a range, a call of the driver; an allocation has
/// `bytes`. On a device: a kernel, copy or fill.
struct Event {
  enum class Kind { cpu, device, memory } kind = Kind::cpu;
  std::string name, shapes, device;
  std::uint64_t thread = 0;
  std::int64_t beginNs = 0, endNs = 0; // since the records begin
  std::uint64_t op = 0;                // a number of each op; of a kernel, that of its op; 0: none
  std::uint64_t call = 0;              // the same of calls of the driver and what they launched
  std::int64_t bytes = 0, flops = 0;
};

/// The event of the CPU right around each event of the same thread, by index; -1: none.
std::vector<std::ptrdiff_t> parentsOf(std::span<const Event> events);

std::vector<Row> rowsOfOps(std::span<const Event> events, bool byShape);
std::vector<Row> rowsOfKernels(std::span<const Event> events);
Memory memoryOf(std::span<const Event> events);

enum class By { device, cpu };
std::string tableOf(const std::string& title, std::vector<Row> rows, By by, std::size_t count);

} // namespace kiln::profile
