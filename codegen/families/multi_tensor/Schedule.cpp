// See Schedule.h.
#include "codegen/families/multi_tensor/Schedule.h"

#include "codegen/backend/Fail.h"

#include <algorithm>

namespace kiln::multi_tensor {
namespace {

// Lists have no `older`, so a launch reads nothing ahead.
constexpr std::string_view kLaunches[] = {"plain", "programmatic"};
constexpr Knob kKnobs[] = {{"vector"}, {"chunks"}, {"threads"}, {"blocks"}, {"launch", kLaunches}};

std::string problemOf(const kiln::Schedule& general) {
  const Schedule s = Schedule::of(general);
  if (s.vector < 1 || s.vector > 16 || (s.vector & (s.vector - 1)) != 0)
    return fmt::format("vector = {}: a power of two up to 16 is allowed", s.vector);
  if (s.chunks < 1 || s.chunks > 16)
    return fmt::format("chunks = {}: 1 to 16 chunks a block are allowed", s.chunks);
  if (s.threads < 32 || s.threads > 1024 || s.threads % 32 != 0)
    return fmt::format("threads = {}: a multiple of 32 from 32 to 1024 is allowed", s.threads);
  if (s.blocks < 1 || s.blocks > 32)
    return fmt::format("blocks = {}: 1 to 32 blocks a multiprocessor are allowed", s.blocks);
  return "";
}

} // namespace

constinit const ScheduleForm scheduleForm = {
    .family = "multi_tensor", .knobs = kKnobs, .problemOf = problemOf};

Schedule Schedule::of(const kiln::Schedule& schedule) {
  const auto& v = schedule.values;
  return {v[0], v[1], v[2], v[3], static_cast<Launch>(v[4])};
}

kiln::Schedule Schedule::general() const {
  const auto narrow = [](auto value) { return static_cast<std::int32_t>(value); };
  return {&scheduleForm,
          {narrow(vector), narrow(chunks), narrow(threads), narrow(blocks), narrow(launch)}};
}

Facts together(const std::map<int, Facts>& parts) {
  Facts all{.widestBytes = 1, .narrowestBytes = 16};
  for (const auto& [number, part] : parts) {
    if (part.inputs + part.outputs > all.inputs + all.outputs) {
      all.inputs = part.inputs;
      all.outputs = part.outputs;
    }
    all.bytesRead += part.bytesRead;
    all.mostRead = std::max(all.mostRead, part.bytesRead);
    all.bytesWritten += part.bytesWritten;
    all.widestBytes = std::max(all.widestBytes, part.widestBytes);
    all.narrowestBytes = std::min(all.narrowestBytes, part.widestBytes);
  }
  all.narrowestBytes = std::min(all.narrowestBytes, all.widestBytes);
  all.parts = std::max<int>(static_cast<int>(parts.size()), 1);
  return all;
}

std::vector<Violation> check(const Schedule& s, const Facts& facts, const Target& target) {
  std::vector<Violation> broken;
  auto require = [&](bool holds, const char* rule, std::string message) {
    if (!holds)
      broken.push_back({rule, std::move(message)});
  };
  const std::int64_t longest = vectorOf(s.vector, facts, facts.narrowestBytes);
  require(s.threads * longest <= chunkElements, "threads",
          fmt::format("{} threads of {} elements pass over a chunk of {}", s.threads, longest,
                      chunkElements));
  require(s.threads * s.blocks <= target.threadsPerSM && s.blocks <= target.blocksPerSM, "blocks",
          fmt::format("{} blocks of {} threads asked, {} allows {} blocks and {} threads a "
                      "multiprocessor",
                      s.blocks, s.threads, target.arch, target.blocksPerSM, target.threadsPerSM));
  const std::int64_t registers = std::min<std::int64_t>(
      target.registersPerThread,
      target.registersPerSM / std::max<std::int64_t>(s.threads * s.blocks, 1));
  const int needed = estimatedRegisters(s, facts);
  require(needed <= registers, "registers",
          fmt::format("about {} registers a thread needed for {} lists, {} blocks of {} threads "
                      "leave {} on {}",
                      needed, facts.inputs + facts.outputs, s.blocks, s.threads, registers,
                      target.arch));
  require(s.launch == Launch::plain || target.has.programmaticLaunch, "launch",
          fmt::format("launch = programmatic needs sm_90 or newer, the target is {}", target.arch));
  return broken;
}

int estimatedRegisters(const Schedule& schedule, const Facts& facts) {
  // The vectors that a thread holds, and addresses and numbers that all elements share.
  if (!isResident(facts))
    return 20 + 4 * (facts.inputs + facts.outputs);
  constexpr std::int64_t mostAhead = 64; // as in device/segment.cuh
  const std::int64_t ofChunk = chunkElements * facts.mostRead / (4 * schedule.threads);
  return 32 + static_cast<int>(std::max(ofChunk, std::min(schedule.chunks * ofChunk, mostAhead)));
}

Schedule defaultSchedule(const Facts& facts, const Target& target) {
  if (facts.spilledRegisters >= target.registersPerThread)
    fail(ErrorKind::infeasible,
         "no schedule of the kernel over {} lists fits {}: it spills with {} registers a thread; "
         "divide the function",
         facts.inputs + facts.outputs, target.arch, facts.spilledRegisters);
  Schedule s;
  s.vector = 16 / std::clamp(facts.widestBytes, 1, 16);
  s.threads =
      std::min<std::int64_t>(128, chunkElements / vectorOf(s.vector, facts, facts.narrowestBytes));
  s.chunks = isResident(facts) ? 2 : facts.hasSums ? 4 : 1;
  while (isResident(facts) && estimatedRegisters(s, facts) > 128 &&
         2 * s.threads * vectorOf(s.vector, facts, facts.narrowestBytes) <= chunkElements)
    s.threads *= 2;
  // The assembler hands out registers in steps of 8.
  int registers = std::max(estimatedRegisters(s, facts), facts.spilledRegisters + 8);
  s.blocks = std::min({target.registersPerSM / (int(s.threads) * registers),
                       target.threadsPerSM / int(s.threads), target.blocksPerSM});
  s.blocks = std::max<std::int64_t>(s.blocks, 1);
  s.launch = target.has.programmaticLaunch ? Launch::programmatic : Launch::plain;
  return s;
}

} // namespace kiln::multi_tensor
