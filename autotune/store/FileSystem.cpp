// Plain POSIX; see FileSystem.h.
#include "autotune/store/FileSystem.h"

#include "codegen/backend/Fail.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
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
