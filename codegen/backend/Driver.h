// The CUDA driver, opened at run time: devices, memory, streams, graphs, loading and launching.
// Declared by hand, so that building needs no CUDA header. Every failing call throws
// Error(device) with the call's name; no driver or no GPU throws Error(unavailable).
#pragma once

#include "kiln/kiln.h"

#include <functional>

namespace kiln {

using CuStatus = int;
using CuDevice = int;
using CuPointer = unsigned long long;
using CuContext = struct OpaqueCuContext*;
using CuStream = struct OpaqueCuStream*;
using CuEvent = struct OpaqueCuEvent*;
using CuLibrary = struct OpaqueCuLibrary*;
using CuKernel = struct OpaqueCuKernel*;
using CuFunction = struct OpaqueCuFunction*;
using CuGraph = struct OpaqueCuGraph*;
using CuGraphExec = struct OpaqueCuGraphExec*;

struct CuLaunchAttribute { // 72 bytes: id, padding, a union of 64 bytes
  unsigned id;
  unsigned padding;
  unsigned long long value[8];
};

struct CuLaunchConfig {
  unsigned gridX, gridY, gridZ;
  unsigned blockX, blockY, blockZ;
  unsigned sharedBytes;
  CuStream stream;
  CuLaunchAttribute* attributes;
  unsigned attributeCount;
};

/// Name, CUDA version whose signature is meant, parameters.
#define KILN_DRIVER_CALLS(X)                                                                       \
  X(cuGetErrorName, 12000, (CuStatus, const char**))                                               \
  X(cuGetErrorString, 12000, (CuStatus, const char**))                                             \
  X(cuInit, 12000, (unsigned))                                                                     \
  X(cuDriverGetVersion, 12000, (int*))                                                             \
  X(cuDeviceGetCount, 12000, (int*))                                                               \
  X(cuDeviceGet, 12000, (CuDevice*, int))                                                          \
  X(cuDeviceGetName, 12000, (char*, int, CuDevice))                                                \
  X(cuDeviceTotalMem, 12000, (std::size_t*, CuDevice))                                             \
  X(cuDeviceGetAttribute, 12000, (int*, int, CuDevice))                                            \
  X(cuDevicePrimaryCtxRetain, 12000, (CuContext*, CuDevice))                                       \
  X(cuCtxSetCurrent, 12000, (CuContext))                                                           \
  X(cuCtxGetDevice, 12000, (CuDevice*))                                                            \
  X(cuCtxSynchronize, 12000, ())                                                                   \
  X(cuLibraryLoadData, 12000,                                                                      \
    (CuLibrary*, const void*, int*, void**, unsigned, int*, void**, unsigned))                     \
  X(cuLibraryUnload, 12000, (CuLibrary))                                                           \
  X(cuLibraryGetKernel, 12000, (CuKernel*, CuLibrary, const char*))                                \
  X(cuKernelGetFunction, 12000, (CuFunction*, CuKernel))                                           \
  X(cuKernelSetAttribute, 12000, (int, int, CuKernel, CuDevice))                                   \
  X(cuLaunchKernelEx, 12000, (const CuLaunchConfig*, CuFunction, void**, void**))                  \
  X(cuTensorMapEncodeTiled, 12000,                                                                 \
    (void*, int, unsigned, CuPointer, const std::uint64_t*, const std::uint64_t*, const unsigned*, \
     const unsigned*, int, int, int, int))                                                         \
  X(cuMemAlloc, 12000, (CuPointer*, std::size_t))                                                  \
  X(cuMemFree, 12000, (CuPointer))                                                                 \
  X(cuMemcpyHtoDAsync, 12000, (CuPointer, const void*, std::size_t, CuStream))                     \
  X(cuMemcpyDtoHAsync, 12000, (void*, CuPointer, std::size_t, CuStream))                           \
  X(cuMemcpyDtoDAsync, 12000, (CuPointer, CuPointer, std::size_t, CuStream))                       \
  X(cuMemsetD8Async, 12000, (CuPointer, unsigned char, std::size_t, CuStream))                     \
  X(cuStreamCreate, 12000, (CuStream*, unsigned))                                                  \
  X(cuStreamDestroy, 12000, (CuStream))                                                            \
  X(cuStreamSynchronize, 12000, (CuStream))                                                        \
  X(cuStreamWaitEvent, 12000, (CuStream, CuEvent, unsigned))                                       \
  X(cuStreamBeginCapture, 12000, (CuStream, int))                                                  \
  X(cuStreamEndCapture, 12000, (CuStream, CuGraph*))                                               \
  X(cuThreadExchangeStreamCaptureMode, 12000, (int*))                                              \
  X(cuEventCreate, 12000, (CuEvent*, unsigned))                                                    \
  X(cuEventDestroy, 12000, (CuEvent))                                                              \
  X(cuEventRecord, 12000, (CuEvent, CuStream))                                                     \
  X(cuEventSynchronize, 12000, (CuEvent))                                                          \
  X(cuEventElapsedTime, 12000, (float*, CuEvent, CuEvent))                                         \
  X(cuGraphInstantiateWithFlags, 12000, (CuGraphExec*, CuGraph, unsigned long long))               \
  X(cuGraphGetNodes, 12000, (CuGraph, void**, std::size_t*))                                       \
  X(cuGraphLaunch, 12000, (CuGraphExec, CuStream))                                                 \
  X(cuGraphDestroy, 12000, (CuGraph))                                                              \
  X(cuGraphExecDestroy, 12000, (CuGraphExec))

struct DeviceInfo {
  int ordinal = 0;
  std::string name;
  int major = 0, minor = 0; // compute capability
  int multiprocessors = 0;
  std::int64_t sharedPerBlock = 0; // with opt-in
  std::int64_t sharedPerSM = 0;
  std::int64_t l2Bytes = 0;
  std::int64_t memoryBytes = 0;
  std::string pciBus;   // "0000:19:00.0"
  double memoryGBs = 0; // from clock and bus width; 0: the driver does not say
};

/// The driver's functions and what never changes about its devices. One per process.
class Driver {
 public:
  static const Driver& get(); // throws Error(unavailable)

#define KILN_DECLARE(name, version, parameters) CuStatus(*name) parameters = nullptr;
  KILN_DRIVER_CALLS(KILN_DECLARE)
#undef KILN_DECLARE

  const std::string& path() const { return libraryPath; }
  int version() const { return driverVersion; } // 13000 for CUDA 13.0
  const std::vector<DeviceInfo>& devices() const { return deviceList; }
  const DeviceInfo& device(int ordinal) const; // throws Error(input)

  /// The device of this thread's context; a thread without one gets device 0's primary context.
  const DeviceInfo& currentDevice() const;
  /// Makes the device's primary context, the one that the CUDA runtime uses, current.
  void setDevice(int ordinal) const;
  void synchronize() const;

  void check(CuStatus status, const char* call) const {
    if (status != 0) [[unlikely]]
      failed(status, call);
  }

 private:
  Driver();
  [[noreturn]] void failed(CuStatus status, const char* call) const;
  void readDevices();
  int attribute(int which, CuDevice device) const;

  std::string libraryPath;
  int driverVersion = 0;
  std::vector<DeviceInfo> deviceList;
};

/// Empty: there is a driver with a GPU. Otherwise why not, in the words of the error.
std::string whyNoGpu();

class Stream;

/// Memory of the current device. Copies wait until they are done: for all work of the device, or,
/// on a stream, for that stream alone, as is needed beside the capture of a graph.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(std::size_t bytes);
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  ~DeviceBuffer();

  void* data() const { return reinterpret_cast<void*>(pointer); }
  std::size_t size() const { return bytes; }
  void upload(std::span<const std::byte> from); // throws Error(input) if sizes differ
  void download(std::span<std::byte> to) const;
  void upload(std::span<const std::byte> from, const Stream& stream);
  void download(std::span<std::byte> to, const Stream& stream) const;
  void fill(std::uint8_t value);
  void repeat(std::span<const std::byte> pattern); // one copy behind the other, the last cut off

 private:
  void checkSize(std::size_t given) const;
  CuPointer pointer = 0;
  std::size_t bytes = 0;
};

class Event;

/// A stream that does not wait for the default stream.
class Stream {
 public:
  Stream();
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&& other) noexcept;
  ~Stream();
  CuStream get() const { return handle; }
  void synchronize() const;
  void wait(const Event& event) const; // for work enqueued from now on

 private:
  CuStream handle = nullptr;
};

class Event {
 public:
  Event();
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;
  ~Event();
  CuEvent get() const { return handle; }
  void record(const Stream& stream) const;
  void synchronize() const;
  double microsecondsSince(const Event& start) const;

 private:
  CuEvent handle = nullptr;
};

/// What a callback enqueued, as one object that can be launched again and again.
class Graph {
 public:
  /// An exception of `enqueue` ends the capture and is passed on.
  static Graph capture(const Stream& stream, const std::function<void(CuStream)>& enqueue);
  Graph(Graph&& other) noexcept;
  Graph& operator=(Graph&& other) noexcept;
  ~Graph();
  void launch(const Stream& stream) const;
  std::size_t nodes() const { return nodeCount; }

 private:
  Graph() = default;
  CuGraphExec handle = nullptr;
  std::size_t nodeCount = 0;
};

/// A cubin in the driver, for all devices at once.
class LoadedCubin {
 public:
  explicit LoadedCubin(std::span<const std::byte> cubin);
  LoadedCubin(LoadedCubin&& other) noexcept;
  LoadedCubin& operator=(LoadedCubin&& other) noexcept;
  ~LoadedCubin();
  CuKernel kernel(const std::string& name) const;

 private:
  CuLibrary handle = nullptr;
};

struct LaunchShape {
  unsigned blocks = 0, blocksY = 1, blocksZ = 1;
  unsigned threads = 0;
  unsigned sharedBytes = 0; // dynamic
  unsigned cluster = 1;
  bool programmatic = false;
};

/// Makes a kernel ready on a device, so that its launches need no lazy loading: sets the limit
/// of dynamic shared memory and loads the code. The device's context must be current. Allowed
/// while a stream is being captured.
void prepareKernel(CuKernel kernel, const LaunchShape& shape, const DeviceInfo& device);

/// Enqueues one launch in the current context and does nothing else.
void launchKernel(CuKernel kernel, const LaunchShape& shape, void** parameters, CuStream stream);

} // namespace kiln
