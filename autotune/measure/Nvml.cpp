// See Nvml.h. Declared by hand, so that building needs no header of NVML.
#include "autotune/measure/Nvml.h"

#include <algorithm>
#include <array>
#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

namespace kiln::autotune {
namespace {

using NvmlDevice = struct OpaqueNvmlDevice*;

/// nvmlProcessInfo_t of version 3.
struct ProcessInfo {
  unsigned pid;
  unsigned long long usedMemory;
  unsigned gpuInstance, computeInstance;
};

enum : unsigned { clockSM = 1, clockMemory = 2, temperatureOfGpu = 0 };

// Reasons for clocks below the highest: those that make a sample void.
constexpr unsigned long long kIdle = 0x1, kSlowdown = 0x8, kThermalSoftware = 0x20,
                             kThermalHardware = 0x40, kPowerBrake = 0x80;
constexpr double kNominal = 0.75; // of the highest clock; below it a busy GPU is throttled

/// Every call returns 0 for success.
struct Nvml {
  int (*init)() = nullptr;
  int (*driverVersion)(char*, unsigned) = nullptr;
  int (*byBus)(const char*, NvmlDevice*) = nullptr;
  int (*uuid)(NvmlDevice, char*, unsigned) = nullptr;
  int (*clock)(NvmlDevice, unsigned, unsigned*) = nullptr;
  int (*maxClock)(NvmlDevice, unsigned, unsigned*) = nullptr;
  int (*temperature)(NvmlDevice, unsigned, unsigned*) = nullptr;
  int (*reasons)(NvmlDevice, unsigned long long*) = nullptr;
  int (*processes)(NvmlDevice, unsigned*, ProcessInfo*) = nullptr;
  bool isThere = false;

  Nvml() {
    void* library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
      return;
    auto bind = [&](auto& function, const char* name) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
      return function != nullptr;
    };
    isThere = bind(init, "nvmlInit_v2") && bind(driverVersion, "nvmlSystemGetDriverVersion") &&
              bind(byBus, "nvmlDeviceGetHandleByPciBusId_v2") && bind(uuid, "nvmlDeviceGetUUID") &&
              bind(clock, "nvmlDeviceGetClockInfo") &&
              bind(maxClock, "nvmlDeviceGetMaxClockInfo") &&
              bind(temperature, "nvmlDeviceGetTemperature") &&
              bind(reasons, "nvmlDeviceGetCurrentClocksThrottleReasons") &&
              bind(processes, "nvmlDeviceGetComputeRunningProcesses_v3") && init() == 0;
  }
};

/// Without this process, a worker, and its supervisor.
int foreignProcesses(const Nvml& nvml, NvmlDevice device) {
  std::array<ProcessInfo, 64> running{};
  unsigned count = running.size();
  if (nvml.processes(device, &count, running.data()) != 0)
    return 0;
  const auto own = static_cast<unsigned>(::getpid()), parent = static_cast<unsigned>(::getppid());
  auto all = std::span(running).first(count);
  // In a container the numbers are the host's: two of them are these two all the same.
  if (std::ranges::find(all, own, &ProcessInfo::pid) == all.end())
    return std::max(0, static_cast<int>(count) - 2);
  return static_cast<int>(std::ranges::count_if(all, [&](const ProcessInfo& process) {
    return process.pid != own && process.pid != parent;
  }));
}

void readState(const Nvml& nvml, NvmlDevice device, Conditions& conditions) {
  auto read = [&](auto function, unsigned which) {
    unsigned value = 0;
    return function(device, which, &value) == 0 ? static_cast<int>(value) : 0;
  };
  conditions.smClockMHz = read(nvml.clock, clockSM);
  conditions.memoryClockMHz = read(nvml.clock, clockMemory);
  conditions.temperatureC = read(nvml.temperature, temperatureOfGpu);
  const int highest = read(nvml.maxClock, clockSM);
  unsigned long long reasons = 0;
  nvml.reasons(device, &reasons);
  conditions.throttled =
      (reasons & (kSlowdown | kThermalSoftware | kThermalHardware | kPowerBrake)) != 0 ||
      (!(reasons & kIdle) && conditions.smClockMHz > 0 &&
       conditions.smClockMHz < kNominal * highest);
  conditions.foreignProcesses = foreignProcesses(nvml, device);
}

} // namespace

Conditions conditionsOf(const DeviceInfo& device) {
  static const Nvml nvml;
  Conditions conditions;
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  conditions.host = host;
  int version = Driver::get().version();
  conditions.driver = fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10);
  conditions.uuid = device.name + " at " + device.pciBus;
  NvmlDevice handle = nullptr;
  if (!nvml.isThere || nvml.byBus(device.pciBus.c_str(), &handle) != 0)
    return conditions;
  char text[96] = {};
  if (nvml.driverVersion(text, sizeof text) == 0)
    conditions.driver = text;
  if (nvml.uuid(handle, text, sizeof text) == 0)
    conditions.uuid = text;
  readState(nvml, handle, conditions);
  return conditions;
}

} // namespace kiln::autotune
