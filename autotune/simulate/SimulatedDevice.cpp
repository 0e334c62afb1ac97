// See SimulatedDevice.h.
#include "autotune/simulate/SimulatedDevice.h"

#include "autotune/store/Sha256.h"
#include "codegen/backend/Fail.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <thread>
#include <unistd.h>

namespace kiln::autotune {
namespace {

/// The bytes that stand for a cubin.
struct Kernel {
  std::string schedule;
  double microseconds = 0;
  std::optional<Simulation::Fault> fault;
};

Artifact encode(const Kernel& kernel) {
  Json json = {{"schedule", kernel.schedule}, {"microseconds", kernel.microseconds}};
  if (kernel.fault)
    json.update({{"fault", name(kernel.fault->kind)}, {"timing", kernel.fault->whileTiming}});
  std::string text = json.dump();
  auto bytes = std::as_bytes(std::span(text));
  Artifact artifact;
  artifact.cubin.assign(bytes.begin(), bytes.end());
  artifact.sha256 = sha256(bytes);
  artifact.plan = kernel.schedule;
  artifact.registers = 32 + 8 * (artifact.sha256[0] % 4);
  artifact.sharedBytes = 1024 * (artifact.sha256[1] % 4);
  return artifact;
}

/// As it was compiled, and as this device has it: kernels may have been compiled by another.
Kernel decode(const Artifact& artifact, const Simulation& simulation) {
  std::string text(reinterpret_cast<const char*>(artifact.cubin.data()), artifact.cubin.size());
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.contains("microseconds"))
    fail(ErrorKind::input,
         "cubin {} was not made by the simulated device; tune on the GPU that it "
         "is for, or with another store",
         artifact.sha256);
  Kernel kernel{json.at("schedule"), json.at("microseconds"), std::nullopt};
  if (json.contains("fault"))
    kernel.fault = {parseFailureKind(json.at("fault").get<std::string>()), json.at("timing")};
  if (auto fault = simulation.faults.find(kernel.schedule); fault != simulation.faults.end())
    kernel.fault = fault->second;
  if (auto aged = simulation.aged.find(kernel.schedule); aged != simulation.aged.end())
    kernel.microseconds *= aged->second;
  return kernel;
}

/// Faults that end the process or the context.
void breakDown(FailureKind kind) {
  switch (kind) {
  case FailureKind::crash:
    ::signal(SIGSEGV, SIG_DFL);
    ::raise(SIGSEGV);
    break;
  case FailureKind::hang:
    while (true)
      ::pause();
  case FailureKind::illegalAccess:
    throw Lost(kind, "cuStreamSynchronize failed: CUDA_ERROR_ILLEGAL_ADDRESS (simulated)");
  case FailureKind::misaligned:
    throw Lost(kind, "cuStreamSynchronize failed: CUDA_ERROR_MISALIGNED_ADDRESS (simulated)");
  case FailureKind::launch:
    throw Lost(kind, "cuStreamSynchronize failed: CUDA_ERROR_LAUNCH_FAILED (simulated)");
  default:
    break;
  }
}

} // namespace

Json toJson(const Simulation& s) {
  Json faults = Json::object();
  for (const auto& [schedule, fault] : s.faults)
    faults[schedule] = {{"kind", name(fault.kind)}, {"while_timing", fault.whileTiming}};
  return {{"seed", s.seed},     {"bias", s.bias},           {"noise", s.noise},
          {"drift", s.drift},   {"throttled", s.throttled}, {"faults", faults},
          {"slower", s.slower}, {"copy", s.copy},           {"aged", s.aged},
          {"driver", s.driver}, {"reference", s.reference}};
}

Simulation simulationOf(const Json& json) {
  Simulation s;
  s.seed = json.value("seed", s.seed);
  s.bias = json.value("bias", s.bias);
  s.noise = json.value("noise", s.noise);
  s.drift = json.value("drift", s.drift);
  s.throttled = json.value("throttled", s.throttled);
  s.slower = json.value("slower", s.slower);
  s.reference = json.value("reference", s.reference);
  s.copy = json.value("copy", s.copy);
  s.aged = json.value("aged", s.aged);
  s.driver = json.value("driver", s.driver);
  const Json faults = json.value("faults", Json::object());
  for (const auto& [schedule, fault] : faults.items())
    s.faults[schedule] = {parseFailureKind(fault.at("kind").get<std::string>()),
                          fault.value("while_timing", false)};
  return s;
}

SimulatedDevice::SimulatedDevice(Simulation given)
    : simulation(std::move(given)), random(simulation.seed) {}

void SimulatedDevice::begin(const Task&) {}

void SimulatedDevice::prepare(const Artifact&, std::uint64_t) {
  std::this_thread::sleep_for(std::chrono::duration<double>(simulation.reference));
}

double SimulatedDevice::trueMicroseconds(const Simulation& simulation, const Proposal& proposal) {
  auto known = simulation.slower.find(proposal.schedule);
  if (known != simulation.slower.end())
    return proposal.microseconds * known->second;
  std::string digest = sha256(proposal.schedule);
  std::mt19937_64 own(simulation.seed ^ std::stoull(digest.substr(0, 15), nullptr, 16));
  return proposal.microseconds *
         std::exp(std::normal_distribution<double>(0, simulation.bias)(own));
}

Compiled SimulatedDevice::compile(const Proposal& proposal) {
  Kernel kernel{proposal.schedule, trueMicroseconds(simulation, proposal), std::nullopt};
  if (auto fault = simulation.faults.find(proposal.schedule); fault != simulation.faults.end())
    kernel.fault = fault->second;
  for (const std::string& part : simulation.spilling)
    if (proposal.schedule.find(part) != std::string::npos)
      return Failure{proposal.schedule, "", simulation.driver, FailureKind::spill,
                     "kernel '" + part.substr(0, part.find(' ')) + "' spills (simulated)"};
  if (kernel.fault && kernel.fault->kind == FailureKind::spill)
    return Failure{proposal.schedule, "", simulation.driver, FailureKind::spill,
                   "kernel spills 128 bytes of registers to memory (simulated)"};
  return encode(kernel);
}

Check SimulatedDevice::verify(const Artifact& artifact, std::uint64_t seed) {
  Kernel kernel = decode(artifact, simulation);
  Check check;
  check.verdict = {kernel.schedule, artifact.sha256, true, "simulated", 0.25, true, seed};
  if (!kernel.fault || kernel.fault->whileTiming)
    return check;
  breakDown(kernel.fault->kind);
  check.kind = kernel.fault->kind;
  check.log = fmt::format("{} (simulated)", name(*check.kind));
  check.verdict.pass = false;
  check.verdict.worstError = 37;
  check.verdict.deterministic = *check.kind != FailureKind::race;
  return check;
}

Batch SimulatedDevice::time(std::span<const Artifact* const> kernels, std::size_t rounds) {
  std::vector<Kernel> decoded;
  const auto first = std::ranges::find_if(kernels, std::identity());
  for (const Artifact* artifact : kernels) {
    decoded.push_back(decode(artifact ? *artifact : **first, simulation));
    if (!artifact)
      decoded.back().microseconds *= simulation.copy;
    if (decoded.back().fault && decoded.back().fault->whileTiming)
      breakDown(decoded.back().fault->kind);
  }
  Batch batch;
  batch.samples.resize(kernels.size());
  batch.conditions = conditions();
  batch.conditions.throttled =
      std::uniform_real_distribution<double>(0, 1)(random) < simulation.throttled;
  std::normal_distribution<double> normal;
  for (std::size_t round = 0; round < rounds; ++round)
    for (std::size_t k = 0; k < kernels.size(); ++k) {
      clock += 1.0 / double(kernels.size());
      double drift = 1 + simulation.drift * std::sin(0.07 * clock);
      double disturbed = random() % 50 == 0 ? 1.2 : 1.0;
      batch.samples[k].push_back(decoded[k].microseconds * drift * disturbed *
                                 (batch.conditions.throttled ? 1.4 : 1.0) *
                                 std::exp(simulation.noise * normal(random)));
    }
  return batch;
}

Conditions SimulatedDevice::conditions() {
  Conditions conditions;
  conditions.uuid = "GPU-simulated";
  conditions.driver = simulation.driver;
  conditions.host = "simulated";
  conditions.smClockMHz = 1980;
  conditions.memoryClockMHz = 3201;
  conditions.temperatureC = 40;
  return conditions;
}

} // namespace kiln::autotune
