// A journal in memory, for tests: as strict as a store, and able to end in the middle of a search.
#pragma once

#include "autotune/Journal.h"
#include "kiln/kiln.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>

namespace kiln::autotune::test {

class MemoryJournal : public Journal {
 public:
  struct Died {};
  /// After so many more rows every write ends in Died; negative: never.
  int rowsLeft = -1;

  void reject(const Key& key, const Rejection& row) override {
    write([&] { of(key).rejections.push_back(row); });
  }
  void fail(const Key& key, const Failure& row) override {
    write([&] { of(key).failures.push_back(row); });
  }
  void keep(const Key&, const Artifact& row) override {
    write([&] { artifacts[row.sha256] = row; });
  }
  void judge(const Key& key, const Verdict& row) override {
    write([&] { of(key).verdicts.push_back(row); });
  }
  void measure(const Key& key, const Measurement& row) override {
    write([&] { of(key).measurements.push_back(row); });
  }
  void baseline(const Key& key, const Measurement& row) override {
    write([&] { of(key).baselines.push_back(row); });
  }
  void choose(const Key& key, const Choice& row) override {
    write([&] {
      History& history = of(key);
      bool judged = std::ranges::any_of(history.verdicts, [&](const Verdict& verdict) {
        return verdict.pass && verdict.schedule == row.schedule && verdict.cubin == row.cubin;
      });
      if (row.source == Source::measured && !judged)
        throw Error(ErrorKind::verification, "a measured choice without a verdict");
      history.choice = row;
    });
  }
  void searched(const Key& key, const Search& row) override {
    write([&] { of(key).searches.push_back(row); });
  }
  History history(const Key& key) const override {
    std::lock_guard lock(mutex);
    auto found = histories.find(key.function + key.tensors);
    return found == histories.end() ? History() : found->second;
  }
  std::optional<Artifact> artifact(const Key&, std::string_view sha256) const override {
    std::lock_guard lock(mutex);
    auto found = artifacts.find(std::string(sha256));
    return found == artifacts.end() ? std::nullopt : std::optional(found->second);
  }
  bool lease(const Key& key, std::string_view owner, int seconds) override {
    std::lock_guard lock(mutex);
    Lease& lease = leases[key.function + key.tensors];
    if (lease.owner != owner && Clock::now() < lease.until)
      return false;
    lease = {std::string(owner), Clock::now() + std::chrono::seconds(seconds)};
    return true;
  }
  bool renew(const Key& key, std::string_view owner, int seconds) override {
    std::lock_guard lock(mutex);
    Lease& lease = leases[key.function + key.tensors];
    if (lease.owner != owner)
      return false;
    lease.until = Clock::now() + std::chrono::seconds(seconds);
    return true;
  }
  void release(const Key& key, std::string_view owner) override {
    std::lock_guard lock(mutex);
    if (leases[key.function + key.tensors].owner == owner)
      leases.erase(key.function + key.tensors);
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Lease {
    std::string owner;
    Clock::time_point until;
  };
  History& of(const Key& key) { return histories[key.function + key.tensors]; }
  template <class Write> void write(Write row) {
    std::lock_guard lock(mutex);
    if (rowsLeft == 0)
      throw Died();
    rowsLeft -= rowsLeft > 0;
    row();
  }

  mutable std::mutex mutex;
  std::map<std::string, History> histories;
  std::map<std::string, Artifact, std::less<>> artifacts;
  std::map<std::string, Lease> leases;
};

} // namespace kiln::autotune::test
