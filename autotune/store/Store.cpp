// Everything that writes; Opening.cpp opens, History.cpp reads.
#include "autotune/store/Store.h"

#include "autotune/Process.h"
#include "autotune/store/Names.h"
#include "autotune/store/Sha256.h"
#include "codegen/backend/Fail.h"
#include "kiln/workload.h"

#include <chrono>
#include <unistd.h>

namespace kiln::autotune {

template <class Work> void Store::write(Work work) {
  auto held = lock();
  Transaction transaction(*connection);
  work();
  transaction.commit();
}

/// No two rows of a process have the same time, which is a part of their names.
std::int64_t Store::now() {
  auto time = std::chrono::duration_cast<std::chrono::microseconds>(
                  std::chrono::system_clock::now().time_since_epoch())
                  .count();
  return last = std::max<std::int64_t>(time, last + 1);
}

static std::string joined(std::initializer_list<std::string_view> parts) {
  std::string all;
  for (std::string_view part : parts)
    (all += part) += '\0';
  return sha256(all);
}

void Store::remember(const Key& key) {
  std::string toolchain = joined({key.nvrtc, key.flags, key.emitter});
  std::string device = joined({key.arch, key.device});
  std::string workload = joined({key.function, key.tensors});
  connection->execute("INSERT OR IGNORE INTO toolchain VALUES (?, ?, ?, ?)",
                      {toolchain, key.nvrtc, key.flags, key.emitter});
  connection->execute("INSERT OR IGNORE INTO device VALUES (?, ?, ?)",
                      {device, key.arch, key.device});
  connection->execute("INSERT OR IGNORE INTO workload VALUES (?, ?, ?, '', '')",
                      {workload, key.function, key.tensors});
  connection->execute("INSERT OR IGNORE INTO space VALUES (?)", {key.space});
  connection->execute(
      "INSERT OR IGNORE INTO key VALUES (?, ?, ?, ?, ?, ?)",
      {digest(key), workload, device, toolchain, key.space, nameIn(regimeNames, key.regime)});
}

std::string Store::candidate(const Key& key, std::string_view schedule) {
  remember(key);
  std::string name = digest(key), id = joined({name, schedule});
  connection->execute("INSERT OR IGNORE INTO candidate VALUES (?, ?, ?)", {id, name, schedule});
  return id;
}

void Store::reject(const Key& key, const Rejection& rejection) {
  write([&] {
    connection->execute("INSERT OR REPLACE INTO rejection VALUES (?, ?, ?, ?, ?)",
                        {candidate(key, rejection.schedule), rejection.gate, rejection.constraint,
                         rejection.asked, rejection.allowed});
  });
}

void Store::fail(const Key& key, const Failure& failure) {
  write([&] {
    connection->execute("INSERT INTO failure VALUES (?, ?, ?, ?, ?, ?)",
                        {candidate(key, failure.schedule), failure.cubin, failure.driver,
                         nameIn(failureNames, failure.kind), failure.log, now()});
  });
}

void Store::refuse(const Key& key, const Refusal& refusal) {
  write([&] {
    remember(key);
    connection->execute(
        "INSERT OR REPLACE INTO refusal VALUES (?, ?, ?, ?, ?)",
        {digest(key), refusal.kernel, refusal.rule, refusal.schedules, refusal.worst});
  });
}

void Store::keep(const Key& key, std::string_view schedule, const Artifact& artifact) {
  if (sha256(artifact.cubin) != artifact.sha256)
    kiln::fail(ErrorKind::input, "a cubin of {} bytes was to be kept as {}, but its SHA-256 is {}",
               artifact.cubin.size(), artifact.sha256, sha256(artifact.cubin));
  std::vector<std::byte> packed = compress(artifact.cubin);
  write([&] {
    remember(key);
    connection->execute("INSERT INTO artifact VALUES (?, ?, ?, ?, ?, ?, ?) "
                        // What was damaged is mended.
                        "ON CONFLICT DO UPDATE SET cubin = excluded.cubin, bytes = excluded.bytes "
                        "WHERE cubin <> excluded.cubin OR bytes <> excluded.bytes",
                        {artifact.sha256, Blob(packed), std::int64_t(artifact.cubin.size()),
                         std::int64_t(artifact.registers), artifact.sharedBytes,
                         artifact.stackBytes, artifact.spillBytes});
    connection->execute(
        "INSERT OR REPLACE INTO launch VALUES (?, ?, ?, ?, ?)",
        {digest(key), schedule, artifact.sha256, artifact.plan, sha256(artifact.plan)});
  });
}

void Store::judge(const Key& key, const Verdict& verdict) {
  write([&] {
    connection->execute("INSERT INTO verdict VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                        {candidate(key, verdict.schedule), verdict.cubin,
                         std::int64_t(verdict.pass), verdict.reference, verdict.worstError,
                         std::int64_t(verdict.deterministic), std::int64_t(verdict.seed), now()});
  });
}

void Store::writeMeasurement(std::string_view table, const Key& key, const Measurement& m) {
  const Conditions& c = m.conditions;
  write([&] {
    std::string id = candidate(key, m.schedule);
    connection->execute(
        fmt::format("INSERT INTO {} VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", table),
        {id, m.cubin, m.median, m.low, m.high, std::int64_t(m.samples), m.ratio, m.ratioLow,
         m.ratioHigh, c.uuid, c.driver, c.host, std::int64_t(c.smClockMHz),
         std::int64_t(c.memoryClockMHz), std::int64_t(c.temperatureC), std::int64_t(c.throttled),
         std::int64_t(c.foreignProcesses), now()});
    if (m.place >= 0)
      connection->execute("INSERT OR REPLACE INTO prediction VALUES (?, ?, ?)",
                          {id, std::int64_t(m.place), m.predicted});
  });
}

void Store::measure(const Key& key, const Measurement& measurement) {
  writeMeasurement("measurement", key, measurement);
}
void Store::baseline(const Key& key, const Measurement& measurement) {
  writeMeasurement("baseline", key, measurement);
}
void Store::copied(const Key& key, const Measurement& measurement) {
  writeMeasurement("copy", key, measurement);
}

void Store::searched(const Key& key, const Search& search) {
  write([&] {
    remember(key);
    connection->execute("INSERT INTO search VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                        {digest(key), std::int64_t(search.feasible), std::int64_t(search.tried),
                         search.standard, search.runnerUp, search.ratio, search.ratioLow,
                         search.ratioHigh, search.roofline, search.bytes, search.seconds,
                         search.reason, now()});
  });
}

/// How much a source counts against another: equal ones replace each other.
static int strength(Source source) {
  switch (source) {
  case Source::pinned:
    return 3;
  case Source::measured:
  case Source::vendor:
    return 2;
  case Source::transferred:
    return 1;
  case Source::model:
    return 0;
  }
  return 0;
}

static bool strongerIsThere(Database& database, std::string_view key, Source source) {
  Statement present = database.query("SELECT source FROM choice WHERE key = ?", {key});
  if (!present.step())
    return false;
  auto there = valueOf<Source>(sourceNames, present.text(0));
  return there && strength(*there) > strength(source);
}

void Store::choose(const Key& key, const Choice& choice) {
  write([&] {
    remember(key);
    std::string name = digest(key);
    if (strongerIsThere(*connection, name, choice.source))
      return;
    try {
      connection->execute("INSERT OR REPLACE INTO choice VALUES (?, ?, ?, ?, ?, ?, ?)",
                          {name, choice.schedule,
                           choice.cubin.empty() ? Value() : Value(std::string_view(choice.cubin)),
                           nameIn(sourceNames, choice.source), choice.reason, choice.margin,
                           now()});
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::verification)
        throw;
      kiln::fail(ErrorKind::verification,
                 "key {}: {} cannot be chosen as {}: {}; keep the cubin with its plan and judge it "
                 "first",
                 name.substr(0, 12),
                 choice.cubin.empty() ? "a schedule without cubin"
                                      : "cubin " + choice.cubin.substr(0, 12),
                 nameIn(sourceNames, choice.source), error.what());
    }
  });
}

static std::int64_t microseconds(int seconds) {
  return std::int64_t(seconds) * 1000000;
}

bool Store::lease(const Key& key, std::string_view owner, int seconds) {
  bool granted = false;
  write([&] {
    remember(key);
    std::int64_t time = now();
    const std::string name = digest(key);
    Statement held = connection->query("SELECT owner FROM lease WHERE key = ?", {name});
    const bool isFree = held.step() && hasEnded(held.text(0));
    granted = connection->execute(
                  "INSERT INTO lease VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET "
                  "owner = excluded.owner, expires = excluded.expires "
                  "WHERE ? OR lease.owner = excluded.owner OR lease.expires < ?",
                  {name, owner, time + microseconds(seconds), std::int64_t(isFree), time}) > 0;
  });
  return granted;
}

bool Store::renew(const Key& key, std::string_view owner, int seconds) {
  bool held = false;
  write([&] {
    held = connection->execute("UPDATE lease SET expires = ? WHERE key = ? AND owner = ?",
                               {now() + microseconds(seconds), digest(key), owner}) > 0;
  });
  return held;
}

void Store::release(const Key& key, std::string_view owner) {
  write([&] {
    connection->execute("DELETE FROM lease WHERE key = ? AND owner = ?", {digest(key), owner});
  });
}

void Store::describe(const Key& key, std::string_view label, std::string_view text) {
  write([&] {
    remember(key);
    connection->execute("UPDATE workload SET label = ?, text = ? WHERE id = ?",
                        {label, text, joined({key.function, key.tensors})});
  });
}

void Store::keepTask(const Key& key, const Task& task) {
  write([&] {
    remember(key);
    connection->execute("INSERT OR REPLACE INTO task VALUES (?, ?, ?, ?)",
                        {joined({key.function, key.tensors}), shapeText(task.sizes), task.general,
                         shapeText(task.generalSizes)});
  });
}

void Store::pin(const Key& key, std::string_view schedule) {
  std::optional<Choice> present = choice(key);
  if (!present || (!schedule.empty() && schedule != present->schedule)) {
    History known = history(key);
    present.reset();
    for (const Verdict& verdict : known.verdicts)
      if (verdict.pass && verdict.schedule == schedule && artifact(key, schedule, verdict.cubin))
        present = Choice{std::string(schedule), verdict.cubin, Source::pinned, "", 0};
  }
  if (!present)
    kiln::fail(ErrorKind::missing,
               "key {}: nothing to pin: no choice of it, and no candidate '{}' with a cubin that "
               "passed; 'kernel-compile cache show' lists what is known",
               digest(key).substr(0, 12), schedule);
  present->source = Source::pinned;
  present->reason = "pinned";
  choose(key, *present);
}

/// The choice stays, as what it would be without the pin, until tuning finds a better one.
void Store::unpin(const Key& key) {
  write([&] {
    connection->execute("UPDATE choice SET reason = 'was pinned', source = CASE "
                        "WHEN cubin IS NULL AND schedule = '' THEN 'vendor' "
                        "WHEN EXISTS (SELECT 1 FROM proved WHERE proved.key = choice.key AND "
                        "proved.schedule = choice.schedule AND proved.cubin = choice.cubin) THEN "
                        "'measured' ELSE 'model' END "
                        "WHERE key = ? AND source = 'pinned'",
                        {digest(key)});
  });
}

void Store::note(std::string_view what) {
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  write([&] {
    connection->execute("INSERT INTO event VALUES (?, ?, ?, ?)",
                        {now(), std::string_view(host), std::int64_t(::getpid()), what});
  });
}

} // namespace kiln::autotune
