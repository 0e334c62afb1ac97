// What the store needs to know of the disk below it.
#pragma once

#include <filesystem>

namespace kiln::autotune {

/// Whether memory shared between processes works on a file system of this kind (f_type of statfs):
/// true for the local ones that are known, false for network file systems and whatever is unknown.
bool isLocal(long fileSystem);
/// The same of the folder that holds `path`.
bool liesOnLocalDisk(const std::filesystem::path& path);

/// What lies at the path of a store. Whose a file is tells SQLite's application id: what is not
/// Kiln's is never written, renamed or replaced.
enum class Lies { nothing, emptyFile, store, otherFile };
/// Throws Error(input) for what is no file, which is not opened: a FIFO would wait for its writer.
Lies whatLiesAt(const std::filesystem::path& path);
/// Throws Error(input) for all but a store and a place where one can begin.
void requireStoreOrPlace(const std::filesystem::path& path);
/// The same for a file that shall take the place of what is there; `source`: of which it is made.
/// A store that somebody has open is not replaced either: Error(io).
void requireReplaceable(const std::filesystem::path& path, const std::filesystem::path& source);

/// Who but this user and root may write the store or put another in its place, as a sentence;
/// empty: nobody. A group with the owner's own number is the owner's alone, as Linux makes them.
std::string whoElseMayWrite(const std::filesystem::path& path);

/// Renames a store's file and its journals to "NAME.corrupt-DATE"; the new name. Throws Error(io).
std::filesystem::path setAside(const std::filesystem::path& path);

/// Keeps opening a store and setting its file aside apart, between processes: whoever renames a
/// file that another is opening leaves that one with the journals of the next. Many may open at a
/// time. A folder that cannot be read is not locked: opening says what is wrong with it.
class FolderLock {
 public:
  enum class Use { open, setAside };
  FolderLock(const std::filesystem::path& path, Use use);
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock();

 private:
  int descriptor;
};

} // namespace kiln::autotune
