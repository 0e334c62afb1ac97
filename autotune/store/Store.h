// The journal that lasts: one SQLite file that any number of processes read and write. Every call
// is one transaction. Cubins are compressed, named by their SHA-256 and checked against it when
// they are read. Any thread may call.
#pragma once

#include "autotune/Journal.h"
#include "autotune/measure/Device.h"
#include "autotune/store/Database.h"

#include <map>
#include <memory>
#include <mutex>

namespace kiln::autotune {

/// A key with the names that people know it by.
struct KnownKey {
  std::string digest;
  Key key;
  std::string label;
};

class Store final : public Journal {
 public:
  using Access = Database::Access;

  /// Throws Error: `io` for what cannot be opened, `input` for a file that is no store or a newer
  /// one, `corrupt` for a damaged one. A file of an older version is brought up to date, in a copy
  /// in memory if it may not be written.
  static std::unique_ptr<Store> open(const std::filesystem::path& path, Access access);
  static std::unique_ptr<Store> inMemory();
  /// What the file holds now, in memory: what is written to it later is not seen.
  static std::unique_ptr<Store> copyOf(const std::filesystem::path& path);
  /// For writing; a damaged store is set aside. What happened, and who else may write there, is
  /// appended to `warnings`.
  static std::unique_ptr<Store> openOrSetAside(const std::filesystem::path& path,
                                               std::vector<std::string>& warnings);
  /// The same, and an unwritable place is replaced by memory.
  static std::unique_ptr<Store> openOrReplace(const std::filesystem::path& path,
                                              std::vector<std::string>& warnings);

  void reject(const Key& key, const Rejection& rejection) override;
  void fail(const Key& key, const Failure& failure) override;
  void refuse(const Key& key, const Refusal& refusal) override;
  void keep(const Key& key, std::string_view schedule, const Artifact& artifact) override;
  void judge(const Key& key, const Verdict& verdict) override;
  void measure(const Key& key, const Measurement& measurement) override;
  void baseline(const Key& key, const Measurement& measurement) override;
  /// A weaker source never replaces a stronger one: pinned, then measured and vendor, then
  /// transferred, then model.
  void choose(const Key& key, const Choice& choice) override;
  void searched(const Key& key, const Search& search) override;
  /// What a plain copy of as many bytes takes.
  void copied(const Key& key, const Measurement& measurement);

  History history(const Key& key) const override;
  /// How many times as fast as the vendor's best a schedule was when it was last measured, as in
  /// reports; 0: not both were.
  double gainOverVendor(const Key& key, std::string_view schedule) const;
  std::optional<Artifact> artifact(const Key& key, std::string_view schedule,
                                   std::string_view sha256) const override;
  std::vector<std::string> near(const Key& key) const override;

  bool lease(const Key& key, std::string_view owner, int seconds) override;
  bool renew(const Key& key, std::string_view owner, int seconds) override;
  void release(const Key& key, std::string_view owner) override;

  /// Gives a key its name for people and the text of its function.
  void describe(const Key& key, std::string_view label, std::string_view text);
  /// How its function is run; `module` and `arch` are told by the key.
  void keepTask(const Key& key, const Task& task);
  std::optional<Choice> choice(const Key& key) const;
  /// Whether a cubin of a key passed every comparison with fp64; nothing if there was none.
  std::optional<bool> verdictOf(const Key& key, std::string_view cubin) const;
  /// All keys with a choice; `all`: also those without.
  std::vector<KnownKey> keys(bool all = false) const;
  /// The only key whose name begins so. Throws Error(missing).
  KnownKey keyStartingWith(std::string_view digits) const;
  /// Empty if it is not known.
  std::optional<Task> task(const Key& key) const;
  /// Keys of fixed sizes, and those of their general functions that have the same choice: the same
  /// kernel twice, which a reader of all keys may want to meet once. By digest.
  std::map<std::string, std::string> generals() const;
  /// Fixes a choice against the tuner, or frees it again. `schedule` empty: the present one.
  void pin(const Key& key, std::string_view schedule);
  void unpin(const Key& key);
  /// What is known under `from` of these schedules, whose cubins are the same under `to` and are
  /// kept there; and of vendors, copies and searches. The choice becomes that of `to`, with `note`
  /// behind its reason.
  void carry(const Key& from, const Key& to, std::span<const std::string> schedules,
             std::string_view note = "");
  void note(std::string_view what);

  /// Of this connection; hold `lock()` while other threads may use the store.
  Database& database() const { return *connection; }
  std::unique_lock<std::mutex> lock() const { return std::unique_lock(mutex); }
  bool lasts() const { return lasting; }

 private:
  Store(std::unique_ptr<Database> connection, bool lasting);
  template <class Work> void write(Work work);
  void remember(const Key& key);
  std::string candidate(const Key& key, std::string_view schedule);
  void writeMeasurement(std::string_view table, const Key& key, const Measurement& measurement);
  std::int64_t now();

  std::unique_ptr<Database> connection;
  bool lasting;
  std::int64_t last = 0; // time given to the last row
  mutable std::mutex mutex;
};

/// As a store keeps it: compressed. Throws Error(corrupt) for what does not come back.
std::vector<std::byte> compress(std::span<const std::byte> bytes);
std::vector<std::byte> decompress(std::span<const std::byte> bytes, std::int64_t size);

} // namespace kiln::autotune
