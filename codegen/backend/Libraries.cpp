// The search for shared libraries: toolkits, Python wheels beside torch, the loader's own paths.
#include "codegen/backend/Libraries.h"

#include "codegen/backend/Fail.h"

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>

namespace kiln {

namespace fs = std::filesystem;

namespace {

constexpr const char* nvrtcNames[] = {"libnvrtc.so.13", "libnvrtc.so.12"};

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

/// Entries of a folder whose name begins with `prefix`, newest version first.
std::vector<fs::path> entries(const fs::path& folder, std::string_view prefix) {
  std::vector<fs::path> found;
  std::error_code error;
  fs::directory_iterator it(folder, error), end;
  while (!error && it != end) {
    if (it->path().filename().string().substr(0, prefix.size()) == prefix)
      found.push_back(it->path());
    it.increment(error);
  }
  std::sort(found.rbegin(), found.rend());
  return found;
}

bool isThere(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

/// Collects places; a folder stands for all names of the library in it.
class Places {
 public:
  void folder(const fs::path& folder, const std::string& origin) {
    for (const char* name : nvrtcNames)
      add(folder / name, origin);
  }
  void toolkit(const fs::path& root, const std::string& origin) {
    folder(root / "lib64", origin);
    folder(root / "targets/x86_64-linux/lib", origin);
    folder(root / "lib", origin);
  }
  /// A site-packages folder: where the wheels of CUDA 13 and of CUDA 12 put the library.
  void site(const fs::path& site, const std::string& origin) {
    folder(site / "nvidia/cu13/lib", origin);
    folder(site / "nvidia/cuda_nvrtc/lib", origin);
  }
  void virtualEnvironment(const fs::path& root, const std::string& origin) {
    for (const fs::path& python : entries(root / "lib", "python3"))
      site(python / "site-packages", origin);
  }
  void add(const fs::path& path, const std::string& origin) {
    auto same = [&](const LibraryPlace& place) { return place.path == path.string(); };
    if (std::none_of(list.begin(), list.end(), same))
      list.push_back({path.string(), origin});
  }

  std::vector<LibraryPlace> list;
};

void addNamed(Places& places, const fs::path& path, const std::string& origin) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    places.folder(path, origin);
    places.toolkit(path, origin);
  } else {
    places.add(path, origin);
  }
}

void addTorch(Places& places) {
  std::string sites = environment("KILN_TORCH");
  for (std::size_t begin = 0; begin < sites.size();) {
    std::size_t end = std::min(sites.find(':', begin), sites.size());
    fs::path site = sites.substr(begin, end - begin);
    begin = end + 1;
    if (site.empty())
      continue;
    places.site(site, "KILN_TORCH");
    places.site(site.parent_path(), "KILN_TORCH");
    places.folder(site / "lib", "KILN_TORCH");
  }
  if (std::string root = environment("VIRTUAL_ENV"); !root.empty())
    places.virtualEnvironment(root, "VIRTUAL_ENV");
  std::error_code error;
  fs::path folder = fs::current_path(error);
  while (!error && !folder.empty()) {
    if (isThere(folder / ".venv"))
      places.virtualEnvironment(folder / ".venv", ".venv");
    if (folder == folder.parent_path())
      break;
    folder = folder.parent_path();
  }
}

void* open(const LibraryPlace& place, int flags, std::string& result) {
  if (place.path.find('/') != std::string::npos && !isThere(place.path)) {
    result = "no such file";
    return nullptr;
  }
  void* handle = ::dlopen(place.path.c_str(), flags);
  const char* message = handle ? nullptr : ::dlerror();
  result = handle ? "loaded" : message ? message : "not loaded";
  return handle;
}

std::string pathOf(void* handle, const char* symbol, const std::string& fallback) {
  Dl_info info;
  void* address = ::dlsym(handle, symbol);
  return address && ::dladdr(address, &info) && info.dli_fname ? info.dli_fname : fallback;
}

SharedLibrary openFirst(const std::vector<LibraryPlace>& places, const char* requiredSymbol,
                        std::vector<LibraryAttempt>& attempts) {
  for (const LibraryPlace& place : places) {
    std::string result;
    void* handle = open(place, RTLD_NOW | RTLD_LOCAL, result);
    if (handle && !::dlsym(handle, requiredSymbol)) {
      ::dlclose(handle);
      handle = nullptr;
      result = fmt::format("has no symbol {}", requiredSymbol);
    }
    attempts.push_back({place, result});
    if (handle)
      return {handle, pathOf(handle, requiredSymbol, place.path)};
  }
  return {};
}

} // namespace

void* SharedLibrary::find(const char* symbol) const {
  return ::dlsym(handle, symbol);
}

std::vector<LibraryPlace> nvrtcPlaces(const fs::path& explicitPath) {
  Places places;
  std::string named = environment("KILN_NVRTC");
  if (!explicitPath.empty()) {
    addNamed(places, explicitPath, "--nvrtc");
    return places.list;
  }
  if (!named.empty()) {
    addNamed(places, named, "KILN_NVRTC");
    return places.list;
  }
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (std::string root = environment(variable); !root.empty())
      places.toolkit(root, variable);
  places.toolkit("/usr/local/cuda", "toolkit");
  for (const fs::path& root : entries("/usr/local", "cuda-"))
    places.toolkit(root, "toolkit");
  addTorch(places);
  for (const char* name : nvrtcNames)
    places.add(name, "loader");
  return places.list;
}

std::vector<LibraryPlace> driverPlaces() {
  // Never the bare libcuda.so: in toolkits that is a stub that answers every call with an error.
  std::vector<LibraryPlace> places = {{"libcuda.so.1", "loader"}};
  for (const char* folder : {"/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/local/nvidia/lib64",
                             "/usr/lib/wsl/lib", "/run/opengl-driver/lib"})
    places.push_back({fmt::format("{}/libcuda.so.1", folder), "driver"});
  return places;
}

std::string describe(const std::vector<LibraryAttempt>& attempts) {
  std::string text;
  for (const LibraryAttempt& attempt : attempts)
    text += fmt::format("{}  {} ({}): {}", text.empty() ? "" : "\n", attempt.place.path,
                        attempt.place.origin, attempt.result);
  return text;
}

SharedLibrary openNvrtc(const fs::path& explicitPath, std::vector<LibraryAttempt>* attempts) {
  std::vector<LibraryAttempt> tried;
  SharedLibrary library = openFirst(nvrtcPlaces(explicitPath), "nvrtcCompileProgram", tried);
  if (attempts)
    *attempts = tried;
  if (!library.handle)
    fail(ErrorKind::unavailable,
         "NVRTC (libnvrtc.so.13 or .so.12) was not found; searched:\n{}\nInstall it, for instance "
         "with `pip install nvidia-cuda-nvrtc`, or name it with --nvrtc=PATH or KILN_NVRTC=PATH",
         describe(tried));
  return library;
}

SharedLibrary openDriver(std::vector<LibraryAttempt>* attempts) {
  std::vector<LibraryAttempt> tried;
  SharedLibrary library = openFirst(driverPlaces(), "cuGetProcAddress_v2", tried);
  if (attempts)
    *attempts = tried;
  if (!library.handle)
    fail(ErrorKind::unavailable,
         "the NVIDIA driver (libcuda.so.1 of version 525 or newer) is missing; searched:\n{}\n"
         "Install the driver, or in a container pass the GPU through (docker run --gpus all); "
         "without a GPU use --target=host or compile only",
         describe(tried));
  return library;
}

} // namespace kiln
