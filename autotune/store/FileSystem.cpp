// Plain POSIX; see FileSystem.h.
#include "autotune/store/FileSystem.h"

#include "autotune/store/Schema.h"
#include "codegen/backend/Fail.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace kiln::autotune {

bool isLocal(long fileSystem) {
  constexpr std::array<unsigned, 10> known = {
      0xEF53,     // ext2, ext3, ext4
      0x58465342, // xfs
      0x9123683E, // btrfs
      0x01021994, // tmpfs
      0x858458F6, // ramfs
      0x794C7630, // overlayfs
      0x2FC12FC1, // zfs
      0xF2F52010, // f2fs
      0xCA451A4E, // bcachefs
      0x3153464A, // jfs
  };
  return std::ranges::find(known, static_cast<unsigned>(fileSystem)) != known.end();
}

static std::filesystem::path folderOf(const std::filesystem::path& path) {
  std::filesystem::path folder = path.parent_path();
  return folder.empty() ? "." : folder;
}

bool liesOnLocalDisk(const std::filesystem::path& path) {
  struct statfs status;
  return ::statfs(folderOf(path).c_str(), &status) == 0 && isLocal(status.f_type);
}

/// Of a mode that is no regular file's.
static const char* nameOf(mode_t mode) {
  return S_ISDIR(mode)    ? "a folder"
         : S_ISFIFO(mode) ? "a FIFO"
         : S_ISSOCK(mode) ? "a socket"
         : S_ISCHR(mode)  ? "a character device"
         : S_ISBLK(mode)  ? "a block device"
                          : "no regular file";
}

/// SQLite's header: its magic first, the application id at byte 68, big-endian.
static bool isStore(const std::filesystem::path& path) {
  constexpr std::string_view magic("SQLite format 3\0", 16);
  constexpr std::size_t place = 68;
  std::array<char, place + 4> header{};
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open())
    fail(ErrorKind::io, "cannot open the store '{}': {}; check the path and its permissions",
         path.string(), std::strerror(errno));
  if (!file.read(header.data(), header.size()) ||
      !std::string_view(header.data(), header.size()).starts_with(magic))
    return false;
  std::int64_t application = 0;
  for (std::size_t i = place; i < header.size(); ++i)
    application = application << 8 | static_cast<unsigned char>(header[i]);
  return application == kApplication;
}

Lies whatLiesAt(const std::filesystem::path& path) {
  struct stat status;
  if (::stat(path.c_str(), &status) != 0)
    return Lies::nothing; // or opening tells what is wrong
  if (!S_ISREG(status.st_mode))
    fail(ErrorKind::input, "'{}' is {}, no store; name a file", path.string(),
         nameOf(status.st_mode));
  if (status.st_size == 0)
    return Lies::emptyFile;
  return isStore(path) ? Lies::store : Lies::otherFile;
}

void requireStoreOrPlace(const std::filesystem::path& path) {
  if (whatLiesAt(path) == Lies::otherFile)
    fail(ErrorKind::input,
         "'{}' is a file of another program: no SQLite database with Kiln's application id {}; it "
         "is left as it is; name another file",
         path.string(), kApplication);
}

void requireReplaceable(const std::filesystem::path& path, const std::filesystem::path& source) {
  requireStoreOrPlace(path);
  std::error_code none;
  if (std::filesystem::equivalent(path, source, none))
    fail(ErrorKind::input,
         "'{}' is what '{}' would be made of, and its history would be lost; "
         "name another file",
         source.string(), path.string());
  for (const char* end : {"-wal", "-journal"}) {
    std::filesystem::path journal = path;
    if (std::filesystem::exists(journal += end, none))
      fail(ErrorKind::io,
           "'{}' is in use: '{}' lies beside it; end the programs that use it, and if none does "
           "'kernel-compile cache doctor' takes in what was left; or name another file",
           path.string(), journal.string());
  }
}

std::string whoElseMayWrite(const std::filesystem::path& path) {
  std::error_code none;
  std::filesystem::path real = std::filesystem::weakly_canonical(path, none);
  if (none)
    real = path;
  auto others = [](const std::filesystem::path& place) -> std::string {
    struct stat status;
    if (::stat(place.c_str(), &status) != 0)
      return "";
    if (status.st_uid != 0 && status.st_uid != ::geteuid())
      return fmt::format("'{}' belongs to user {}", place.string(), status.st_uid);
    const bool ofGroup = (status.st_mode & S_IWGRP) != 0 && status.st_gid != status.st_uid;
    const bool sticky = S_ISDIR(status.st_mode) && (status.st_mode & S_ISVTX) != 0;
    if (sticky || !(ofGroup || (status.st_mode & S_IWOTH) != 0))
      return "";
    return fmt::format("'{}' has the mode {:04o}", place.string(), status.st_mode & 07777U);
  };
  std::string why = others(real);
  if (why.empty())
    why = others(folderOf(real));
  if (why.empty())
    return "";
  return fmt::format(
      "others may write the store '{}', whose kernels run with the rights of whoever "
      "uses it: {}; take their right away ('chmod go-w', 'chown') or keep it elsewhere",
      path.string(), why);
}

std::filesystem::path setAside(const std::filesystem::path& path) {
  auto now = std::chrono::system_clock::now().time_since_epoch();
  std::filesystem::path aside = path;
  aside += fmt::format(".corrupt-{}",
                       std::chrono::duration_cast<std::chrono::microseconds>(now).count());
  std::error_code error;
  std::filesystem::rename(path, aside, error);
  if (error)
    fail(ErrorKind::io, "cannot set the damaged store '{}' aside: {}; remove it, or name another",
         path.string(), error.message());
  for (const char* end : {"-wal", "-shm", "-journal"}) {
    std::filesystem::path from = path, to = aside;
    std::filesystem::rename(from += end, to += end, error); // most often there is none
  }
  return aside;
}

FolderLock::FolderLock(const std::filesystem::path& path, Use use)
    : descriptor(::open(folderOf(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (descriptor < 0)
    return;
  while (::flock(descriptor, use == Use::open ? LOCK_SH : LOCK_EX) != 0 && errno == EINTR) {
  }
}
FolderLock::~FolderLock() {
  if (descriptor >= 0)
    ::close(descriptor); // and with it the lock
}

} // namespace kiln::autotune
