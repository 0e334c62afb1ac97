// Files of other versions of the schema: older ones are brought up to date, all or nothing, newer
// and strange ones are refused and kept as they are.
#include "test/store/Rows.h"

#include "autotune/store/Merge.h"
#include "autotune/store/Schema.h"

#include <gmock/gmock.h>

using testing::HasSubstr;
using testing::IsEmpty;

namespace kiln::autotune {
namespace {

using MigrationTest = InFolder;

/// As an older version wrote it; the first did not ask for verdicts.
void fillOld(Database& database, std::ptrdiff_t version, const Key& proved,
             const std::vector<Key>& unproved = {}) {
  auto steps = schemaSteps();
  migrate(database, {steps.begin(), steps.begin() + version});
  std::vector<Key> keys = unproved;
  keys.push_back(proved);
  auto add = [&](const std::string& sql) { database.script(sql.c_str()); };
  add("INSERT INTO toolchain VALUES ('t', '13.0', '-std=c++20', '" + proved.emitter +
      "');"
      "INSERT INTO device VALUES ('d', 'sm_90a', 'H200, 132 SMs');"
      "INSERT INTO space VALUES ('" +
      proved.space + "');");
  for (const Key& key : keys) {
    const Artifact artifact = artifactOf(key == proved ? "good" : "bad");
    const std::string name = digest(key), quoted = "'" + name + "'";
    add("INSERT INTO workload VALUES (" + quoted + ", '" + key.function + "', '" + key.tensors +
        "', '', '');"
        "INSERT INTO key VALUES (" +
        quoted + ", " + quoted + ", 'd', 't', '" + key.space +
        "', 'cold'); INSERT INTO candidate VALUES ('c" + name + "', " + quoted + ", 's');");
    const std::vector<std::byte> packed = compress(artifact.cubin);
    database.execute("INSERT INTO artifact VALUES (?, ?, ?, 1, 1, 0, 0)",
                     {artifact.sha256, Blob(packed), std::int64_t(artifact.cubin.size())});
    database.execute("INSERT INTO launch VALUES (?, ?, '{}', ?)",
                     {name, artifact.sha256, sha256("{}")});
    if (key == proved)
      database.execute("INSERT INTO verdict VALUES (?, ?, 1, '', 0, 1, 0, 0)",
                       {"c" + name, artifact.sha256});
    database.execute("INSERT INTO measurement VALUES (?, ?, 10, 9, 11, 8, 1, 1, 1, '', '', '', "
                     "0, 0, 0, 0, 0, 0)",
                     {"c" + name, artifact.sha256});
    database.execute("INSERT INTO choice VALUES (?, 's', ?, 'measured', '', 0, 0)",
                     {name, artifact.sha256});
  }
}

TEST_F(MigrationTest, OlderSchemaIsBroughtUpToDate) {
  auto steps = schemaSteps();
  ASSERT_GE(steps.size(), 3u);
  Key proved = keyNumber(1), unproved = keyNumber(2);
  {
    Database database(path(), Database::Access::write);
    fillOld(database, 1, proved, {unproved});
  }
  write(bytes(), "copy");
  for (auto access : {Store::Access::immutable, Store::Access::read}) {
    auto store = open("copy", access); // in memory
    EXPECT_TRUE(store->choice(proved));
    EXPECT_FALSE(store->choice(unproved));
  }
  EXPECT_EQ(bytes("copy"), bytes());
  auto store = open();
  EXPECT_EQ(store->database().number("PRAGMA user_version"), std::int64_t(steps.size()));
  EXPECT_TRUE(store->choice(proved));
  EXPECT_FALSE(store->choice(unproved));
  EXPECT_EQ(store->artifact(proved, "s", artifactOf("good").sha256)->plan, "{}");
  EXPECT_THAT(check(*store), IsEmpty());
  errorOf(ErrorKind::verification,
          [&] { store->choose(unproved, choiceOf("x", sha256("x"), Source::measured)); });
}

TEST_F(MigrationTest, SearchesAreAddedToVersionTwo) {
  Key key = keyNumber(1);
  {
    Database database(path(), Database::Access::write);
    fillOld(database, 2, key);
  }
  History old = open("store", Store::Access::read)->history(key);
  EXPECT_TRUE(old.searches.empty());
  ASSERT_EQ(old.measurements.size(), 1u);
  EXPECT_EQ(old.measurements[0].place, -1);
  auto store = open();
  Search search;
  search.feasible = 7;
  store->searched(key, search);
  EXPECT_EQ(store->history(key).searches.at(0).feasible, 7u);
  EXPECT_EQ(store->choice(key)->schedule, "s");
}

TEST_F(MigrationTest, MigrationIsAllOrNothing) {
  fill(1);
  auto steps = schemaSteps();
  steps.push_back("CREATE TABLE added (a); CREATE TABLE key (already there);");
  Database database(path(), Database::Access::write);
  errorOf(ErrorKind::io, [&] { migrate(database, steps); });
  EXPECT_EQ(checkSchema(database, schemaSteps()), std::int64_t(steps.size() - 1));
  steps.back() = "CREATE TABLE added (a);";
  migrate(database, steps);
  EXPECT_EQ(checkSchema(database, steps), std::int64_t(steps.size()));
}

TEST_F(MigrationTest, NewerSchemaIsRefusedAndKept) {
  fill(1);
  {
    auto store = open();
    store->database().script("PRAGMA user_version = 1000");
  }
  std::string before = bytes();
  EXPECT_THAT(errorOf(ErrorKind::input, [&] { open(); }), HasSubstr("newer Kiln"));
  std::vector<std::string> warnings;
  errorOf(ErrorKind::input, [&] { Store::openOrReplace(path(), warnings); });
  EXPECT_EQ(bytes(), before);
}

TEST_F(MigrationTest, StrangeTablesAreNotTrusted) {
  fill(1);
  {
    auto store = open();
    store->database().script("CREATE TRIGGER spy AFTER INSERT ON choice BEGIN DELETE FROM verdict; "
                             "END");
  }
  EXPECT_THAT(errorOf(ErrorKind::corrupt, [&] { open(); }), HasSubstr("tables"));
}

} // namespace
} // namespace kiln::autotune
