// Opening the driver, its errors in words, and the list of devices.
#include "codegen/backend/Driver.h"

#include "codegen/backend/Fail.h"
#include "codegen/backend/Libraries.h"

namespace kiln {

namespace {

enum DeviceAttribute {
  multiprocessorCount = 16,
  pciBusId = 33,
  pciDeviceId = 34,
  memoryClockKHz = 36,
  memoryBusBits = 37,
  l2CacheBytes = 38,
  pciDomain = 50,
  capabilityMajor = 75,
  capabilityMinor = 76,
  sharedPerMultiprocessor = 81,
  sharedPerBlockOptin = 97
};

constexpr CuStatus noDevice = 100, stubLibrary = 34, noContext = 201;

using GetProcAddress = CuStatus (*)(const char*, void**, int, unsigned long long, int*);

template <typename Function>
void bindCall(GetProcAddress getProcAddress, const std::string& path, const char* name, int version,
              Function& function) {
  void* address = nullptr;
  if (getProcAddress(name, &address, version, 0, nullptr) != 0 || !address)
    fail(ErrorKind::unavailable,
         "the NVIDIA driver '{}' has no {}; a driver of CUDA 12.0 (version 525) or newer is needed",
         path, name);
  function = reinterpret_cast<Function>(address);
}

} // namespace

const Driver& Driver::get() {
  // Never destroyed: objects with static storage may free device memory after it would be.
  // A failed start throws and is repeated at the next call.
  static const Driver* driver = new Driver;
  return *driver;
}

Driver::Driver() {
  SharedLibrary library = openDriver();
  libraryPath = library.path;
  auto getProcAddress = reinterpret_cast<GetProcAddress>(library.find("cuGetProcAddress_v2"));
#define KILN_BIND(name, version, parameters)                                                       \
  bindCall(getProcAddress, libraryPath, #name, version, name);
  KILN_DRIVER_CALLS(KILN_BIND)
#undef KILN_BIND
  CuStatus status = cuInit(0);
  if (status == noDevice)
    fail(ErrorKind::unavailable,
         "the NVIDIA driver is installed ('{}') but shows no GPU; check nvidia-smi and "
         "CUDA_VISIBLE_DEVICES, in a container pass the GPU through (docker run --gpus all); "
         "without a GPU use --target=host or compile only",
         libraryPath);
  if (status == stubLibrary)
    fail(ErrorKind::unavailable,
         "'{}' is the toolkit's stub and no driver; take its folder out of LD_LIBRARY_PATH",
         libraryPath);
  if (status != 0) {
    const char* name = nullptr;
    const char* text = nullptr;
    cuGetErrorName(status, &name);
    cuGetErrorString(status, &text);
    fail(ErrorKind::unavailable,
         "the NVIDIA driver '{}' does not start: cuInit gave {} ({}); check nvidia-smi",
         libraryPath, name ? name : fmt::format("error {}", status), text ? text : "unknown error");
  }
  check(cuDriverGetVersion(&driverVersion), "cuDriverGetVersion");
  readDevices();
  if (deviceList.empty())
    fail(ErrorKind::unavailable,
         "the NVIDIA driver '{}' runs but shows no GPU; check CUDA_VISIBLE_DEVICES", libraryPath);
}

void Driver::failed(CuStatus status, const char* call) const {
  const char* name = nullptr;
  const char* text = nullptr;
  cuGetErrorName(status, &name);
  cuGetErrorString(status, &text);
  const char* hint = "";
  if (status == noContext)
    hint = "; this thread has no CUDA context, select a device first";
  else if (status >= 700 && status < 720)
    hint = "; an earlier kernel failed and this process can use the GPU no more, run it under "
           "compute-sanitizer";
  fail(ErrorKind::device, "{} failed: {} ({}){}", call,
       name ? name : fmt::format("error {}", status), text ? text : "unknown error", hint);
}

int Driver::attribute(int which, CuDevice device) const {
  int value = 0;
  check(cuDeviceGetAttribute(&value, which, device), "cuDeviceGetAttribute");
  return value;
}

void Driver::readDevices() {
  int count = 0;
  check(cuDeviceGetCount(&count), "cuDeviceGetCount");
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    CuDevice device = 0;
    check(cuDeviceGet(&device, ordinal), "cuDeviceGet");
    char name[256] = "";
    check(cuDeviceGetName(name, sizeof name, device), "cuDeviceGetName");
    std::size_t memory = 0;
    check(cuDeviceTotalMem(&memory, device), "cuDeviceTotalMem");
    std::string bus = fmt::format("{:04x}:{:02x}:{:02x}.0", attribute(pciDomain, device),
                                  attribute(pciBusId, device), attribute(pciDeviceId, device));
    // Two transfers per clock; drivers of some parts no longer tell the clock.
    double clock = attribute(memoryClockKHz, device) * 1e3;
    double bytesPerClock = attribute(memoryBusBits, device) / 8.0 * 2.0;
    deviceList.push_back({.ordinal = ordinal,
                          .name = name,
                          .major = attribute(capabilityMajor, device),
                          .minor = attribute(capabilityMinor, device),
                          .multiprocessors = attribute(multiprocessorCount, device),
                          .sharedPerBlock = attribute(sharedPerBlockOptin, device),
                          .sharedPerSM = attribute(sharedPerMultiprocessor, device),
                          .l2Bytes = attribute(l2CacheBytes, device),
                          .memoryBytes = static_cast<std::int64_t>(memory),
                          .pciBus = std::move(bus),
                          .memoryGBs = clock * bytesPerClock / 1e9});
  }
}

const DeviceInfo& Driver::device(int ordinal) const {
  if (ordinal < 0 || static_cast<std::size_t>(ordinal) >= deviceList.size())
    fail(ErrorKind::input, "there is no GPU {}; this process sees {}, from 0", ordinal,
         deviceList.size());
  return deviceList[static_cast<std::size_t>(ordinal)];
}

const DeviceInfo& Driver::currentDevice() const {
  CuDevice ordinal = 0; // a CUdevice is its ordinal
  CuStatus status = cuCtxGetDevice(&ordinal);
  if (status == noContext) {
    setDevice(0); // what the CUDA runtime does for a new thread
    return device(0);
  }
  check(status, "cuCtxGetDevice");
  return device(ordinal);
}

void Driver::setDevice(int ordinal) const {
  // Primary contexts are retained for the life of the process: releasing the last reference
  // would destroy the memory of everybody who shares it.
  CuContext context = nullptr;
  check(cuDevicePrimaryCtxRetain(&context, device(ordinal).ordinal), "cuDevicePrimaryCtxRetain");
  check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
}

void Driver::synchronize() const {
  check(cuCtxSynchronize(), "cuCtxSynchronize");
}

std::string whyNoGpu() {
  try {
    Driver::get();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

} // namespace kiln
