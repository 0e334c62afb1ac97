// kiln::doctor and kiln::disassemble: what of the surroundings is there.
#include "kiln/doctor.h"

#include "codegen/backend/Driver.h"
#include "codegen/backend/Fail.h"
#include "codegen/backend/Libraries.h"
#include "codegen/backend/Nvrtc.h"
#include "codegen/host/HostCompiler.h"
#include "kiln/files.h"
#include "kiln/plan.h"

#include <cstdlib>
#include <filesystem>
#include <unistd.h>

#include <fmt/format.h>

namespace kiln {
namespace {

using State = Finding::State;

/// A finding from an attempt: its text if it succeeds, the error's if not.
template <class Attempt> Finding attempt(const char* name, const char* cost, Attempt work) {
  try {
    return {name, State::found, work(), ""};
  } catch (const Error& error) {
    State state = error.kind() == ErrorKind::unavailable ? State::missing : State::broken;
    return {name, state, error.what(), cost};
  }
}

std::string gpuText() {
  std::string text;
  for (const DeviceInfo& device : Driver::get().devices())
    text += fmt::format("{}{} (sm_{}{}, {} multiprocessors, {} GiB)", text.empty() ? "" : ", ",
                        device.name, device.major, device.minor, device.multiprocessors,
                        device.memoryBytes >> 30);
  return text;
}

std::vector<std::filesystem::path> disassemblerPlaces() {
  std::vector<std::filesystem::path> places;
  auto add = [&](const std::filesystem::path& folder) { places.push_back(folder / "nvdisasm"); };
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* folder = std::getenv(variable))
      add(std::filesystem::path(folder) / "bin");
  add("/usr/local/cuda/bin");
  if (const char* path = std::getenv("PATH")) {
    std::string_view rest = path;
    while (!rest.empty()) {
      std::size_t end = std::min(rest.find(':'), rest.size());
      if (end > 0)
        add(std::string(rest.substr(0, end)));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  return places;
}

std::filesystem::path findDisassembler() {
  auto places = disassemblerPlaces();
  for (const auto& place : places)
    if (access(place.c_str(), X_OK) == 0)
      return place;
  fail(ErrorKind::unavailable,
       "no nvdisasm in CUDA_HOME, CUDA_PATH, /usr/local/cuda/bin or PATH; it comes with the CUDA "
       "toolkit");
}

std::string temporaryFolderText() {
  auto folder = std::filesystem::temp_directory_path();
  auto file = folder / fmt::format("kiln-doctor-{}", getpid());
  writeFile(file, std::string_view("x"));
  std::filesystem::remove(file);
  return folder.string() + " is writable";
}

} // namespace

std::vector<Finding> doctor(const std::filesystem::path& nvrtc) {
  std::vector<Finding> findings;
  findings.push_back(attempt("NVRTC", "nothing can be compiled to a cubin", [&] {
    NvrtcInfo info = nvrtcInfo(nvrtc);
    return fmt::format("{}.{} at {}", info.major, info.minor, info.path);
  }));
  findings.push_back(attempt("driver", "no kernel can run on a GPU here", [] {
    const Driver& driver = Driver::get();
    return fmt::format("CUDA {}.{} at {}", driver.version() / 1000, driver.version() % 1000 / 10,
                       driver.path());
  }));
  findings.push_back(attempt("GPU", "kernels run on the host target only, without times", [&] {
    if (findings.back().state != Finding::State::found)
      fail(ErrorKind::unavailable, "none that could be asked for without the driver");
    return gpuText();
  }));
  findings.push_back(attempt("C++ compiler", "no kernel can run on the host target", [] {
    HostCompiler compiler{HostCompileOptions()};
    const char* command = std::getenv("KILN_HOST_CXX");
    return fmt::format("{} answers", command ? command : "c++");
  }));
  findings.push_back(attempt("disassembler", "inspect shows no machine code",
                             [] { return findDisassembler().string(); }));
  findings.push_back(
      attempt("temporary files", "the host target cannot compile", temporaryFolderText));
  return findings;
}

std::string disassemble(const Program& program) {
  auto tool = findDisassembler();
  std::string pattern = (std::filesystem::temp_directory_path() / "kiln-sass-XXXXXX").string();
  if (!mkdtemp(pattern.data()))
    fail(ErrorKind::io, "cannot make a temporary folder '{}'", pattern);
  std::filesystem::path folder = pattern;
  struct Cleanup {
    std::filesystem::path folder;
    ~Cleanup() { removeFolder(folder); }
  } cleanup{folder};
  writeFile(folder / "kernel.cubin", program.cubin());
  std::string command = fmt::format("'{}' '{}' > '{}' 2>&1", tool.string(),
                                    (folder / "kernel.cubin").string(), (folder / "sass").string());
  int status = std::system(command.c_str());
  std::string text = readFile(folder / "sass");
  if (status != 0)
    fail(ErrorKind::unavailable, "{} failed: {}", tool.string(), text);
  return text;
}

} // namespace kiln
