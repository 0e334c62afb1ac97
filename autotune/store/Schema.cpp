// See Schema.h.
#include "autotune/store/Schema.h"

#include "codegen/backend/Fail.h"

#include <atomic>

extern "C" const struct {
  const char *name, *text;
} kiln_schema_files[], kiln_sql_files[];

namespace kiln::autotune {

const char* sqlOf(std::string_view name) {
  for (const auto* file = kiln_sql_files; file->name; ++file)
    if (file->name == name)
      return file->text;
  fail(ErrorKind::input, "no script '{}' in the library", name);
}

std::vector<const char*> schemaSteps() {
  std::vector<const char*> steps;
  for (const auto* file = kiln_schema_files; file->name; ++file)
    steps.push_back(file->text);
  return steps;
}

bool isEmpty(Database& database) {
  return database.number("SELECT count(*) FROM sqlite_master") == 0;
}

void claim(Database& database) {
  if (database.number("PRAGMA page_count") == 0)
    database.script(fmt::format("PRAGMA application_id = {}", kApplication).c_str());
}

static std::string schemaText(Database& database) {
  std::string all;
  Statement row = database.query(
      "SELECT type, name, coalesce(sql, '') FROM sqlite_master WHERE name NOT LIKE 'sqlite_stat%' "
      "ORDER BY type, name");
  while (row.step())
    all += row.text(0) + " " + row.text(1) + ": " + row.text(2) + "\n";
  return all;
}

static void takeSteps(Database& database, const std::vector<const char*>& steps,
                      std::size_t version) {
  for (; version < steps.size(); ++version)
    database.script(steps[version]);
  database.script(fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {};", kApplication,
                              steps.size())
                      .c_str());
}

/// What the tables of a version look like: as the steps make them in an empty database.
static std::string expectedText(const std::vector<const char*>& steps, std::size_t version) {
  static std::atomic<int> counter = 0;
  Database fresh(fmt::format("kiln-schema-{}-{}", fmt::ptr(&counter), counter++),
                 Database::Access::memory);
  takeSteps(fresh, {steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(version)}, 0);
  return schemaText(fresh);
}

std::int64_t checkSchema(Database& database, const std::vector<const char*>& steps) {
  std::int64_t application = database.number("PRAGMA application_id");
  std::int64_t version = database.number("PRAGMA user_version");
  if (application != kApplication)
    fail(ErrorKind::input,
         "'{}' is a database of another program (application_id {}, a store of Kiln has {}); name "
         "another file",
         database.name(), application, kApplication);
  if (version > std::int64_t(steps.size()))
    fail(ErrorKind::input,
         "the store '{}' was written by a newer Kiln: its schema is version {}, this one knows "
         "version {}; use that Kiln, or another file",
         database.name(), version, steps.size());
  if (version < 1 || schemaText(database) != expectedText(steps, std::size_t(version)))
    fail(ErrorKind::corrupt, "the store '{}' is damaged: its tables are not those of version {}",
         database.name(), version);
  Statement check = database.query("PRAGMA quick_check(1)");
  if (check.step() && check.text(0) != "ok")
    fail(ErrorKind::corrupt, "the store '{}' is damaged: {}", database.name(), check.text(0));
  return version;
}

void migrate(Database& database, const std::vector<const char*>& steps) {
  Transaction transaction(database);
  auto version =
      std::size_t(database.number("PRAGMA user_version")); // another may have been faster
  if (version < steps.size())
    takeSteps(database, steps, version);
  transaction.commit();
}

} // namespace kiln::autotune
