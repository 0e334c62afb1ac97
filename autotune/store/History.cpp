// What the store knows: rows back to records. A word that no version has written means a damaged
// file; a cubin that is not what its name says is never handed out.
#include "autotune/store/Names.h"
#include "autotune/store/Sha256.h"
#include "autotune/store/Store.h"
#include "codegen/backend/Fail.h"
#include "kiln/workload.h"

#include <zstd.h>

namespace kiln::autotune {

std::vector<std::byte> compress(std::span<const std::byte> bytes) {
  std::vector<std::byte> packed(ZSTD_compressBound(bytes.size()));
  std::size_t size = ZSTD_compress(packed.data(), packed.size(), bytes.data(), bytes.size(), 19);
  if (ZSTD_isError(size) != 0)
    fail(ErrorKind::io, "cannot compress {} bytes: {}", bytes.size(), ZSTD_getErrorName(size));
  packed.resize(size);
  return packed;
}

std::vector<std::byte> decompress(std::span<const std::byte> packed, std::int64_t size) {
  constexpr std::int64_t most = std::int64_t(64) << 20; // no cubin is as large
  if (size < 0 || size > most)
    fail(ErrorKind::corrupt, "a cubin of {} bytes in the store; at most {} are possible", size,
         most);
  std::vector<std::byte> bytes(static_cast<std::size_t>(size));
  std::size_t got = ZSTD_decompress(bytes.data(), bytes.size(), packed.data(), packed.size());
  if (ZSTD_isError(got) != 0 || got != bytes.size())
    fail(ErrorKind::corrupt, "a cubin in the store cannot be decompressed: {}",
         ZSTD_isError(got) != 0 ? ZSTD_getErrorName(got) : "it is shorter than it says");
  return bytes;
}

namespace {

template <class Value, class Names>
Value parse(const Database& database, const Names& names, const std::string& word) {
  if (auto value = valueOf<Value>(names, word))
    return *value;
  fail(ErrorKind::corrupt, "the store '{}' is damaged: it holds the unknown word '{}'",
       database.name(), word.substr(0, 40));
}

Choice choiceOf(const Database& database, const Statement& row) {
  return {.schedule = row.text(0),
          .cubin = row.text(1),
          .source = parse<Source>(database, sourceNames, row.text(2)),
          .reason = row.text(3),
          .margin = row.real(4),
          .at = row.integer(5)};
}

std::vector<Measurement> measurementsOf(Database& database, std::string_view table,
                                        std::string_view key) {
  std::vector<Measurement> all;
  Statement row = database.query(
      fmt::format("SELECT schedule, cubin, median, low, high, samples, ratio, ratio_low, "
                  "ratio_high, uuid, driver, host, sm_clock, memory_clock, temperature, throttled, "
                  "foreign_processes, coalesce(place, -1), coalesce(microseconds, 0), at "
                  "FROM {0} JOIN candidate ON id = {0}.candidate "
                  "LEFT JOIN prediction ON prediction.candidate = id WHERE key = ? ORDER BY at",
                  table),
      {key});
  while (row.step())
    all.push_back({.schedule = row.text(0),
                   .cubin = row.text(1),
                   .median = row.real(2),
                   .low = row.real(3),
                   .high = row.real(4),
                   .samples = static_cast<int>(row.integer(5)),
                   .ratio = row.real(6),
                   .ratioLow = row.real(7),
                   .ratioHigh = row.real(8),
                   .conditions = {.uuid = row.text(9),
                                  .driver = row.text(10),
                                  .host = row.text(11),
                                  .smClockMHz = static_cast<int>(row.integer(12)),
                                  .memoryClockMHz = static_cast<int>(row.integer(13)),
                                  .temperatureC = static_cast<int>(row.integer(14)),
                                  .throttled = row.integer(15) != 0,
                                  .foreignProcesses = static_cast<int>(row.integer(16))},
                   .place = static_cast<int>(row.integer(17)),
                   .predicted = row.real(18),
                   .at = row.integer(19)});
  return all;
}

std::vector<Search> searchesOf(Database& database, std::string_view key) {
  std::vector<Search> all;
  Statement row = database.query(
      "SELECT feasible, tried, standard, runner_up, ratio, ratio_low, ratio_high, roofline, bytes, "
      "seconds, reason FROM search WHERE key = ? ORDER BY at",
      {key});
  while (row.step())
    all.push_back({.feasible = static_cast<std::size_t>(row.integer(0)),
                   .tried = static_cast<std::size_t>(row.integer(1)),
                   .standard = row.text(2),
                   .runnerUp = row.text(3),
                   .ratio = row.real(4),
                   .ratioLow = row.real(5),
                   .ratioHigh = row.real(6),
                   .roofline = row.real(7),
                   .bytes = row.real(8),
                   .seconds = row.real(9),
                   .reason = row.text(10)});
  return all;
}

} // namespace

std::optional<Choice> Store::choice(const Key& key) const {
  auto held = lock();
  Statement row = connection->query(
      "SELECT schedule, cubin, source, reason, margin, at FROM choice WHERE key = ?",
      {digest(key)});
  if (!row.step())
    return std::nullopt;
  return choiceOf(*connection, row);
}

std::optional<bool> Store::verdictOf(const Key& key, std::string_view cubin) const {
  auto held = lock();
  Statement row = connection->query("SELECT min(verdict.pass) FROM verdict JOIN candidate "
                                    "ON candidate.id = verdict.candidate WHERE candidate.key = ? "
                                    "AND verdict.cubin = ? HAVING count(*) > 0",
                                    {digest(key), cubin});
  return row.step() ? std::optional(row.integer(0) != 0) : std::nullopt;
}

History Store::history(const Key& key) const {
  History known;
  known.choice = choice(key);
  auto held = lock();
  std::string name = digest(key);
  Statement refusal = connection->query(
      "SELECT kernel, rule, schedules, worst FROM refusal WHERE key = ? ORDER BY schedules DESC",
      {name});
  while (refusal.step())
    known.refusals.push_back(
        {refusal.text(0), refusal.text(1), refusal.integer(2), refusal.text(3)});
  Statement rejection = connection->query(
      "SELECT schedule, gate, rule, asked, allowed FROM rejection JOIN candidate ON id = candidate "
      "WHERE key = ?",
      {name});
  while (rejection.step())
    known.rejections.push_back({rejection.text(0), rejection.text(1), rejection.text(2),
                                rejection.real(3), rejection.real(4)});
  Statement failure = connection->query(
      "SELECT schedule, cubin, driver, kind, log FROM failure JOIN candidate ON id = candidate "
      "WHERE key = ? ORDER BY at",
      {name});
  while (failure.step())
    known.failures.push_back({failure.text(0), failure.text(1), failure.text(2),
                              parse<FailureKind>(*connection, failureNames, failure.text(3)),
                              failure.text(4)});
  Statement verdict = connection->query(
      "SELECT schedule, cubin, pass, reference, error, deterministic, seed FROM verdict "
      "JOIN candidate ON id = candidate WHERE key = ? ORDER BY at",
      {name});
  while (verdict.step())
    known.verdicts.push_back({verdict.text(0), verdict.text(1), verdict.integer(2) != 0,
                              verdict.text(3), verdict.real(4), verdict.integer(5) != 0,
                              static_cast<std::uint64_t>(verdict.integer(6))});
  known.measurements = measurementsOf(*connection, "measurement", name);
  known.baselines = measurementsOf(*connection, "baseline", name);
  known.copies = measurementsOf(*connection, "copy", name);
  known.searches = searchesOf(*connection, name);
  return known;
}

double Store::gainOverVendor(const Key& key, std::string_view schedule) const {
  auto held = lock();
  const std::string name = digest(key);
  auto firstOf = [&](std::string_view table, std::string_view order, std::string_view where,
                     std::string_view value) {
    Statement row = connection->query(
        fmt::format("SELECT median FROM {0} JOIN candidate ON id = {0}.candidate "
                    "WHERE key = ? AND throttled = 0 AND {1} ? ORDER BY {2} LIMIT 1",
                    table, where, order),
        {name, value});
    return row.step() ? row.real(0) : 0;
  };
  const double ours = firstOf("measurement", "at DESC", "schedule =", schedule),
               theirs = firstOf("baseline", "median", "schedule <>", "");
  return ours > 0 ? theirs / ours : 0;
}

std::optional<Artifact> Store::artifact(const Key& key, std::string_view schedule,
                                        std::string_view sha) const {
  Artifact found;
  std::vector<std::byte> packed;
  std::int64_t size = 0;
  std::string planName;
  {
    auto held = lock();
    Statement row = connection->query(
        "SELECT artifact.cubin, bytes, plan, registers, shared, stack, spilled, plan_sha256 "
        "FROM artifact "
        "JOIN launch ON launch.cubin = sha256 WHERE sha256 = ? AND key = ? AND schedule = ?",
        {sha, digest(key), schedule});
    if (!row.step())
      return std::nullopt;
    packed = row.blob(0);
    size = row.integer(1);
    planName = row.text(7);
    found = {.sha256 = std::string(sha),
             .cubin = {},
             .plan = row.text(2),
             .general = {},
             .registers = static_cast<int>(row.integer(3)),
             .sharedBytes = row.integer(4),
             .stackBytes = row.integer(5),
             .spillBytes = row.integer(6)};
  }
  found.cubin = decompress(packed, size);
  auto check = [&](const char* what, std::string_view name, const std::string& has) {
    if (name != has)
      kiln::fail(ErrorKind::corrupt,
                 "the store '{}' is damaged: what it holds as {} {} has the SHA-256 {}",
                 connection->name(), what, name.substr(0, 12), has.substr(0, 12));
  };
  check("cubin", sha, sha256(found.cubin));
  check("launch plan", planName, sha256(found.plan));
  return found;
}

std::vector<KnownKey> Store::keys(bool all) const {
  auto held = lock();
  std::vector<KnownKey> found;
  Statement row = connection->query(
      "SELECT key.id, function, tensors, regime, arch, device.name, nvrtc, flags, emitter, space, "
      "label FROM key JOIN workload ON workload.id = key.workload "
      "JOIN device ON device.id = key.device JOIN toolchain ON toolchain.id = key.toolchain "
      "WHERE ? OR key.id IN (SELECT key FROM choice) ORDER BY label, key.id",
      {std::int64_t(all)});
  while (row.step())
    found.push_back({row.text(0),
                     {.function = row.text(1),
                      .tensors = row.text(2),
                      .regime = parse<Regime>(*connection, regimeNames, row.text(3)),
                      .arch = row.text(4),
                      .device = row.text(5),
                      .nvrtc = row.text(6),
                      .flags = row.text(7),
                      .emitter = row.text(8),
                      .space = row.text(9)},
                     row.text(10)});
  return found;
}

KnownKey Store::keyStartingWith(std::string_view digits) const {
  std::vector<KnownKey> found;
  for (KnownKey& known : keys(true))
    if (known.digest.starts_with(digits))
      found.push_back(std::move(known));
  if (found.size() == 1)
    return found.front();
  kiln::fail(ErrorKind::missing,
             "{} of the keys in '{}' start with '{}', one is needed; 'kernel-compile "
             "cache ls' lists them",
             found.size(), connection->name(), digits);
}

std::map<std::string, std::string> Store::generals() const {
  auto held = lock();
  Statement row = connection->query(
      "SELECT key.id, other.id FROM key JOIN task ON task.workload = key.workload "
      "JOIN workload ON workload.id = key.workload "
      "JOIN workload AS general ON general.text = task.general AND task.general <> '' "
      "  AND general.tensors = workload.tensors "
      "JOIN key AS other ON other.workload = general.id AND other.device = key.device "
      "  AND other.toolchain = key.toolchain AND other.regime = key.regime "
      "JOIN choice ON choice.key = key.id "
      "JOIN choice AS same ON same.key = other.id AND same.schedule = choice.schedule "
      "  AND same.cubin IS choice.cubin");
  std::map<std::string, std::string> found;
  while (row.step())
    found.emplace(row.text(0), row.text(1));
  return found;
}

static std::vector<std::int64_t> sizesOf(const std::string& text) {
  return text.empty() ? std::vector<std::int64_t>{} : parseShape(text);
}

std::optional<Task> Store::task(const Key& key) const {
  auto held = lock();
  Statement row = connection->query(
      "SELECT text, sizes, general, general_sizes FROM workload JOIN task ON workload = id "
      "WHERE function = ? AND tensors = ? AND text <> ''",
      {key.function, key.tensors});
  if (!row.step())
    return std::nullopt;
  return Task{.module = row.text(0),
              .arch = key.arch,
              .nvrtc = "",
              .sizes = sizesOf(row.text(1)),
              .general = row.text(2),
              .generalSizes = sizesOf(row.text(3))};
}

} // namespace kiln::autotune
