// kiln::profile::Profiler over Kineto's C++ side.
#include "kiln/profile.h"
#include "runtime/profile/Device.h"
#include "runtime/profile/Tables.h"

#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <kineto/ActivityType.h>
#include <ostream>
#include <torch/csrc/autograd/profiler_kineto.h>

namespace kiln::profile {

namespace tap = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;

Phase phaseOf(const Schedule& schedule, std::int64_t step) {
  const std::int64_t cycle = schedule.wait + schedule.warmup + schedule.active;
  if (schedule.repeat > 0 && step >= cycle * schedule.repeat)
    return Phase::idle;
  const std::int64_t at = step % cycle;
  return at < schedule.wait                     ? Phase::idle
         : at < schedule.wait + schedule.warmup ? Phase::warmup
                                                : Phase::active;
}

namespace {

std::string shapesOf(const tap::KinetoEvent& event) {
  if (!event.hasShapes())
    return "";
  std::vector<std::string> all;
  for (const std::vector<std::int64_t>& shape : event.shapes())
    all.push_back(fmt::format("[{}]", fmt::join(shape, ", ")));
  return fmt::format("{}", fmt::join(all, " "));
}

/// Ranges are on the CPU; what Kineto draws for them on the device would count kernels twice.
bool isDrawnTwice(const tap::KinetoEvent& event) {
  const auto type = static_cast<libkineto::ActivityType>(event.activityType());
  return event.deviceType() != c10::DeviceType::CPU &&
         (type == libkineto::ActivityType::GPU_USER_ANNOTATION ||
          type == libkineto::ActivityType::USER_ANNOTATION);
}

bool isCall(const tap::KinetoEvent& event) {
  const auto type = static_cast<libkineto::ActivityType>(event.activityType());
  return type == libkineto::ActivityType::CUDA_RUNTIME ||
         type == libkineto::ActivityType::CUDA_DRIVER;
}

std::string deviceOf(const tap::KinetoEvent& event) {
  return event.deviceType() == c10::DeviceType::CPU
             ? "cpu"
             : fmt::format("{}:{}", c10::DeviceTypeName(event.deviceType(), /*lower_case=*/true),
                           event.deviceIndex());
}

std::vector<Event> eventsOf(const tap::ProfilerResult& result) {
  std::vector<Event> events;
  const auto begin = static_cast<std::int64_t>(result.trace_start_ns());
  for (const tap::KinetoEvent& event : result.events()) {
    if (isDrawnTwice(event) || event.isHiddenEvent() || event.isAsync())
      continue;
    const bool isMemory = event.name() == "[memory]";
    const bool isCpu = event.deviceType() == c10::DeviceType::CPU;
    Event& plain = events.emplace_back();
    plain.kind = isMemory ? Event::Kind::memory : isCpu ? Event::Kind::cpu : Event::Kind::device;
    plain.name = event.name();
    plain.shapes = shapesOf(event);
    plain.device = deviceOf(event);
    plain.thread = static_cast<std::uint64_t>(event.deviceResourceId()); // the system's
    plain.beginNs = static_cast<std::int64_t>(event.startNs()) - begin;
    plain.endNs = plain.beginNs + static_cast<std::int64_t>(event.durationNs());
    // Ops count by themselves; calls of the driver and kernels as CUPTI does, and name their op.
    const bool isOp = isCpu && !isCall(event);
    plain.op = isOp ? event.correlationId() : event.linkedCorrelationId();
    plain.call = isOp || isMemory ? 0 : event.correlationId();
    plain.bytes = isMemory ? event.nBytes() : 0;
    plain.flops = static_cast<std::int64_t>(event.flops());
  }
  return events;
}

} // namespace

struct Profiler::State {
  ProfilerOptions options;
  std::int64_t stepCount = 0;
  Phase phase = Phase::idle; // of the current step
  bool running = false;
  std::unique_ptr<tap::ProfilerResult> result{};
  std::vector<Event> events{};
  std::filesystem::path written{}; // the trace of `result`

  torch::profiler::impl::ProfilerConfig config() const {
    return torch::profiler::impl::ProfilerConfig(torch::profiler::impl::ProfilerState::KINETO,
                                                 options.shapes, options.memory,
                                                 /*with_stack=*/false, options.flops);
  }
  static std::set<ActivityType> activities() {
    std::set<ActivityType> all = {ActivityType::CPU};
    if (hasDevices())
      all.insert(ActivityType::CUDA);
    return all;
  }

  /// Kineto is prepared for a warm-up, and records what follows.
  void enter(Phase next) {
    if (phase == next)
      return;
    if (phase == Phase::idle)
      tap::prepareProfiler(config(), activities());
    if (next == Phase::active)
      tap::enableProfiler(config(), activities());
    phase = next;
  }
  /// Ends the active steps; `keeps`: whether what they recorded counts.
  void leave(Profiler& profiler) {
    waitForDevices();
    result = tap::disableProfiler();
    events = eventsOf(*result);
    written.clear();
    phase = Phase::idle;
    if (options.onRecorded)
      options.onRecorded(profiler);
  }
  const std::vector<Event>& recorded() const {
    if (!result)
      throw Error(
          ErrorKind::input,
          fmt::format("profiler: nothing is recorded yet; {} of {} steps of wait and warm-up "
                      "and {} active ones are done, then stop() or step() ends them",
                      stepCount, options.schedule.wait + options.schedule.warmup,
                      options.schedule.active));
    return events;
  }
};

Profiler::Profiler(const ProfilerOptions& options) : state_(new State{.options = options}) {
  const Schedule& s = options.schedule;
  if (s.wait < 0 || s.warmup < 0 || s.active < 1 || s.repeat < 0)
    throw Error(
        ErrorKind::input,
        fmt::format("profiler: wait = {}, warmup = {}, active = {}, repeat = {}; active is 1 "
                    "or more, the others 0 or more",
                    s.wait, s.warmup, s.active, s.repeat));
}
Profiler::~Profiler() {
  if (state_ && state_->running && state_->phase == Phase::active)
    tap::disableProfiler();
}
Profiler::Profiler(Profiler&&) noexcept = default;
Profiler& Profiler::operator=(Profiler&&) noexcept = default;

void Profiler::start() {
  if (state_->running || torch::profiler::impl::profilerEnabled())
    throw Error(ErrorKind::input,
                "profiler: start() while one is on in this thread; stop it first");
  state_->running = true;
  state_->stepCount = 0;
  state_->enter(phaseOf(state_->options.schedule, 0));
}

void Profiler::step() {
  if (!state_->running)
    throw Error(ErrorKind::input, "profiler: step() without start(), or behind stop()");
  const Schedule& schedule = state_->options.schedule;
  const std::int64_t next = ++state_->stepCount;
  const Phase phase = phaseOf(schedule, next);
  const std::int64_t cycle = schedule.wait + schedule.warmup + schedule.active;
  if (state_->phase == Phase::active && (phase != Phase::active || next % cycle == 0))
    state_->leave(*this);
  state_->enter(phase);
}

void Profiler::stop() {
  if (!state_->running)
    return;
  state_->running = false;
  if (state_->phase == Phase::active)
    state_->leave(*this);
  state_->phase = Phase::idle;
}

std::vector<Row> Profiler::ops(bool byShape) const {
  return rowsOfOps(state_->recorded(), byShape);
}
std::vector<Row> Profiler::kernels() const {
  return rowsOfKernels(state_->recorded());
}
Memory Profiler::memory() const {
  return memoryOf(state_->recorded());
}

void Profiler::printTopTables(std::ostream& out, std::size_t rows) const {
  const std::vector<Row> all = ops(), launched = kernels();
  const By by = launched.empty() ? By::cpu : By::device;
  if (by == By::device)
    out << tableOf("ops by the device's time", all, by, rows) << '\n'
        << tableOf("kernels by their time", launched, by, rows) << '\n';
  out << tableOf("ops by input shapes", ops(/*byShape=*/true), by, rows) << '\n'
      << tableOf("ops by the CPU's time", all, By::cpu, rows);
}

void Profiler::printMemory(std::ostream& out, std::size_t rows) const {
  const Memory all = memory();
  for (const MemoryEvent& peak : all.peaks) {
    out << fmt::format("{}: peak {:.1f} MiB above the start, at {:.1f} ms, reached in {}\n",
                       peak.device, static_cast<double>(peak.held) / 1048576, peak.micros / 1000,
                       peak.stack.empty() ? "no op" : peak.stack);
    std::vector<MemoryEvent> largest;
    for (const MemoryEvent& event : all.timeline)
      if (event.device == peak.device && event.bytes > 0 && event.micros <= peak.micros)
        largest.push_back(event);
    std::ranges::stable_sort(largest, std::greater(), &MemoryEvent::bytes);
    largest.resize(std::min(largest.size(), rows));
    for (const MemoryEvent& event : largest)
      out << fmt::format("  {:>14} bytes at {:>10.1f} ms  {}\n", event.bytes, event.micros / 1000,
                         event.stack);
  }
}

std::filesystem::path Profiler::exportTrace(const std::filesystem::path& file) {
  State& state = *state_;
  state.recorded();
  if (!state.written.empty())
    return state.written;
  if (file.has_parent_path() && !std::filesystem::is_directory(file.parent_path()))
    throw Error(ErrorKind::io, fmt::format("trace '{}': there is no folder '{}'; make it first",
                                           file.string(), file.parent_path().string()));
  state.result->save(file.string());
  if (!std::filesystem::exists(file))
    throw Error(ErrorKind::io,
                fmt::format("trace '{}': could not be written; name a file in a folder that may be "
                            "written",
                            file.string()));
  return state.written = file;
}

Profiler makeProfiler(const ProfilerOptions& options) {
  return Profiler(options);
}

} // namespace kiln::profile
