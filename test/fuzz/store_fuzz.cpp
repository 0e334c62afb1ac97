// Any bytes given as a store, guided by the pages of a real one: every reader and import either
// work or throw a kiln::Error, and what import took in is sound.
#include "kiln/cache.h"

#include <cstdlib>
#include <fstream>
#include <unistd.h>

using namespace kiln;

static const std::filesystem::path& folder() {
  static const std::filesystem::path path = [] {
    const char* memory = "/dev/shm"; // no disk is needed for files of a moment
    std::filesystem::path base =
        std::filesystem::is_directory(memory) ? memory : std::filesystem::temp_directory_path();
    base /= "kiln-store-fuzz-" + std::to_string(::getpid());
    std::filesystem::create_directories(base);
    std::atexit([] { std::filesystem::remove_all(folder()); });
    return base;
  }();
  return path;
}

template <class Work> static bool works(Work work) {
  try {
    work();
    return true;
  } catch (const Error&) {
    return false;
  }
}

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  std::filesystem::path file = folder() / "file", store = folder() / "store";
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  works([&] {
    for (const cache::Entry& entry : cache::list(file))
      works([&] { cache::show(file, entry.key); });
  });
  works([&] { cache::doctor(file); });
  works([&] { cache::exportTo(file, folder() / "part"); });
  if (works([&] { cache::import(file, store); }))
    for (const Finding& finding : cache::doctor(store))
      if (finding.state == Finding::State::broken)
        std::abort();
  for (const auto& left : std::filesystem::directory_iterator(folder()))
    std::filesystem::remove_all(left);
  return 0;
}
