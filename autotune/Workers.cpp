// See Workers.h; also the worker's side of the public interface.
#include "autotune/Workers.h"

#include "autotune/measure/GpuDevice.h"
#include "autotune/measure/Worker.h"
#include "autotune/simulate/SimulatedDevice.h"
#include "codegen/backend/Driver.h"
#include "codegen/backend/Fail.h"
#include "kiln/files.h"
#include "kiln/tune.h"

#include <charconv>

namespace kiln {

using namespace autotune;

static constexpr std::string_view kGpu = "gpu", kNumbered = "gpu:", kSimulated = "simulated",
                                  kDescribed = "simulated:";

bool autotune::isSimulated(std::string_view device) {
  return device == kSimulated || device.starts_with(kDescribed);
}

int autotune::gpuOf(std::string_view device) {
  if (device == kGpu)
    return 0;
  int ordinal = -1;
  if (device.starts_with(kNumbered)) {
    device.remove_prefix(kNumbered.size());
    const char* end = device.data() + device.size();
    const auto parsed = std::from_chars(device.data(), end, ordinal);
    if (parsed.ec != std::errc() || parsed.ptr != end)
      return -1;
  }
  return ordinal;
}

void autotune::requireDevice(const std::string& device, const std::vector<std::string>& worker,
                             std::string_view advice) {
  if (gpuOf(device) < 0 && !isSimulated(device))
    fail(ErrorKind::input,
         "unknown device '{}'; known are gpu, gpu:N, simulated and simulated:FILE.json", device);
  if (worker.empty())
    fail(ErrorKind::input, "kernels run in a worker program: one that calls kiln::serveTuning()");
  if (isSimulated(device))
    return;
  if (std::string why = whyNoGpu(); !why.empty())
    fail(ErrorKind::unavailable, "{}{}", why, advice);
  static_cast<void>(Driver::get().device(gpuOf(device))); // or an error that says which there are
}

DeviceFactory autotune::workersOf(std::vector<std::string> command, const std::string& device) {
  constexpr std::chrono::seconds limit{30}; // fp64 of large rows takes the host some of it
  WorkerOptions worker;
  worker.command = std::move(command);
  worker.command.push_back(device);
  worker.verify = worker.time = limit;
  return [worker] { return std::make_unique<Worker>(worker); };
}

Simulation autotune::simulationFor(std::string_view device) {
  if (device == kSimulated)
    return {};
  const std::string path(device.substr(kDescribed.size()));
  try {
    return simulationOf(Json::parse(readFile(path)));
  } catch (const Json::exception& error) {
    fail(ErrorKind::input, "'{}' describes no simulated device: {}", path, error.what());
  }
}

int serveTuning(std::string_view device) {
  if (isSimulated(device))
    return serve([&] { return std::make_unique<SimulatedDevice>(simulationFor(device)); });
  return serve([&] { return gpuDevice(gpuOf(device)); });
}

} // namespace kiln
