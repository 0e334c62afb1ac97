// A store's file opened for whatever can be done with it: made, brought up to date, copied into
// memory, set aside. What is wrong with it is told in words.
#include "autotune/store/FileSystem.h"
#include "autotune/store/Schema.h"
#include "autotune/store/Store.h"
#include "codegen/backend/Fail.h"

#include <atomic>
#include <unistd.h>

namespace kiln::autotune {

namespace {

std::unique_ptr<Database> memory() {
  static std::atomic<int> counter = 0;
  return std::make_unique<Database>(fmt::format("kiln-store-{}-{}", fmt::ptr(&counter), counter++),
                                    Database::Access::memory);
}

void makeFolderOf(const std::filesystem::path& path) {
  std::error_code ignored; // opening tells what is wrong
  if (!path.parent_path().empty())
    std::filesystem::create_directories(path.parent_path(), ignored);
}

/// The caller holds the folder's lock.
std::unique_ptr<Database> openForWriting(const std::filesystem::path& path) {
  requireStoreOrPlace(path);
  auto database = std::make_unique<Database>(path, Database::Access::write);
  claim(*database);
  auto steps = schemaSteps();
  if (isEmpty(*database))
    migrate(*database, steps);
  if (checkSchema(*database, steps) < std::int64_t(steps.size()))
    migrate(*database, steps);
  database->chooseJournal();
  return database;
}

std::unique_ptr<Database> openForReading(const std::filesystem::path& path,
                                         Database::Access access) {
  std::filesystem::path journal = path;
  journal += "-wal";
  std::error_code none;
  requireStoreOrPlace(path);
  // Who may not write the file could not take away the journals that reading makes.
  if (::access(path.c_str(), W_OK) != 0 && !std::filesystem::exists(journal, none))
    access = Database::Access::immutable;
  if (access == Database::Access::immutable && std::filesystem::file_size(journal, none) > 0 &&
      !none)
    kiln::fail(
        ErrorKind::io,
        "the store '{}' is being written: '{}' holds what is not in it yet; end the programs "
        "that use it, or ship a copy made by 'kernel-compile cache export'",
        path.string(), journal.string());
  FolderLock lock(path, FolderLock::Use::open);
  auto database = std::make_unique<Database>(path, access);
  auto steps = schemaSteps();
  if (isEmpty(*database))
    kiln::fail(ErrorKind::io, "there is no store in the empty file '{}'", path.string());
  if (checkSchema(*database, steps) == std::int64_t(steps.size()))
    return database;
  auto copy = memory();
  copy->copyFrom(*database);
  migrate(*copy, steps);
  return copy;
}

} // namespace

Store::Store(std::unique_ptr<Database> connection, bool lasting)
    : connection(std::move(connection)), lasting(lasting) {}

std::unique_ptr<Store> Store::inMemory() {
  auto database = memory();
  migrate(*database, schemaSteps());
  return std::unique_ptr<Store>(new Store(std::move(database), false));
}

std::unique_ptr<Store> Store::copyOf(const std::filesystem::path& path) {
  const auto from = open(path, Access::read);
  auto copy = memory();
  copy->copyFrom(*from->connection);
  return std::unique_ptr<Store>(new Store(std::move(copy), false));
}

std::unique_ptr<Store> Store::open(const std::filesystem::path& path, Access access) {
  if (access == Access::memory)
    return inMemory();
  if (access == Access::write) {
    makeFolderOf(path);
    FolderLock lock(path, FolderLock::Use::open);
    return std::unique_ptr<Store>(new Store(openForWriting(path), true));
  }
  if (!std::filesystem::exists(path))
    kiln::fail(ErrorKind::io,
               "there is no store '{}'; 'kernel-compile compile --store={}' makes one",
               path.string(), path.string());
  try {
    return std::unique_ptr<Store>(new Store(openForReading(path, access), true));
  } catch (const Error& error) {
    // Readers of a WAL file need a file of their own beside it; in a folder that nobody may write
    // nobody writes the store either.
    if (error.kind() != ErrorKind::io || access == Access::immutable)
      throw;
  }
  return std::unique_ptr<Store>(new Store(openForReading(path, Access::immutable), true));
}

std::unique_ptr<Store> Store::openOrSetAside(const std::filesystem::path& path,
                                             std::vector<std::string>& warnings) {
  if (std::string others = whoElseMayWrite(path); !others.empty())
    warnings.push_back(std::move(others));
  try {
    return open(path, Access::write);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::corrupt)
      throw;
  }
  FolderLock lock(path, FolderLock::Use::setAside);
  auto opened = [&] { return std::unique_ptr<Store>(new Store(openForWriting(path), true)); };
  try {
    return opened(); // another process may have replaced it
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::corrupt)
      throw;
    std::filesystem::path aside = setAside(path);
    warnings.push_back(fmt::format("{}; it was renamed to '{}', and an empty store begun",
                                   error.what(), aside.string()));
  }
  auto store = opened();
  store->note("a damaged store was set aside");
  return store;
}

std::unique_ptr<Store> Store::openOrReplace(const std::filesystem::path& path,
                                            std::vector<std::string>& warnings) {
  try {
    return openOrSetAside(path, warnings);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::io)
      throw;
    warnings.push_back(fmt::format(
        "{}; until then the store is in memory and ends with the process", error.what()));
    return inMemory();
  }
}

} // namespace kiln::autotune
