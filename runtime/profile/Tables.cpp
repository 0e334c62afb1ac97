// See Tables.h.
#include "runtime/profile/Tables.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <numeric>
#include <unordered_map>

namespace kiln::profile {

namespace {

double micros(std::int64_t ns) {
  return static_cast<double>(ns) / 1000;
}

/// Averages by name, or by name and shapes.
class Rows {
 public:
  explicit Rows(bool byShape) : byShape(byShape) {}
  Row& of(const Event& event) {
    Row& row = rows[{event.name, byShape ? event.shapes : ""}];
    if (row.name.empty()) {
      row.name = event.name;
      row.shapes = byShape ? event.shapes : "";
    }
    return row;
  }
  std::vector<Row> sorted(bool byDevice) const {
    std::vector<Row> all;
    for (const auto& [key, row] : rows)
      all.push_back(row);
    std::ranges::stable_sort(all, std::greater(), [&](const Row& row) {
      return byDevice ? row.selfDeviceMicros : row.selfCpuMicros;
    });
    return all;
  }

 private:
  bool byShape;
  std::map<std::pair<std::string, std::string>, Row> rows;
};

std::string stackOf(std::span<const Event> events, std::span<const std::ptrdiff_t> parents,
                    std::size_t index) {
  std::string stack;
  for (std::ptrdiff_t at = parents[index]; at >= 0; at = parents[static_cast<std::size_t>(at)]) {
    const std::string& name = events[static_cast<std::size_t>(at)].name;
    stack = stack.empty() ? name : name + " > " + stack;
  }
  return stack;
}

} // namespace

std::vector<std::ptrdiff_t> parentsOf(std::span<const Event> events) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < events.size(); ++i)
    if (events[i].kind != Event::Kind::device)
      order.push_back(i);
  // Outer ones first where several begin at once; what happened in no time, last.
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    const Event &x = events[a], &y = events[b];
    return std::tuple(x.thread, x.beginNs, -x.endNs) < std::tuple(y.thread, y.beginNs, -y.endNs);
  });
  std::vector<std::ptrdiff_t> parents(events.size(), -1);
  std::vector<std::size_t> open;
  for (std::size_t i : order) {
    const Event& event = events[i];
    auto isAround = [&](const Event& outer) {
      return outer.thread == event.thread && outer.endNs >= event.endNs;
    };
    while (!open.empty() && !isAround(events[open.back()]))
      open.pop_back();
    if (!open.empty())
      parents[i] = static_cast<std::ptrdiff_t>(open.back());
    if (event.kind == Event::Kind::cpu)
      open.push_back(i);
  }
  return parents;
}

namespace {

/// The op, range or call of the driver that each kernel counts for, by index; -1: none. Kineto
/// names the op if there is one; what is launched in a range alone is found by the call that did
/// it.
std::vector<std::ptrdiff_t> launchersOf(std::span<const Event> events) {
  std::unordered_map<std::uint64_t, std::ptrdiff_t> ops, calls;
  for (std::size_t i = 0; i < events.size(); ++i)
    if (const Event& event = events[i]; event.kind == Event::Kind::cpu) {
      const auto index = static_cast<std::ptrdiff_t>(i);
      if (event.call != 0)
        calls.emplace(event.call, index);
      else if (event.op != 0)
        ops.emplace(event.op, index);
    }
  std::vector<std::ptrdiff_t> launchers(events.size(), -1);
  for (std::size_t i = 0; i < events.size(); ++i)
    if (const Event& event = events[i]; event.kind == Event::Kind::device) {
      if (const auto op = ops.find(event.op); op != ops.end())
        launchers[i] = op->second;
      else if (const auto call = calls.find(event.call); call != calls.end())
        launchers[i] = call->second;
    }
  return launchers;
}

} // namespace

std::vector<Row> rowsOfOps(std::span<const Event> events, bool byShape) {
  const auto parents = parentsOf(events), launchers = launchersOf(events);
  std::vector<std::int64_t> selfCpu(events.size()), selfDevice(events.size()),
      device(events.size());
  bool hasDevice = false;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const std::int64_t ns = events[i].endNs - events[i].beginNs;
    if (events[i].kind == Event::Kind::cpu) {
      selfCpu[i] += ns;
      if (parents[i] >= 0)
        selfCpu[static_cast<std::size_t>(parents[i])] -= ns;
    } else if (events[i].kind == Event::Kind::device) {
      hasDevice = true;
      if (launchers[i] >= 0)
        selfDevice[static_cast<std::size_t>(launchers[i])] += ns;
      for (auto at = launchers[i]; at >= 0; at = parents[static_cast<std::size_t>(at)])
        device[static_cast<std::size_t>(at)] += ns;
    }
  }
  Rows rows(byShape);
  for (std::size_t i = 0; i < events.size(); ++i)
    if (const Event& event = events[i]; event.kind == Event::Kind::cpu) {
      Row& row = rows.of(event);
      ++row.calls;
      row.cpuMicros += micros(event.endNs - event.beginNs);
      row.selfCpuMicros += micros(selfCpu[i]);
      row.deviceMicros += micros(device[i]);
      row.selfDeviceMicros += micros(selfDevice[i]);
      row.flops += event.flops;
    }
  return rows.sorted(hasDevice);
}

std::vector<Row> rowsOfKernels(std::span<const Event> events) {
  Rows rows(false);
  for (const Event& event : events)
    if (event.kind == Event::Kind::device) {
      Row& row = rows.of(event);
      ++row.calls;
      row.selfDeviceMicros += micros(event.endNs - event.beginNs);
      row.deviceMicros = row.selfDeviceMicros;
    }
  return rows.sorted(true);
}

Memory memoryOf(std::span<const Event> events) {
  const auto parents = parentsOf(events);
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < events.size(); ++i)
    if (events[i].kind == Event::Kind::memory)
      order.push_back(i);
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return events[i].beginNs; });
  Memory memory;
  std::map<std::string, std::int64_t> held;
  std::map<std::string, MemoryEvent> peaks;
  for (std::size_t i : order) {
    const Event& event = events[i];
    std::int64_t& now = held[event.device];
    now += event.bytes;
    memory.timeline.push_back(
        {micros(event.beginNs), event.device, event.bytes, now, stackOf(events, parents, i)});
    MemoryEvent& peak = peaks[event.device];
    if (peak.device.empty() || now > peak.held)
      peak = memory.timeline.back();
  }
  for (auto& [device, peak] : peaks)
    memory.peaks.push_back(std::move(peak));
  return memory;
}

std::string tableOf(const std::string& title, std::vector<Row> rows, By by, std::size_t count) {
  auto self = [&](const Row& row) {
    return by == By::device ? row.selfDeviceMicros : row.selfCpuMicros;
  };
  std::ranges::stable_sort(rows, std::greater(), self);
  const double cpu = std::accumulate(rows.begin(), rows.end(), 0.0, [](double sum, const Row& row) {
    return sum + row.selfCpuMicros;
  });
  const double device =
      std::accumulate(rows.begin(), rows.end(), 0.0,
                      [](double sum, const Row& row) { return sum + row.selfDeviceMicros; });
  const double all = by == By::device ? device : cpu;
  auto cell = [](double value) { return value > 0 ? fmt::format("{:.1f}", value) : "-"; };
  std::string text =
      fmt::format("{}\n{:<48} {:>7} {:>12} {:>12} {:>12} {:>12} {:>8}  {}\n", title, "name",
                  "share", "self cpu us", "cpu us", "self dev us", "dev us", "calls", "shapes");
  for (std::size_t i = 0; i < std::min(count, rows.size()); ++i) {
    const Row& row = rows[i];
    std::string name = row.name.size() > 48 ? row.name.substr(0, 45) + "..." : row.name;
    text += fmt::format("{:<48} {:>6.2f}% {:>12} {:>12} {:>12} {:>12} {:>8}  {}", name,
                        all > 0 ? 100 * self(row) / all : 0, cell(row.selfCpuMicros),
                        cell(row.cpuMicros), cell(row.selfDeviceMicros), cell(row.deviceMicros),
                        row.calls, row.shapes);
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  if (rows.size() > count)
    text += fmt::format("and {} more\n", rows.size() - count);
  if (cpu > 0)
    text += fmt::format("self cpu time total: {:.3f} ms\n", cpu / 1000);
  if (device > 0)
    text += fmt::format("self device time total: {:.3f} ms\n", device / 1000);
  return text;
}

} // namespace kiln::profile
