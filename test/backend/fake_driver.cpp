// Built as libcuda.so.1 into a folder that no loader searches.
#include "test/backend/FakeDriver.h"

#include <cstring>
#include <mutex>
#include <tuple>

using namespace kiln;
using namespace kiln::test;

namespace {

FakeDriver fake;
std::mutex mutex; // tuners ask from several threads

enum Call {
#define KILN_ID(name, version, parameters) name##Call,
  KILN_DRIVER_CALLS(KILN_ID)
#undef KILN_ID
};

const char* const names[] = {
#define KILN_NAME(name, version, parameters) #name,
    KILN_DRIVER_CALLS(KILN_NAME)
#undef KILN_NAME
};

int attributeOf(int which) {
  switch (which) {
  case 16:
    return 132;
  case 75:
    return 9;
  case 81:
    return 233472;
  case 97:
    return 232448;
  default:
    return 0;
  }
}

void recordLaunch(const CuLaunchConfig* config, void** parameters) {
  fake.launch = *config;
  fake.attributes.assign(config->attributes, config->attributes + config->attributeCount);
  fake.values.clear();
  for (std::size_t i = 0; i < fake.valueCount; ++i)
    fake.values.push_back(*static_cast<std::uint64_t*>(parameters[i]));
}

/// A map that a kernel's parameters show to be this one.
template <typename All> void encode(const All& all) {
  const auto rank = std::get<2>(all);
  *static_cast<std::uint64_t*>(std::get<0>(all)) = std::get<3>(all);
  fake.tensorMap = {static_cast<std::uint64_t>(std::get<1>(all)), rank};
  const auto add = [&](const auto* values, unsigned count) {
    fake.tensorMap.insert(fake.tensorMap.end(), values, values + count);
  };
  add(std::get<4>(all), rank);
  add(std::get<5>(all), rank - 1);
  add(std::get<6>(all), rank);
  add(std::get<7>(all), rank);
  for (int value : {std::get<8>(all), std::get<9>(all), std::get<10>(all), std::get<11>(all)})
    fake.tensorMap.push_back(static_cast<std::uint64_t>(value));
}

template <Call call, typename... Args> CuStatus answer(Args... args) {
  [[maybe_unused]] auto all = std::make_tuple(args...);
  std::lock_guard held(mutex);
  fake.calls.push_back(names[call]);
  if (fake.failing == names[call])
    return fake.failure;
  if constexpr (call == cuInitCall)
    return fake.initStatus;
  else if constexpr (call == cuGetErrorNameCall || call == cuGetErrorStringCall)
    *std::get<1>(all) = call == cuGetErrorNameCall ? "CUDA_ERROR_FAKE" : "made up";
  else if constexpr (call == cuDriverGetVersionCall)
    *std::get<0>(all) = 13000;
  else if constexpr (call == cuDeviceGetCountCall)
    *std::get<0>(all) = fake.devices;
  else if constexpr (call == cuDeviceGetCall)
    *std::get<0>(all) = std::get<1>(all);
  else if constexpr (call == cuDeviceGetNameCall)
    std::strcpy(std::get<0>(all), "Fake H200");
  else if constexpr (call == cuDeviceGetAttributeCall)
    *std::get<0>(all) = attributeOf(std::get<1>(all));
  else if constexpr (call == cuDevicePrimaryCtxRetainCall)
    *std::get<0>(all) = reinterpret_cast<CuContext>(std::uintptr_t(std::get<1>(all)) + 1);
  else if constexpr (call == cuCtxSetCurrentCall)
    fake.currentDevice = static_cast<int>(reinterpret_cast<std::uintptr_t>(std::get<0>(all))) - 1;
  else if constexpr (call == cuCtxGetDeviceCall) {
    if (fake.currentDevice < 0)
      return 201;
    *std::get<0>(all) = fake.currentDevice;
  } else if constexpr (call == cuTensorMapEncodeTiledCall)
    encode(all);
  else if constexpr (call == cuLaunchKernelExCall)
    recordLaunch(std::get<0>(all), std::get<2>(all));
  return 0;
}

} // namespace

extern "C" KILN_API FakeDriver* kilnFakeDriver() {
  return &fake;
}

extern "C" KILN_API CuStatus cuGetProcAddress_v2(const char* symbol, void** address, int,
                                                 unsigned long long, int*) {
  *address = nullptr;
  if (fake.missing == symbol)
    return 500;
#define KILN_OFFER(name, version, parameters)                                                      \
  if (std::strcmp(symbol, #name) == 0) {                                                           \
    CuStatus(*function) parameters = &answer<name##Call>;                                          \
    *address = reinterpret_cast<void*>(function);                                                  \
  }
  KILN_DRIVER_CALLS(KILN_OFFER)
#undef KILN_OFFER
  return *address ? 0 : 500;
}
