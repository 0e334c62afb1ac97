// SQLite behind three small classes: a connection, a statement, a transaction. Every statement is
// prepared, every failure is a kiln::Error that names the file: `io` for a full disk or what cannot
// be opened, `corrupt` for a damaged file, `verification` for a broken rule of the schema.
#pragma once

#include "kiln/kiln.h"

#include <map>
#include <optional>
#include <variant>

struct sqlite3;
struct sqlite3_stmt;

namespace kiln::autotune {

using Blob = std::span<const std::byte>;
using Value = std::variant<std::monostate, std::int64_t, double, std::string_view, Blob>;

/// One run of a prepared statement; its connection keeps the preparation for the next.
class Statement {
 public:
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  ~Statement();

  /// To the next row; false behind the last.
  bool step();

  /// Columns of the current row, from 0. Texts and blobs are copies.
  std::string text(int column) const;
  std::int64_t integer(int column) const;
  double real(int column) const;
  std::vector<std::byte> blob(int column) const;
  bool isNull(int column) const;

 private:
  friend class Database;
  Statement(class Database& database, sqlite3_stmt* handle) : database(database), handle(handle) {}
  Database& database;
  sqlite3_stmt* handle;
};

class Database {
 public:
  /// `write`: created if it is not there. `read`: sees what others write, and takes the journals
  /// away that this made if it was the last to close. `immutable`: nobody writes; no lock is taken
  /// and nothing is created beside the file. `memory`: path is a name.
  enum class Access { write, read, immutable, memory };

  Database(const std::filesystem::path& path, Access access);
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;
  ~Database();

  /// Starts a statement with its arguments, in order.
  Statement query(std::string_view sql, std::initializer_list<Value> arguments = {});
  /// Runs a statement that gives no rows; how many rows it changed.
  int execute(std::string_view sql, std::initializer_list<Value> arguments = {});
  /// Several statements without arguments.
  void script(const char* sql);
  std::int64_t number(std::string_view sql);

  const std::string& name() const { return name_; }
  /// By which other connections of this process reach it in ATTACH.
  const std::string& uri() const { return uri_; }
  /// All pages of `source` replace those of this one.
  void copyFrom(Database& source);
  /// Whether WAL is in use.
  bool usesWal();
  /// Of a file that is written: WAL, or, where no memory can be shared, the rollback journal.
  void chooseJournal();

 private:
  friend class Statement;
  void open(int flags);
  void configure(Access access);
  [[noreturn]] void raise(int code, std::string_view doing) const;

  std::string name_, uri_;
  sqlite3* handle = nullptr;
  std::map<std::string, sqlite3_stmt*, std::less<>> prepared;
};

/// BEGIN IMMEDIATE; rolled back unless it was committed.
class Transaction {
 public:
  explicit Transaction(Database& database);
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  ~Transaction();
  void commit();

 private:
  Database& database;
  bool open = true;
};

} // namespace kiln::autotune
