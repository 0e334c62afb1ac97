// See Merge.h; what rows are taken is said in merge.sql, gc.sql and chosen.sql.
#include "autotune/store/Merge.h"

#include "autotune/store/FileSystem.h"
#include "autotune/store/Schema.h"
#include "codegen/backend/Fail.h"

#include <algorithm>
#include <fmt/ranges.h>
#include <unistd.h>

namespace kiln::autotune {

namespace {

std::unique_ptr<Store> copyOf(const Store& store) {
  auto copy = Store::inMemory();
  auto held = store.lock();
  copy->database().copyFrom(store.database());
  return copy;
}

/// A store inside another connection, while this lives.
class Attachment {
 public:
  Attachment(Database& database, const Database& other) : database(database) {
    database.execute("ATTACH ? AS other", {other.uri()});
  }
  Attachment(const Attachment&) = delete;
  Attachment& operator=(const Attachment&) = delete;
  ~Attachment() {
    try {
      database.execute("DETACH other");
    } catch (const Error&) {
      // Closing the connection detaches too.
    }
  }

 private:
  Database& database;
};

bool same(const Choice& a, const Choice& b) {
  return a.schedule == b.schedule && a.cubin == b.cubin && a.source == b.source;
}

} // namespace

std::vector<Conflict> merge(Store& into, const Store& from) {
  auto source = copyOf(from);
  if (auto problems = check(*source); !problems.empty())
    fail(ErrorKind::corrupt, "nothing was taken from '{}', which is damaged: {}",
         from.database().name(), fmt::join(problems, "; "));
  std::vector<Conflict> conflicts;
  for (const KnownKey& known : source->keys()) {
    auto first = into.choice(known.key), second = source->choice(known.key);
    if (first && second && !same(*first, *second))
      conflicts.push_back({known, *first, *second, {}});
  }
  {
    auto held = into.lock();
    Database& database = into.database();
    Attachment attachment(database, source->database());
    Transaction transaction(database);
    database.script(sqlOf("store/merge.sql"));
    transaction.commit();
  }
  for (Conflict& conflict : conflicts)
    conflict.kept = into.choice(conflict.key.key).value_or(Choice{});
  return conflicts;
}

bool Selection::takes(const KnownKey& key) const {
  auto has = [](const std::vector<std::string>& wanted, std::string_view value) {
    return wanted.empty() || std::ranges::find(wanted, value) != wanted.end();
  };
  return has(archs, key.key.arch) && has(ops, key.label.substr(0, key.label.find(' ')));
}

void exportChoices(const Store& from, const std::filesystem::path& file,
                   const Selection& selection) {
  requireReplaceable(file, from.database().name());
  auto copy = copyOf(from);
  Database& database = copy->database();
  for (const KnownKey& known : copy->keys())
    if (!selection.takes(known))
      database.execute("DELETE FROM choice WHERE key = ?", {known.digest});
  database.script(sqlOf("store/chosen.sql"));
  database.script(sqlOf("store/gc.sql"));
  // Of a name that nobody else has, and then all at once.
  std::filesystem::path unfinished = file;
  unfinished += fmt::format(".{}.tmp", ::getpid());
  std::error_code error;
  try {
    database.execute("VACUUM INTO ?", {unfinished.native()});
  } catch (const Error& refused) {
    std::filesystem::remove(unfinished, error);
    fail(ErrorKind::io, "cannot write '{}': {}", file.string(), refused.what());
  }
  std::filesystem::rename(unfinished, file, error);
  if (error) {
    std::string why = error.message();
    std::filesystem::remove(unfinished, error);
    fail(ErrorKind::io, "cannot write '{}': {}", file.string(), why);
  }
}

Collected collectGarbage(Store& store, std::string_view emitter) {
  auto held = store.lock();
  Database& database = store.database();
  auto bytes = [&] {
    return database.number("PRAGMA page_count") * database.number("PRAGMA page_size");
  };
  auto count = [&](const char* table) {
    return database.number(fmt::format("SELECT count(*) FROM {}", table));
  };
  Collected collected{count("artifact"), count("key"), bytes(), 0};
  {
    Transaction transaction(database);
    if (!emitter.empty()) {
      const char* stale = "IN (SELECT key.id FROM key JOIN toolchain ON toolchain.id = "
                          "key.toolchain WHERE emitter <> ?)";
      for (const char* table :
           {"rejection", "failure", "verdict", "measurement", "prediction", "baseline", "copy"})
        database.execute(fmt::format("DELETE FROM {} WHERE candidate IN (SELECT id FROM candidate "
                                     "WHERE key {})",
                                     table, stale),
                         {emitter});
      database.execute(fmt::format("DELETE FROM search WHERE key {}", stale), {emitter});
      database.execute(fmt::format("DELETE FROM choice WHERE key {} AND source <> 'pinned'", stale),
                       {emitter});
    }
    database.script(sqlOf("store/gc.sql"));
    transaction.commit();
  }
  database.execute("VACUUM");
  database.query("PRAGMA wal_checkpoint(TRUNCATE)").step();
  collected.cubins -= count("artifact");
  collected.keys -= count("key");
  collected.bytesAfter = bytes();
  return collected;
}

} // namespace kiln::autotune
