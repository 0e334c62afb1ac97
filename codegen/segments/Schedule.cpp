// See Schedule.h.
#include "codegen/segments/Schedule.h"

#include "codegen/backend/Fail.h"

#include <algorithm>

namespace kiln::segments {

Facts together(const std::map<int, Facts>& parts) {
  Facts all{.widestBytes = 1, .narrowestBytes = 16};
  for (const auto& [number, part] : parts) {
    if (part.inputs + part.outputs > all.inputs + all.outputs) {
      all.inputs = part.inputs;
      all.outputs = part.outputs;
    }
    all.bytesRead += part.bytesRead;
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
  require(
      s.lanes == s.threads, "lanes",
      fmt::format("lanes = {} and threads = {}; all threads of a block share a chunk of a list, "
                  "so they are equal",
                  s.lanes, s.threads));
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
  require(estimatedRegisters(facts) <= registers, "registers",
          fmt::format("about {} registers a thread needed for {} lists, {} blocks of {} threads "
                      "leave {} on {}",
                      estimatedRegisters(facts), facts.inputs + facts.outputs, s.blocks, s.threads,
                      registers, target.arch));
  require(s.grid == rows::Grid::oneShot && s.keep == rows::Keep::registers &&
              s.columns == rows::Columns::global,
          "grid", "kernels over lists have grid = one_shot, keep = registers and no columns");
  require(s.launch == rows::Launch::plain || target.maxCluster > 1, "launch",
          fmt::format("launch = programmatic needs sm_90 or newer, the target is {}", target.arch));
  return broken;
}

int estimatedRegisters(const Facts& facts) {
  // The vectors that a thread holds, and addresses and numbers that all elements share.
  return 20 + 4 * (facts.inputs + facts.outputs);
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
      std::min<std::int64_t>(facts.outputs > 0 ? 128 : 256,
                             chunkElements / vectorOf(s.vector, facts, facts.narrowestBytes));
  s.lanes = s.threads;
  s.rows = facts.outputs > 0 ? 1 : 8;
  // The assembler hands out registers in steps of 8.
  int registers = std::max(estimatedRegisters(facts), facts.spilledRegisters + 8);
  s.blocks = std::min({target.registersPerSM / (int(s.threads) * registers),
                       target.threadsPerSM / int(s.threads), target.blocksPerSM});
  s.blocks = std::max<std::int64_t>(s.blocks, 1);
  s.launch = target.maxCluster > 1 ? rows::Launch::programmatic : rows::Launch::plain;
  return s;
}

} // namespace kiln::segments
