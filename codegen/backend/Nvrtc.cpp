// NVRTC through functions declared here by hand, so that building Kiln needs no CUDA toolkit. The
// signatures have been stable since CUDA 11.
#include "codegen/backend/Nvrtc.h"

#include "codegen/backend/Fail.h"
#include "codegen/backend/Libraries.h"

#include <dlfcn.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <unistd.h>

namespace kiln {

namespace {

using NvrtcProgram = struct OpaqueNvrtcProgram*;

enum NvrtcStatus : int { success = 0, outOfMemory = 1, builtinFailure = 7 };

struct Nvrtc {
  NvrtcInfo info;
  const char* (*getErrorString)(int) = nullptr;
  int (*version)(int*, int*) = nullptr;
  int (*getNumSupportedArchs)(int*) = nullptr;
  int (*getSupportedArchs)(int*) = nullptr;
  int (*createProgram)(NvrtcProgram*, const char* source, const char* name, int headers,
                       const char* const* texts, const char* const* names) = nullptr;
  int (*destroyProgram)(NvrtcProgram*) = nullptr;
  int (*compileProgram)(NvrtcProgram, int count, const char* const* options) = nullptr;
  int (*getProgramLogSize)(NvrtcProgram, std::size_t*) = nullptr;
  int (*getProgramLog)(NvrtcProgram, char*) = nullptr;
  int (*getCubinSize)(NvrtcProgram, std::size_t*) = nullptr;
  int (*getCubin)(NvrtcProgram, char*) = nullptr;
  int (*getPtxSize)(NvrtcProgram, std::size_t*) = nullptr;
  int (*getPtx)(NvrtcProgram, char*) = nullptr;

  void check(int status, const char* call) const {
    if (status != success)
      fail(status == outOfMemory ? ErrorKind::unavailable : ErrorKind::input,
           "{} failed: {} (NVRTC {}.{}, {})", call, getErrorString(status), info.major, info.minor,
           info.path);
  }
};

template <typename Function>
void bindCall(const SharedLibrary& library, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(library.find(symbol));
  if (!function)
    fail(ErrorKind::unavailable, "'{}' has no {}; NVRTC of CUDA 12 or 13 is needed", library.path,
         symbol);
}

/// NVRTC asks for its built-ins by name alone, and not every loader then looks beside NVRTC: they
/// are loaded from there first. If that fails, the compilation tells.
void loadBuiltins(const NvrtcInfo& info) {
  const std::filesystem::path folder = std::filesystem::path(info.path).parent_path();
  const std::string name = fmt::format("libnvrtc-builtins.so.{}.{}", info.major, info.minor);
  dlopen((folder / name).c_str(), RTLD_NOW | RTLD_GLOBAL);
}

Nvrtc load(const std::filesystem::path& path) {
  SharedLibrary library = openNvrtc(path);
  Nvrtc nvrtc;
  nvrtc.info.path = library.path;
  bindCall(library, "nvrtcGetErrorString", nvrtc.getErrorString);
  bindCall(library, "nvrtcVersion", nvrtc.version);
  bindCall(library, "nvrtcGetNumSupportedArchs", nvrtc.getNumSupportedArchs);
  bindCall(library, "nvrtcGetSupportedArchs", nvrtc.getSupportedArchs);
  bindCall(library, "nvrtcCreateProgram", nvrtc.createProgram);
  bindCall(library, "nvrtcDestroyProgram", nvrtc.destroyProgram);
  bindCall(library, "nvrtcCompileProgram", nvrtc.compileProgram);
  bindCall(library, "nvrtcGetProgramLogSize", nvrtc.getProgramLogSize);
  bindCall(library, "nvrtcGetProgramLog", nvrtc.getProgramLog);
  bindCall(library, "nvrtcGetCUBINSize", nvrtc.getCubinSize);
  bindCall(library, "nvrtcGetCUBIN", nvrtc.getCubin);
  bindCall(library, "nvrtcGetPTXSize", nvrtc.getPtxSize);
  bindCall(library, "nvrtcGetPTX", nvrtc.getPtx);
  nvrtc.check(nvrtc.version(&nvrtc.info.major, &nvrtc.info.minor), "nvrtcVersion");
  loadBuiltins(nvrtc.info);
  int count = 0;
  nvrtc.check(nvrtc.getNumSupportedArchs(&count), "nvrtcGetNumSupportedArchs");
  nvrtc.info.architectures.resize(static_cast<std::size_t>(count));
  nvrtc.check(nvrtc.getSupportedArchs(nvrtc.info.architectures.data()), "nvrtcGetSupportedArchs");
  return nvrtc;
}

/// NVRTC destroys what it needs when the process ends, in the reverse order of what it has
/// registered: when it was loaded, and when it compiled for the first time. Just before that
/// nothing is compiled any more. (Only a process that ends during that first time, in another
/// thread, is not helped.)
class End {
 public:
  /// What is registered later is called earlier. (on_exit: atexit() is none of Immortal.cpp's.)
  static void watch() { ::on_exit(&come, nullptr); }

  /// While NVRTC is used.
  class Delay {
   public:
    explicit Delay(const std::string& name) {
      ++compilers;
      if (!hasCome)
        return;
      leave();
      fail(ErrorKind::unavailable,
           "NVRTC cannot compile '{}' any more: the process is ending; compile before main returns",
           name);
    }
    Delay(const Delay&) = delete;
    Delay& operator=(const Delay&) = delete;
    ~Delay() { leave(); }

   private:
    static void leave() {
      if (--compilers == 0)
        compilers.notify_all();
    }
  };

 private:
  static void come(int, void*) {
    hasCome = true;
    if (::getpid() == process) // those of a parent are not in a forked child
      while (const unsigned now = compilers)
        compilers.wait(now);
  }
  static inline const pid_t process = ::getpid();
  static inline std::atomic<bool> hasCome = false;
  static inline std::atomic<unsigned> compilers = 0;
};

/// One table per path asked for, kept for the life of the process. A failed search is repeated
/// at the next call, when the user may have installed the library.
const Nvrtc& nvrtcAt(const std::filesystem::path& path) {
  static std::mutex mutex;
  static std::map<std::string, Nvrtc>* tables = new std::map<std::string, Nvrtc>;
  std::lock_guard lock(mutex);
  auto found = tables->find(path.string());
  if (found == tables->end()) {
    found = tables->emplace(path.string(), load(path)).first;
    End::watch();
  }
  return found->second;
}

/// With a driver NVRTC may answer from its cache, and then there is no assembler log.
bool driverPresent() {
  static const bool present = [] {
    try {
      return openDriver().handle != nullptr;
    } catch (const Error&) {
      return false;
    }
  }();
  return present;
}

class Compilation {
 public:
  Compilation(const Nvrtc& nvrtc, const CudaJob& job) : delay(job.name), nvrtc(nvrtc) {
    std::vector<const char*> names, texts;
    for (const CudaHeader& header : job.headers) {
      names.push_back(header.name.c_str());
      texts.push_back(header.text.c_str());
    }
    nvrtc.check(nvrtc.createProgram(&handle, job.source.c_str(), job.name.c_str(),
                                    static_cast<int>(names.size()), texts.data(), names.data()),
                "nvrtcCreateProgram");
  }
  Compilation(const Compilation&) = delete;
  Compilation& operator=(const Compilation&) = delete;
  ~Compilation() { nvrtc.destroyProgram(&handle); }

  int compile(const std::vector<std::string>& options) {
    std::vector<const char*> pointers;
    for (const std::string& option : options)
      pointers.push_back(option.c_str());
    const int code =
        nvrtc.compileProgram(handle, static_cast<int>(pointers.size()), pointers.data());
    static std::once_flag first;
    std::call_once(first, End::watch);
    return code;
  }

  std::string log() { return text(nvrtc.getProgramLogSize, nvrtc.getProgramLog, "the log"); }
  std::string ptx() { return text(nvrtc.getPtxSize, nvrtc.getPtx, "PTX"); }
  std::vector<std::byte> cubin() {
    std::size_t size = 0;
    nvrtc.check(nvrtc.getCubinSize(handle, &size), "nvrtcGetCUBINSize");
    std::vector<std::byte> bytes(size);
    if (size > 0)
      nvrtc.check(nvrtc.getCubin(handle, reinterpret_cast<char*>(bytes.data())), "nvrtcGetCUBIN");
    return bytes;
  }

 private:
  std::string text(int (*size)(NvrtcProgram, std::size_t*), int (*get)(NvrtcProgram, char*),
                   const char* what) {
    std::size_t bytes = 0;
    nvrtc.check(size(handle, &bytes), what);
    std::string result(bytes, '\0');
    if (bytes > 0)
      nvrtc.check(get(handle, result.data()), what);
    while (!result.empty() && result.back() == '\0')
      result.pop_back();
    return result;
  }

  const End::Delay delay;
  const Nvrtc& nvrtc;
  NvrtcProgram handle = nullptr;
};

std::atomic<std::uint64_t> compiled = 0;

/// What is asked of every compile, and other ways to write it.
struct OwnOption {
  const char* text;
  std::string_view spellings[2];
};
constexpr OwnOption ownOptions[] = {
    {"-std=c++20", {"-std", "--std"}},
    {"-default-device", {"-default-device", "--device-as-default-execution-space"}}};

/// Each option at most once: NVRTC takes the first of two silently or warns, as it pleases.
std::vector<std::string> optionsOf(const CudaJob& job, const Nvrtc& nvrtc) {
  std::vector<std::string> options;
  auto add = [&](const std::string& option, std::initializer_list<std::string_view> spellings) {
    for (const std::string& given : job.options)
      for (std::string_view spelling : spellings)
        if (given.substr(0, spelling.size()) == spelling)
          return;
    options.push_back(option);
  };
  add("-arch=" + job.arch, {"-arch", "--gpu-architecture"});
  for (const OwnOption& own : ownOptions)
    add(own.text, {own.spellings[0], own.spellings[1]});
  add("--ptxas-options=-v", {"--ptxas-options=-v", "-Xptxas=-v"});
  if (nvrtc.info.major > 12 || (nvrtc.info.major == 12 && nvrtc.info.minor >= 4))
    add("--minimal", {"--minimal", "-minimal"}); // no textures, no runtime API: less to parse
  if (job.lineInfo)
    add("-lineinfo", {"-lineinfo", "--generate-line-info"});
  if (nvrtc.info.major >= 13 && job.threads > 1)
    add(fmt::format("--split-compile={}", job.threads), {"--split-compile", "-split-compile"});
  if (nvrtc.info.major >= 13 && driverPresent())
    add("--no-cache", {"--no-cache", "-no-cache"});
  options.insert(options.end(), job.options.begin(), job.options.end());
  return options;
}

} // namespace

CudaResult compileCuda(const CudaJob& job) {
  const Nvrtc& nvrtc = nvrtcAt(job.nvrtc);
  auto start = std::chrono::steady_clock::now();
  Compilation program(nvrtc, job);
  std::vector<std::string> options = optionsOf(job, nvrtc);
  ++compiled;
  int status = program.compile(options);
  CudaResult result;
  result.log = program.log();
  if (status == builtinFailure)
    fail(ErrorKind::unavailable,
         "NVRTC cannot load its libnvrtc-builtins.so, which must lie beside '{}'; reinstall it or "
         "name a complete one with --nvrtc=PATH\n{}",
         nvrtc.info.path, result.log);
  if (status != success)
    fail(ErrorKind::input,
         "'{}' does not compile for {}: {} (NVRTC {}.{}, knows sm_{})\noptions: {}\n{}", job.name,
         job.arch, nvrtc.getErrorString(status), nvrtc.info.major, nvrtc.info.minor,
         fmt::join(nvrtc.info.architectures, ", sm_"), fmt::join(options, " "), result.log);
  result.cubin = program.cubin();
  if (result.cubin.empty())
    fail(ErrorKind::input,
         "'{}': NVRTC made no cubin for '{}'; name a real architecture such as sm_90a, not a "
         "virtual one",
         job.name, job.arch);
  if (job.wantPtx)
    result.ptx = program.ptx();
  std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
  result.milliseconds = time.count();
  return result;
}

std::string codeOptions() {
  std::vector<std::string_view> texts;
  for (const OwnOption& own : ownOptions)
    texts.push_back(own.text);
  return fmt::format("{}", fmt::join(texts, " "));
}

std::uint64_t compilations() {
  return compiled;
}

NvrtcInfo nvrtcInfo(const std::filesystem::path& nvrtc) {
  return nvrtcAt(nvrtc).info;
}

} // namespace kiln
