// A worker of the tuner that compiles as one on a GPU does, so that what it makes can be stored and
// launched, and simulates what would run on it: a kernel takes as long, or breaks, as its schedule
// says.
//   tuner_worker SIMULATION.json gpu
// What it is asked for is added to SIMULATION.json.calls, a line each. While SIMULATION.json.hold
// is there, nothing is verified.
#include "autotune/measure/Worker.h"
#include "autotune/simulate/SimulatedDevice.h"
#include "autotune/store/Sha256.h"
#include "kiln/files.h"

#include <filesystem>
#include <fstream>
#include <thread>

using namespace kiln;
using namespace kiln::autotune;

namespace {

constexpr double kMicroseconds = 50; // of all kernels, before the simulation makes them differ

class HalfSimulated final : public Device {
 public:
  explicit HalfSimulated(const std::string& file)
      : file(file), inner(simulationOf(Json::parse(readFile(file)))) {}

  void begin(const Task& next) override { task = next; }

  Compiled compile(const Proposal& proposal) override {
    note("compile");
    CompileOptions options;
    options.arch = task.arch;
    options.nvrtc = task.nvrtc;
    options.schedule = proposal.schedule;
    const Program program = Program::compile(Module::parse(task.module, "<task>"), options);
    Artifact artifact;
    artifact.cubin.assign(program.cubin().begin(), program.cubin().end());
    artifact.sha256 = sha256(artifact.cubin);
    artifact.plan = program.launchPlan();
    artifact.registers = program.kernels()[0].usage.registers;
    return artifact;
  }

  Check verify(const Artifact& artifact, std::uint64_t seed) override {
    note("verify");
    while (std::filesystem::exists(file + ".hold"))
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    Check check = inner.verify(simulated(artifact), seed);
    check.verdict.cubin = artifact.sha256;
    return check;
  }

  Batch time(std::span<const Artifact* const> kernels, std::size_t rounds) override {
    note("time");
    std::vector<Artifact> stand;
    stand.reserve(kernels.size());
    std::vector<const Artifact*> list;
    for (const Artifact* artifact : kernels)
      list.push_back(artifact ? &stand.emplace_back(simulated(*artifact)) : nullptr);
    return inner.time(list, rounds);
  }

  Conditions conditions() override { return inner.conditions(); }

 private:
  void note(const char* call) const {
    std::ofstream(file + ".calls", std::ios::app) << call << "\n";
  }

  /// What the simulation has for the kernel's schedule.
  Artifact simulated(const Artifact& artifact) {
    const Program program = Program::load(artifact.plan, artifact.cubin);
    return std::get<Artifact>(inner.compile({program.kernels()[0].schedule, kMicroseconds}));
  }

  std::string file;
  SimulatedDevice inner;
  Task task;
};

} // namespace

int main(int argc, char** argv) {
  if (argc != 3)
    return 2;
  return serve([&] { return std::make_unique<HalfSimulated>(argv[1]); });
}
