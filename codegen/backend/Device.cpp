// Owners of the driver's objects, and the launch itself. Destructors ignore the driver's answer:
// at the end of a process the context may be gone before the object.
#include "codegen/backend/Driver.h"

#include "codegen/backend/Fail.h"

#include <utility>

namespace kiln {

namespace {

constexpr unsigned attributeCluster = 4, attributeProgrammatic = 6; // CUlaunchAttributeID
constexpr int maxDynamicShared = 8, nonPortableCluster = 14;        // CUfunction_attribute
constexpr int captureThreadLocal = 1, captureRelaxed = 2;           // CUstreamCaptureMode
constexpr unsigned nonBlocking = 1;                                 // CUstream_flags

/// Loading code while a stream is captured is refused in the default capture mode.
class RelaxedCapture {
 public:
  RelaxedCapture() { exchange(); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;
  ~RelaxedCapture() { exchange(); }

 private:
  void exchange() { Driver::get().cuThreadExchangeStreamCaptureMode(&mode); }
  int mode = captureRelaxed;
};

} // namespace

//===- Memory -------------------------------------------------------------------------------===//

DeviceBuffer::DeviceBuffer(std::size_t bytes) : bytes(bytes) {
  const Driver& driver = Driver::get();
  driver.currentDevice();
  if (bytes > 0)
    driver.check(driver.cuMemAlloc(&pointer, bytes), "cuMemAlloc");
}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : pointer(std::exchange(other.pointer, 0)), bytes(std::exchange(other.bytes, 0)) {}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(pointer, other.pointer);
  std::swap(bytes, other.bytes);
  return *this;
}

DeviceBuffer::~DeviceBuffer() {
  if (pointer)
    Driver::get().cuMemFree(pointer);
}

void DeviceBuffer::checkSize(std::size_t given) const {
  if (given != bytes)
    fail(ErrorKind::input,
         "a device buffer of {} bytes cannot be copied with {} bytes; both must "
         "be equal",
         bytes, given);
}

// The copies go through the default stream and wait for it and for the whole context, so that
// they see the work of every stream.
void DeviceBuffer::upload(std::span<const std::byte> from) {
  checkSize(from.size());
  const Driver& driver = Driver::get();
  driver.synchronize();
  if (bytes > 0)
    driver.check(driver.cuMemcpyHtoDAsync(pointer, from.data(), bytes, nullptr),
                 "cuMemcpyHtoDAsync");
  driver.synchronize();
}

void DeviceBuffer::download(std::span<std::byte> to) const {
  checkSize(to.size());
  const Driver& driver = Driver::get();
  driver.synchronize();
  if (bytes > 0)
    driver.check(driver.cuMemcpyDtoHAsync(to.data(), pointer, bytes, nullptr), "cuMemcpyDtoHAsync");
  driver.synchronize();
}

void DeviceBuffer::upload(std::span<const std::byte> from, const Stream& stream) {
  checkSize(from.size());
  const Driver& driver = Driver::get();
  if (bytes > 0)
    driver.check(driver.cuMemcpyHtoDAsync(pointer, from.data(), bytes, stream.get()),
                 "cuMemcpyHtoDAsync");
  stream.synchronize();
}

void DeviceBuffer::download(std::span<std::byte> to, const Stream& stream) const {
  checkSize(to.size());
  const Driver& driver = Driver::get();
  if (bytes > 0)
    driver.check(driver.cuMemcpyDtoHAsync(to.data(), pointer, bytes, stream.get()),
                 "cuMemcpyDtoHAsync");
  stream.synchronize();
}

void DeviceBuffer::fill(std::uint8_t value) {
  const Driver& driver = Driver::get();
  driver.synchronize();
  if (bytes > 0)
    driver.check(driver.cuMemsetD8Async(pointer, value, bytes, nullptr), "cuMemsetD8Async");
  driver.synchronize();
}

void DeviceBuffer::repeat(std::span<const std::byte> pattern) {
  const Driver& driver = Driver::get();
  driver.synchronize();
  const std::size_t known = std::min(pattern.size(), bytes);
  if (known > 0)
    driver.check(driver.cuMemcpyHtoDAsync(pointer, pattern.data(), known, nullptr),
                 "cuMemcpyHtoDAsync");
  for (std::size_t at = known; known > 0 && at < bytes; at *= 2)
    driver.check(driver.cuMemcpyDtoDAsync(pointer + at, pointer, std::min(at, bytes - at), nullptr),
                 "cuMemcpyDtoDAsync");
  driver.synchronize();
}

//===- Streams and events -------------------------------------------------------------------===//

Stream::Stream() {
  const Driver& driver = Driver::get();
  driver.currentDevice();
  driver.check(driver.cuStreamCreate(&handle, nonBlocking), "cuStreamCreate");
}

Stream::Stream(Stream&& other) noexcept : handle(std::exchange(other.handle, nullptr)) {}

Stream& Stream::operator=(Stream&& other) noexcept {
  std::swap(handle, other.handle);
  return *this;
}

Stream::~Stream() {
  if (handle)
    Driver::get().cuStreamDestroy(handle);
}

void Stream::synchronize() const {
  const Driver& driver = Driver::get();
  driver.check(driver.cuStreamSynchronize(handle), "cuStreamSynchronize");
}

void Stream::wait(const Event& event) const {
  const Driver& driver = Driver::get();
  driver.check(driver.cuStreamWaitEvent(handle, event.get(), 0), "cuStreamWaitEvent");
}

Event::Event() {
  const Driver& driver = Driver::get();
  driver.currentDevice();
  driver.check(driver.cuEventCreate(&handle, 0), "cuEventCreate");
}

Event::Event(Event&& other) noexcept : handle(std::exchange(other.handle, nullptr)) {}

Event& Event::operator=(Event&& other) noexcept {
  std::swap(handle, other.handle);
  return *this;
}

Event::~Event() {
  if (handle)
    Driver::get().cuEventDestroy(handle);
}

void Event::record(const Stream& stream) const {
  const Driver& driver = Driver::get();
  driver.check(driver.cuEventRecord(handle, stream.get()), "cuEventRecord");
}

void Event::synchronize() const {
  const Driver& driver = Driver::get();
  driver.check(driver.cuEventSynchronize(handle), "cuEventSynchronize");
}

double Event::microsecondsSince(const Event& start) const {
  const Driver& driver = Driver::get();
  float milliseconds = 0;
  driver.check(driver.cuEventElapsedTime(&milliseconds, start.handle, handle),
               "cuEventElapsedTime");
  return milliseconds * 1e3;
}

//===- Graphs -------------------------------------------------------------------------------===//

Graph Graph::capture(const Stream& stream, const std::function<void(CuStream)>& enqueue) {
  const Driver& driver = Driver::get();
  CuGraph captured = nullptr;
  driver.check(driver.cuStreamBeginCapture(stream.get(), captureThreadLocal),
               "cuStreamBeginCapture");
  try {
    enqueue(stream.get());
  } catch (...) {
    driver.cuStreamEndCapture(stream.get(), &captured); // the stream must become usable again
    if (captured)
      driver.cuGraphDestroy(captured);
    throw;
  }
  driver.check(driver.cuStreamEndCapture(stream.get(), &captured), "cuStreamEndCapture");
  Graph graph;
  CuStatus counted = driver.cuGraphGetNodes(captured, nullptr, &graph.nodeCount);
  CuStatus made = driver.cuGraphInstantiateWithFlags(&graph.handle, captured, 0);
  driver.cuGraphDestroy(captured);
  driver.check(counted, "cuGraphGetNodes");
  driver.check(made, "cuGraphInstantiateWithFlags");
  return graph;
}

Graph::Graph(Graph&& other) noexcept
    : handle(std::exchange(other.handle, nullptr)), nodeCount(other.nodeCount) {}

Graph& Graph::operator=(Graph&& other) noexcept {
  std::swap(handle, other.handle);
  std::swap(nodeCount, other.nodeCount);
  return *this;
}

Graph::~Graph() {
  if (handle)
    Driver::get().cuGraphExecDestroy(handle);
}

void Graph::launch(const Stream& stream) const {
  const Driver& driver = Driver::get();
  driver.check(driver.cuGraphLaunch(handle, stream.get()), "cuGraphLaunch");
}

//===- Code ---------------------------------------------------------------------------------===//

LoadedCubin::LoadedCubin(std::span<const std::byte> cubin) {
  const Driver& driver = Driver::get();
  driver.currentDevice();
  RelaxedCapture relaxed;
  driver.check(
      driver.cuLibraryLoadData(&handle, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
      "cuLibraryLoadData");
}

LoadedCubin::LoadedCubin(LoadedCubin&& other) noexcept
    : handle(std::exchange(other.handle, nullptr)) {}

LoadedCubin& LoadedCubin::operator=(LoadedCubin&& other) noexcept {
  std::swap(handle, other.handle);
  return *this;
}

LoadedCubin::~LoadedCubin() {
  if (handle)
    Driver::get().cuLibraryUnload(handle);
}

CuKernel LoadedCubin::kernel(const std::string& name) const {
  const Driver& driver = Driver::get();
  CuKernel kernel = nullptr;
  driver.check(driver.cuLibraryGetKernel(&kernel, handle, name.c_str()),
               fmt::format("cuLibraryGetKernel({})", name).c_str());
  return kernel;
}

void prepareKernel(CuKernel kernel, const LaunchShape& shape, const DeviceInfo& device) {
  const Driver& driver = Driver::get();
  RelaxedCapture relaxed;
  CuFunction function = nullptr; // asking for it loads the code into the current context
  driver.check(driver.cuKernelGetFunction(&function, kernel), "cuKernelGetFunction");
  if (shape.sharedBytes > 0)
    driver.check(driver.cuKernelSetAttribute(maxDynamicShared, static_cast<int>(shape.sharedBytes),
                                             kernel, device.ordinal),
                 "cuKernelSetAttribute(max dynamic shared memory)");
  if (shape.cluster > 8)
    driver.check(driver.cuKernelSetAttribute(nonPortableCluster, 1, kernel, device.ordinal),
                 "cuKernelSetAttribute(cluster above 8)");
}

void launchKernel(CuKernel kernel, const LaunchShape& shape, void** parameters, CuStream stream) {
  static_assert(sizeof(CuLaunchAttribute) == 72 && sizeof(CuLaunchConfig) == 56);
  CuLaunchAttribute attributes[2] = {};
  unsigned count = 0;
  if (shape.cluster > 1) {
    attributes[count].id = attributeCluster; // three 32-bit sizes: x, y = 1, z = 1
    attributes[count].value[0] = shape.cluster | 1ull << 32;
    attributes[count++].value[1] = 1;
  }
  if (shape.programmatic) {
    attributes[count].id = attributeProgrammatic;
    attributes[count++].value[0] = 1;
  }
  CuLaunchConfig config = {shape.blocks,      shape.blocksY, shape.blocksZ, shape.threads, 1, 1,
                           shape.sharedBytes, stream,        attributes,    count};
  const Driver& driver = Driver::get();
  driver.check(
      driver.cuLaunchKernelEx(&config, reinterpret_cast<CuFunction>(kernel), parameters, nullptr),
      "cuLaunchKernelEx");
}

} // namespace kiln
