// See Database.h. Files may come from strangers: the schema is not trusted with functions, and
// cells are checked for their size before they are read.
#include "autotune/store/Database.h"

#include "autotune/store/FileSystem.h"
#include "codegen/backend/Fail.h"

#include <cerrno>
#include <chrono>
#include <random>
#include <sqlite3.h>
#include <thread>

namespace kiln::autotune {

namespace {

/// Waits longer and longer, never twice the same, a minute in all. Zero gives up.
int waitForOthers(void*, int attempt) {
  constexpr int attempts = 1200; // 50 ms each, on average, but for the first
  if (attempt >= attempts)
    return 0;
  thread_local std::minstd_rand random(std::random_device{}());
  int most = attempt < 10 ? 1 << attempt : 100; // milliseconds
  std::this_thread::sleep_for(
      std::chrono::microseconds(std::uniform_int_distribution<int>(100, most * 1000)(random)));
  return 1;
}

/// A path as a URI: what has a meaning there is written as %xx.
std::string uriOf(std::string_view path, std::string_view parameters) {
  std::string uri = "file:";
  for (char c : path)
    if (c == '%' || c == '?' || c == '#')
      uri += fmt::format("%{:02x}", static_cast<unsigned char>(c));
    else
      uri += c;
  return uri + std::string(parameters);
}

} // namespace

Database::Database(const std::filesystem::path& path, Access access) : name_(path.string()) {
  const char* parameters = access == Access::immutable ? "?immutable=1"
                           : access == Access::memory  ? "?mode=memory&cache=shared"
                                                       : "";
  uri_ = uriOf(name_, parameters);
  // Of readers SQLite lets only those take journals away that could write.
  open(access == Access::immutable ? SQLITE_OPEN_READONLY
       : access == Access::read    ? SQLITE_OPEN_READWRITE
                                   : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  try {
    configure(access);
  } catch (...) {
    sqlite3_close(handle); // no destructor runs for what was not constructed
    throw;
  }
}

void Database::open(int flags) {
  int code = sqlite3_open_v2(uri_.c_str(), &handle, flags | SQLITE_OPEN_URI | SQLITE_OPEN_FULLMUTEX,
                             nullptr);
  if (code == SQLITE_OK)
    return;
  Error error(ErrorKind::io, fmt::format("cannot open the store '{}': {}; check the path and its "
                                         "permissions",
                                         name_, sqlite3_errstr(code)));
  sqlite3_close(handle);
  throw error;
}

void Database::configure(Access access) {
  sqlite3_extended_result_codes(handle, 1);
  sqlite3_busy_handler(handle, waitForOthers, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  script("PRAGMA foreign_keys = ON; PRAGMA cell_size_check = ON; PRAGMA synchronous = NORMAL;");
  if (access == Access::read)
    script("PRAGMA query_only = ON");
}

void Database::chooseJournal() {
  // WAL shares memory between processes, which network file systems cannot.
  bool wal = liesOnLocalDisk(name_);
  const char* change = wal ? "PRAGMA journal_mode = WAL" : "PRAGMA journal_mode = DELETE";
  // SQLite does not ask its busy handler where two change the mode at once.
  for (int attempt = 0;; ++attempt) {
    int code = sqlite3_exec(handle, change, nullptr, nullptr, nullptr);
    if (code == SQLITE_OK)
      break;
    if ((code & 0xff) != SQLITE_BUSY || !waitForOthers(nullptr, attempt))
      raise(code, change);
  }
  number("SELECT count(*) FROM sqlite_master"); // makes WAL's file, which shows that it is in use
}

Database::~Database() {
  for (auto& [sql, statement] : prepared)
    sqlite3_finalize(statement);
  sqlite3_close(handle);
}

void Database::raise(int code, std::string_view doing) const {
  int cause = errno; // SQLite's own note of it is not set by a COMMIT
  const char* text = sqlite3_errmsg(handle);
  bool full = cause == ENOSPC || cause == EDQUOT || cause == EFBIG;
  if ((code & 0xff) == SQLITE_IOERR && full)
    code = SQLITE_FULL;
  switch (code & 0xff) {
  case SQLITE_CORRUPT:
  case SQLITE_NOTADB:
  case SQLITE_FORMAT:
    fail(ErrorKind::corrupt,
         "the store '{}' is damaged: {}; restore a copy, or let it be made anew", name_, text);
  case SQLITE_FULL:
    fail(ErrorKind::io,
         "cannot write the store '{}': no space left; what was written before is kept; free some "
         "space or move the store to another disk",
         name_);
  case SQLITE_CONSTRAINT:
    fail(ErrorKind::verification, "the store '{}' refuses what {} would write: {}", name_, doing,
         text);
  case SQLITE_BUSY:
    fail(ErrorKind::io,
         "the store '{}' has been locked by another process for a minute; find it with 'fuser {}', "
         "or use a store of this process's own and merge it later",
         name_, name_);
  case SQLITE_READONLY:
    fail(ErrorKind::io, "cannot write the store '{}': {}; check its permissions", name_, text);
  default:
    fail(ErrorKind::io, "the store '{}': {} ({} while {})", name_, text, code, doing);
  }
}

Statement Database::query(std::string_view sql, std::initializer_list<Value> arguments) {
  auto found = prepared.find(sql);
  if (found == prepared.end()) {
    sqlite3_stmt* statement = nullptr;
    int code = sqlite3_prepare_v3(handle, sql.data(), static_cast<int>(sql.size()),
                                  SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
    if (code != SQLITE_OK)
      raise(code, "preparing a statement");
    found = prepared.emplace(sql, statement).first;
  }
  sqlite3_stmt* statement = found->second;
  int index = 0;
  for (const Value& value : arguments) {
    ++index;
    if (const auto* integer = std::get_if<std::int64_t>(&value))
      sqlite3_bind_int64(statement, index, *integer);
    else if (const auto* real = std::get_if<double>(&value))
      sqlite3_bind_double(statement, index, *real);
    else if (const auto* text = std::get_if<std::string_view>(&value))
      sqlite3_bind_text64(statement, index, text->empty() ? "" : text->data(), text->size(),
                          SQLITE_TRANSIENT, SQLITE_UTF8);
    else if (const auto* blob = std::get_if<Blob>(&value))
      sqlite3_bind_blob64(statement, index, blob->data(), blob->size(), SQLITE_TRANSIENT);
    else
      sqlite3_bind_null(statement, index);
  }
  return {*this, statement};
}

int Database::execute(std::string_view sql, std::initializer_list<Value> arguments) {
  Statement statement = query(sql, arguments);
  while (statement.step()) {
  }
  return sqlite3_changes(handle);
}

void Database::script(const char* sql) {
  int code = sqlite3_exec(handle, sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK)
    raise(code, "running a script");
}

std::int64_t Database::number(std::string_view sql) {
  Statement statement = query(sql);
  return statement.step() ? statement.integer(0) : 0;
}

bool Database::usesWal() {
  Statement mode = query("PRAGMA journal_mode");
  return mode.step() && mode.text(0) == "wal";
}

void Database::copyFrom(Database& source) {
  sqlite3_backup* backup = sqlite3_backup_init(handle, "main", source.handle, "main");
  if (!backup)
    raise(sqlite3_errcode(handle), "copying");
  int code = SQLITE_OK;
  for (int attempt = 0;; ++attempt) {
    code = sqlite3_backup_step(backup, -1);
    if ((code != SQLITE_BUSY && code != SQLITE_LOCKED) || waitForOthers(nullptr, attempt) == 0)
      break;
  }
  sqlite3_backup_finish(backup);
  if (code != SQLITE_DONE)
    source.raise(code, "copying");
}

Statement::~Statement() {
  sqlite3_reset(handle);
  sqlite3_clear_bindings(handle);
}

bool Statement::step() {
  errno = 0;
  int code = sqlite3_step(handle);
  if (code == SQLITE_ROW)
    return true;
  if (code != SQLITE_DONE)
    database.raise(code, sqlite3_sql(handle));
  return false;
}

std::string Statement::text(int column) const {
  const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(handle, column));
  return data ? std::string(data, static_cast<std::size_t>(sqlite3_column_bytes(handle, column)))
              : std::string();
}
std::int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(handle, column);
}
double Statement::real(int column) const {
  return sqlite3_column_double(handle, column);
}
std::vector<std::byte> Statement::blob(int column) const {
  const auto* data = static_cast<const std::byte*>(sqlite3_column_blob(handle, column));
  return data ? std::vector<std::byte>(data, data + sqlite3_column_bytes(handle, column))
              : std::vector<std::byte>();
}
bool Statement::isNull(int column) const {
  return sqlite3_column_type(handle, column) == SQLITE_NULL;
}

Transaction::Transaction(Database& database) : database(database) {
  database.execute("BEGIN IMMEDIATE");
}
void Transaction::commit() {
  database.execute("COMMIT");
  open = false;
}
Transaction::~Transaction() {
  if (!open)
    return;
  try {
    database.execute("ROLLBACK");
  } catch (const Error&) {
    // A full disk has rolled it back already.
  }
}

} // namespace kiln::autotune
