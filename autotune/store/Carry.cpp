// Store::carry: what was learned under one key, of code that another key has too.
#include "autotune/store/Schema.h"
#include "autotune/store/Store.h"

namespace kiln::autotune {

/// The schedules, and what stands for vendors and copies, whose times have nothing to do with ours.
static std::vector<std::string> carried(Database& database, std::string_view key,
                                        std::span<const std::string> schedules) {
  std::vector<std::string> all(schedules.begin(), schedules.end());
  Statement other =
      database.query("SELECT schedule FROM candidate WHERE key = ? AND id IN "
                     "(SELECT candidate FROM baseline UNION SELECT candidate FROM copy)",
                     {key});
  while (other.step())
    all.push_back(other.text(0));
  return all;
}

void Store::carry(const Key& from, const Key& to, std::span<const std::string> schedules) {
  const std::string old = digest(from), now = digest(to);
  auto held = lock();
  Transaction transaction(*connection);
  connection->script("CREATE TEMP TABLE IF NOT EXISTS carried (old TEXT, new TEXT); "
                     "DELETE FROM temp.carried");
  for (const std::string& schedule : carried(*connection, old, schedules))
    connection->execute("INSERT INTO temp.carried VALUES (?, ?)",
                        {candidate(from, schedule), candidate(to, schedule)});
  connection->script(sqlOf("store/carry.sql"));
  connection->execute(
      "INSERT OR IGNORE INTO search SELECT ?, feasible, tried, standard, runner_up, "
      "ratio, ratio_low, ratio_high, roofline, bytes, seconds, reason, at "
      "FROM search WHERE key = ?",
      {now, old});
  connection->execute("INSERT OR REPLACE INTO choice SELECT ?, schedule, cubin, source, reason, "
                      "margin, at FROM choice WHERE key = ?",
                      {now, old});
  transaction.commit();
}

} // namespace kiln::autotune
