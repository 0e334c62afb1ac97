// The compiler is started directly, without a shell, so that no name needs quoting.
#include "codegen/host/HostCompiler.h"

#include "codegen/backend/Fail.h"
#include "kiln/files.h"

#include <fmt/ranges.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <spawn.h>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

namespace kiln {

struct EmbeddedFile {
  const char* name;
  const char* text;
};
// Made by embed_text(), which names them after its targets. The twin's replace their namesakes.
extern "C" const EmbeddedFile kiln_device_files[];    // NOLINT(readability-identifier-naming)
extern "C" const EmbeddedFile kiln_host_twin_files[]; // NOLINT(readability-identifier-naming)

namespace {

namespace fs = std::filesystem;

constexpr std::size_t maxLogBytes = 6000; // of a message; the rest repeats itself

std::vector<std::string> words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> result;
  for (std::string word; stream >> word;)
    result.push_back(word);
  return result;
}

std::vector<std::string> compilerCommand(const HostCompileOptions& options) {
  const char* variable = std::getenv("KILN_HOST_CXX");
  std::vector<std::string> command = words(options.compiler);
  if (command.empty() && variable)
    command = words(variable);
  if (command.empty())
    command = {KILN_HOST_DEFAULT_CXX};
  return command;
}

struct Outcome {
  int startError = 0; // errno, if the program could not be started
  int status = 0;     // as of waitpid
  std::string output; // both streams
};

/// Runs a program with both output streams in the file `log`.
Outcome runProgram(const std::vector<std::string>& command, const fs::path& log) {
  std::vector<char*> arguments;
  for (const std::string& word : command)
    arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0666);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t child = 0;
  Outcome outcome;
  outcome.startError =
      ::posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (outcome.startError != 0)
    return outcome;
  while (::waitpid(child, &outcome.status, 0) < 0)
    if (errno != EINTR)
      fail(ErrorKind::io, "cannot wait for '{}': {}", command[0], std::strerror(errno));
  outcome.output = readFile(log);
  return outcome;
}

fs::path temporaryFile() {
  std::string path = (fs::temp_directory_path() / "kiln-XXXXXX").string();
  int descriptor = ::mkstemp(path.data());
  if (descriptor < 0)
    fail(ErrorKind::io, "cannot create '{}': {}; set TMPDIR to a folder with free space", path,
         std::strerror(errno));
  ::close(descriptor);
  return path;
}

/// What the compiler says of itself, asked once a process: part of the key of cached libraries.
std::string versionOf(const std::vector<std::string>& command) {
  static std::mutex mutex;
  static std::map<std::vector<std::string>, std::string> known;
  std::lock_guard lock(mutex);
  if (auto found = known.find(command); found != known.end())
    return found->second;
  std::vector<std::string> asking = command;
  asking.push_back("--version");
  fs::path log = temporaryFile();
  Outcome outcome = runProgram(asking, log);
  fs::remove(log);
  if (outcome.startError != 0 || outcome.status != 0)
    fail(ErrorKind::unavailable,
         "the host target needs a C++ compiler, and '{}' {}; install g++ 12 or clang 14 or later, "
         "or set KILN_HOST_CXX",
         fmt::join(asking, " "),
         outcome.startError != 0 ? std::strerror(outcome.startError)
                                 : fmt::format("failed: {}", outcome.output));
  return known[command] = outcome.output;
}

/// 128 bits of FNV-1a: enough that two texts never meet by chance.
class Hash {
 public:
  void add(std::string_view text) {
    for (unsigned char c : text)
      addByte(c);
    for (std::size_t size = text.size(), i = 0; i < 8; ++i) // so that joints between texts count
      addByte(static_cast<unsigned char>(size >> 8 * i));
  }
  std::string text() const {
    return fmt::format("{:016x}{:016x}", static_cast<std::uint64_t>(value >> 64),
                       static_cast<std::uint64_t>(value));
  }

 private:
  __extension__ using Wide = unsigned __int128;
  void addByte(unsigned char c) {
    value ^= c;
    value *= (Wide(0x0000000001000000) << 64) | 0x000000000000013b;
  }
  Wide value = (Wide(0x6c62272e07bb0142) << 64) | 0x62b821756295c58d;
};

/// The device library with the twin's files in place of their namesakes.
std::map<std::string, std::string_view> headers() {
  std::map<std::string, std::string_view> result;
  for (const EmbeddedFile* file = kiln_device_files; file->name; ++file)
    result[file->name] = file->text;
  for (const EmbeddedFile* file = kiln_host_twin_files; file->name; ++file)
    result[file->name] = file->text;
  return result;
}

void writePlain(const fs::path& path, std::string_view text) {
  fs::create_directories(path.parent_path());
  writeFile(path, text);
}

/// Throws Error(input) with the command and its messages, if it does not end well.
void runOnKernel(const std::vector<std::string>& tool, const fs::path& log) {
  Outcome outcome = runProgram(tool, log);
  if (outcome.startError == 0 && outcome.status == 0)
    return;
  std::string messages =
      outcome.startError != 0 ? std::strerror(outcome.startError) : outcome.output;
  if (messages.size() > maxLogBytes)
    messages = messages.substr(0, maxLogBytes) + "...";
  fail(ErrorKind::input, "the host compiler refused the kernel text\n  {}\n{}",
       fmt::join(tool, " "), messages);
}

} // namespace

HostCompiler::HostCompiler(const HostCompileOptions& options) : command(compilerCommand(options)) {
  version = versionOf(command);
  // No contraction to fused multiply-add: the same results on every machine.
  for (const char* flag : {"-x", "c++", "-std=c++20", "-O1", "-fPIC", "-c", "-w",
                           "-ffp-contract=off", "-fvisibility=hidden"})
    command.push_back(flag);
  if (options.sanitize) // run once: optimising takes longer than it saves. What is left out finds
                        // nothing that AddressSanitizer does not.
    for (const char* flag : {"-O0", "-fsanitize=address,undefined",
                             "-fno-sanitize=vptr,null,object-size,pointer-overflow",
                             "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g1"})
      command.push_back(flag);
  command.insert(command.end(), options.flags.begin(), options.flags.end());
}

std::string HostCompiler::key(std::string_view cudaText) const {
  Hash hash;
  hash.add(version);
  for (const std::string& word : command)
    hash.add(word);
  for (const auto& [name, text] : headers()) {
    hash.add(name);
    hash.add(text);
  }
  hash.add(cudaText);
  return hash.text();
}

fs::path HostCompiler::build(std::string_view cudaText, const fs::path& folder) const {
  for (const auto& [name, text] : headers())
    writePlain(folder / name, text);
  const std::string source = folder / "kernel.cu", object = folder / "kernel.o",
                    library = folder / "kernel.so";
  writePlain(source, cudaText);
  std::vector<std::string> compile = command;
  compile.insert(compile.end(), {"-I", folder.string(), source, "-o", object});
  runOnKernel(compile, folder / "compile.log");
  // Called directly: a compiler takes longer to call the linker than it runs. Kernels need nothing
  // of the C++ library but that exceptions of what they call may pass them.
  runOnKernel({"ld", "-shared", "--eh-frame-hdr", object, "-o", library, "-lm"},
              folder / "link.log");
  return library;
}

} // namespace kiln
