// Caching and loading of compiled kernel text.
#include "codegen/host/HostLibrary.h"

#include "codegen/backend/Fail.h"
#include "codegen/host/HostCompiler.h"
#include "kiln/files.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <link.h>
#include <map>
#include <unistd.h>

namespace kiln {

namespace fs = std::filesystem;

namespace {

/// A folder that others cannot read, removed at the end unless the caller named it.
class Workplace {
 public:
  explicit Workplace(const fs::path& keep) : folder(keep), temporary(keep.empty()) {
    if (!temporary) {
      fs::create_directories(folder);
      return;
    }
    std::string pattern = (fs::temp_directory_path() / "kiln-host-XXXXXX").string();
    if (!::mkdtemp(pattern.data()))
      fail(ErrorKind::io,
           "cannot create the folder '{}': {}; set TMPDIR to a folder with free "
           "space",
           pattern, std::strerror(errno));
    folder = pattern;
  }
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;
  ~Workplace() {
    if (temporary)
      removeFolder(folder);
  }
  const fs::path& path() const { return folder; }

 private:
  fs::path folder;
  bool temporary;
};

fs::path cachedFile(const std::string& key) {
  const char* folder = std::getenv("KILN_HOST_CACHE");
  return folder && *folder ? fs::path(folder) / (key + ".so") : fs::path();
}

void keepForLater(const fs::path& library, const fs::path& cached) {
  std::string bytes = readFile(library);
  fs::create_directories(cached.parent_path());
  writeFile(cached, bytes);
}

} // namespace

bool isSanitizedBuild() {
#ifdef KILN_SANITIZED
  return true;
#else
  return false;
#endif
}

HostLibrary::HostLibrary(void* opened) : handle(opened) {
  auto find = reinterpret_cast<HostRuntime* (*)()>(::dlsym(handle, "host_runtime_of_kiln"));
  if (find)
    table = find();
}

/// Null if the file is no such library.
std::shared_ptr<HostLibrary> HostLibrary::load(const fs::path& path) {
  // Never closed: the sanitizers' reports and the process's cache refer to it until the end.
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    return nullptr;
  std::shared_ptr<HostLibrary> library(new HostLibrary(handle));
  return library->table ? library : nullptr;
}

std::shared_ptr<HostLibrary> HostLibrary::compile(std::string_view cudaText,
                                                  const HostCompileOptions& options) {
  static std::mutex mutex; // also keeps two threads from compiling the same text
  static std::map<std::string, std::shared_ptr<HostLibrary>> loaded;
  HostCompiler compiler(options);
  std::string key = compiler.key(cudaText);
  std::lock_guard lock(mutex);
  std::shared_ptr<HostLibrary>& library = loaded[key];
  if (library && options.keep.empty())
    return library;
  fs::path cached = cachedFile(key);
  if (!cached.empty() && options.keep.empty() && fs::exists(cached))
    library = load(cached); // a damaged file is compiled again
  if (library && options.keep.empty())
    return library;
  Workplace workplace(options.keep);
  fs::path built = compiler.build(cudaText, workplace.path());
  if (!library)
    library = load(built);
  if (!library)
    fail(
        ErrorKind::unavailable,
        "the host compiler's output cannot be loaded; KILN_HOST_CXX must compile for this machine");
  if (!cached.empty())
    keepForLater(built, cached);
  return library;
}

void* HostLibrary::kernel(std::string_view name) const {
  void* entry = ::dlsym(handle, std::string(name).c_str());
  // A name of the C library is found as well, since the kernels call it.
  link_map* own = nullptr;
  Dl_info found{};
  const bool isOwn = entry && ::dlinfo(handle, RTLD_DI_LINKMAP, &own) == 0 &&
                     ::dladdr(entry, &found) != 0 && std::strcmp(found.dli_fname, own->l_name) == 0;
  if (!isOwn)
    fail(ErrorKind::input, "the kernel text has no entry point '{}'; check the launch plan", name);
  return entry;
}

} // namespace kiln
