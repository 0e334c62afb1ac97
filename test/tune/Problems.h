// Problems, devices and shorthands that the tests of the search share.
#pragma once

#include "autotune/measure/Worker.h"
#include "autotune/search/Search.h"
#include "autotune/simulate/SimulatedDevice.h"
#include "codegen/families/rows/Model.h"
#include "test/tune/MemoryJournal.h"

#include <atomic>

namespace kiln::autotune::test {

inline rows::Facts layerNormFacts(std::int64_t width) {
  rows::Facts facts;
  facts.width = width;
  facts.rows = 65536;
  facts.inputs = {{2, 8}};
  facts.outputs = {{2, 8}};
  facts.columns = {{4, 4}, {4, 4}};
  facts.columnsPass = 1;
  facts.reductions = 2;
  facts.widestExchange = 2;
  facts.passes = 2;
  facts.operations = 10;
  facts.packed = facts.dense = true;
  return facts;
}

/// The space of a problem of one kernel.
inline std::vector<Candidate>& spaceOf(Problem& problem) {
  return problem.spaces.at(0).feasible;
}

/// The `count` cheapest schedules of a LayerNorm; 0: all.
inline Problem problemOf(std::int64_t width = 128, std::size_t count = 0) {
  const Target& target = findTarget("sm_90a");
  rows::Facts facts = layerNormFacts(width);
  Problem problem;
  problem.key.function = "layer_norm";
  problem.key.tensors = std::to_string(width);
  problem.key.arch = "sm_90a";
  problem.label = "layer_norm 65536x" + std::to_string(width);
  const auto model = std::make_shared<rows::Model>(facts, 65536);
  problem.spaces = {
      {"kiln_layer_norm", model, model->space(target, model::Listing::likely).feasible, 0, {}}};
  if (count > 0 && spaceOf(problem).size() > count)
    spaceOf(problem).resize(count);
  problem.bytes = facts.bytes(65536);
  problem.roofline = problem.bytes / (target.memoryGBs * 1e3);
  return problem;
}

inline std::string scheduleAt(const Problem& problem, std::size_t place) {
  return toText(problem.spaces.at(0).feasible.at(place).schedule);
}

/// A simulation in which every schedule takes what the model says.
inline Simulation exact() {
  Simulation simulation;
  simulation.bias = 0;
  return simulation;
}

inline DeviceFactory inProcess(const Simulation& simulation) {
  return [simulation] { return std::make_unique<SimulatedDevice>(simulation); };
}

inline DeviceFactory inWorker(const Simulation& simulation) {
  WorkerOptions options;
  options.command = {"/proc/self/exe", "--worker", toJson(simulation).dump()};
  options.verify = options.time = std::chrono::milliseconds(3000);
  return [options] { return std::make_unique<Worker>(options); };
}

inline SearchOptions quiet() {
  SearchOptions options;
  options.compilers = 2;
  options.throttlePause = 0.001;
  return options;
}

/// Neither the roofline nor the model ends the search.
inline SearchOptions thorough() {
  SearchOptions options = quiet();
  options.rooflineShare = 10;
  options.modelDeviations = 1000;
  return options;
}

inline Result tuneOne(const Problem& problem, Journal& journal, const Simulation& simulation,
                      const SearchOptions& options = quiet()) {
  return tune({&problem, 1}, journal, inProcess(simulation), inProcess(simulation), options).at(0);
}

} // namespace kiln::autotune::test
