// Looks at every row that has a name to prove and at every cubin.
#include "autotune/store/Merge.h"
#include "autotune/store/Names.h"
#include "autotune/store/Sha256.h"

#include <fmt/format.h>

namespace kiln::autotune {

namespace {

void checkReferences(Database& database, std::vector<std::string>& problems) {
  Statement row = database.query("PRAGMA foreign_key_check");
  while (row.step())
    problems.push_back(fmt::format("a row of '{}' refers to one of '{}' that is not there",
                                   row.text(0), row.text(2)));
  Statement unproved =
      database.query("SELECT key FROM choice WHERE source = 'measured' AND NOT EXISTS "
                     "(SELECT 1 FROM proved WHERE proved.key = choice.key AND "
                     "proved.schedule = choice.schedule AND proved.cubin = choice.cubin)");
  while (unproved.step())
    problems.push_back(fmt::format("key {}: measured choice without a passing verdict",
                                   unproved.text(0).substr(0, 12)));
  Statement source = database.query("SELECT DISTINCT kind FROM failure");
  while (source.step())
    if (!valueOf<FailureKind>(failureNames, source.text(0)))
      problems.push_back(fmt::format("unknown kind of failure '{}'", source.text(0).substr(0, 40)));
}

void checkCubins(Database& database, std::vector<std::string>& problems) {
  Statement row = database.query("SELECT sha256, cubin, bytes FROM artifact");
  while (row.step()) {
    std::string name = row.text(0);
    try {
      if (sha256(decompress(row.blob(1), row.integer(2))) != name)
        problems.push_back(
            fmt::format("cubin {} is not what its SHA-256 says", name.substr(0, 12)));
    } catch (const Error& error) {
      problems.push_back(fmt::format("cubin {}: {}", name.substr(0, 12), error.what()));
    }
  }
}

void checkPlans(Database& database, std::vector<std::string>& problems) {
  Statement row = database.query("SELECT key, plan, plan_sha256 FROM launch");
  while (row.step())
    if (sha256(row.text(1)) != row.text(2))
      problems.push_back(fmt::format("key {}: a launch plan is not what its SHA-256 says",
                                     row.text(0).substr(0, 12)));
}

} // namespace

std::vector<std::string> check(const Store& store) {
  std::vector<std::string> problems;
  try {
    for (const KnownKey& known : store.keys(true))
      if (digest(known.key) != known.digest)
        problems.push_back(
            fmt::format("key {} is not the digest of its fields", known.digest.substr(0, 12)));
    auto held = store.lock();
    checkReferences(store.database(), problems);
    checkCubins(store.database(), problems);
    checkPlans(store.database(), problems);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::corrupt)
      throw;
    problems.emplace_back(error.what());
  }
  return problems;
}

} // namespace kiln::autotune
