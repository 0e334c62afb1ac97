// Atomic writing by nameless or temporary file, fsync and rename, on plain POSIX calls, so that the
// reason of a failure (no permission, disk full, not a folder) reaches the message unchanged.
#include "kiln/files.h"

#include "codegen/backend/Fail.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

namespace kiln {

namespace {

[[noreturn]] void ioError(const char* what, const std::filesystem::path& path, int code) {
  const char* hint = "check the path and its permissions";
  if (code == ENOSPC || code == EDQUOT || code == EFBIG)
    hint = "free some space or write to another disk";
  else if (code == ENOENT || code == ENOTDIR)
    hint = "check that the folder exists";
  else if (code == EISDIR)
    hint = "give the path of a file";
  fail(ErrorKind::io, "cannot {} '{}': {}; {}", what, path.string(), std::strerror(code), hint);
}

class File {
 public:
  explicit File(int descriptor) : descriptor(descriptor) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { close(); }

  int get() const { return descriptor; }
  /// Errors may show only here, on network file systems; 0 or errno.
  int close() {
    int result = descriptor > 2 && ::close(descriptor) != 0 ? errno : 0;
    descriptor = -1;
    return result;
  }

 private:
  int descriptor;
};

int writeAll(int descriptor, std::string_view text) {
  while (!text.empty()) {
    ssize_t count = ::write(descriptor, text.data(), text.size());
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return errno;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return 0;
}

void writeInPlace(const std::filesystem::path& path, std::string_view contents) {
  File file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (file.get() < 0)
    ioError("write", path, errno);
  int code = writeAll(file.get(), contents);
  if (code == 0)
    code = file.close();
  if (code != 0)
    ioError("write", path, code);
}

std::filesystem::path folderOf(const std::filesystem::path& path) {
  std::filesystem::path folder = path.parent_path();
  return folder.empty() ? "." : folder;
}

std::filesystem::path nameBeside(const std::filesystem::path& path) {
  static std::atomic<unsigned> counter = 0;
  std::filesystem::path name = path;
  name += fmt::format(".{}.{}.tmp", ::getpid(), counter++);
  return name;
}

/// A new file on the file system of `path`. Without a name where the system can do that
/// (`temporary` stays empty): then even a killed process leaves nothing behind.
File createBeside(const std::filesystem::path& path, std::filesystem::path& temporary) {
  if (::access("/proc/self/fd", X_OK) == 0) {
    int descriptor = ::open(folderOf(path).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    if (descriptor >= 0)
      return File(descriptor);
  }
  for (int attempt = 0; attempt < 100; ++attempt) {
    temporary = nameBeside(path);
    int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor >= 0)
      return File(descriptor);
    if (errno != EEXIST)
      ioError("write", path, errno);
  }
  ioError("write", path, EEXIST);
}

/// Gives the nameless file behind `descriptor` a name; a complete file only comes to have one.
int nameFile(int descriptor, const std::filesystem::path& name) {
  std::string self = fmt::format("/proc/self/fd/{}", descriptor);
  int result = ::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW);
  return result == 0 ? 0 : errno;
}

/// The rename itself must survive a power cut; a folder that cannot be synced is no failure.
void syncFolder(const std::filesystem::path& path) {
  File file(::open(folderOf(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (file.get() >= 0)
    ::fsync(file.get());
}

} // namespace

std::string readFile(const std::filesystem::path& path) {
  bool standardInput = path == "-";
  File file(standardInput ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0)
    ioError("read", path, errno);
  std::string contents;
  char chunk[1 << 16];
  while (true) {
    ssize_t count = ::read(file.get(), chunk, sizeof chunk);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      ioError("read", path, errno);
    if (count == 0)
      return contents;
    contents.append(chunk, static_cast<std::size_t>(count));
  }
}

void writeFile(const std::filesystem::path& path, std::string_view contents) {
  struct stat status;
  if (::stat(path.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode))
      ioError("write", path, EISDIR);
    if (!S_ISREG(status.st_mode))
      return writeInPlace(path, contents);
  }
  std::filesystem::path temporary;
  File file = createBeside(path, temporary);
  int code = writeAll(file.get(), contents);
  if (code == 0 && ::fsync(file.get()) != 0 && errno != EINVAL)
    code = errno; // EINVAL: a file system without fsync
  if (code == 0 && temporary.empty()) {
    temporary = nameBeside(path);
    code = nameFile(file.get(), temporary);
  }
  int closed = file.close();
  code = code == 0 ? closed : code;
  if (code == 0 && ::rename(temporary.c_str(), path.c_str()) != 0)
    code = errno;
  if (code != 0) {
    if (!temporary.empty())
      ::unlink(temporary.c_str());
    ioError("write", path, code);
  }
  syncFolder(path);
}

void writeFile(const std::filesystem::path& path, std::span<const std::byte> contents) {
  writeFile(path,
            std::string_view(reinterpret_cast<const char*>(contents.data()), contents.size()));
}

void removeFolder(const std::filesystem::path& path) noexcept {
  constexpr int openFolders = 8;
  ::nftw(
      path.c_str(),
      [](const char* name, const struct stat*, int, FTW*) {
        static_cast<void>(::remove(name));
        return 0;
      },
      openFolders, FTW_DEPTH | FTW_PHYS); // contents first, and links themselves
}

} // namespace kiln
