// A table that is read without a lock and grows: entries are found by `key`, made once, and live as
// long as the table. The index is replaced as a whole when one is added; readers never wait.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

namespace kiln::runtime {

/// Of a key's words, 64 bits each.
template <typename Words> std::uint64_t hashOf(const Words& words) {
  std::uint64_t h = 0;
  for (auto word : words) {
    h = (h ^ static_cast<std::uint64_t>(word)) * 0x9e3779b97f4a7c15U;
    h ^= h >> 32U;
  }
  return h;
}

template <typename Key, typename Entry> class Table {
 public:
  Entry* find(const Key& key) const {
    const auto* now = index.load(std::memory_order_acquire);
    if (!now)
      return nullptr;
    const std::size_t mask = now->size() - 1;
    for (std::size_t i = key.hash() & mask;; i = (i + 1) & mask)
      if (Entry* entry = (*now)[i]; !entry || entry->key == key)
        return entry;
  }

  /// `make`: gives a std::unique_ptr of what is not there yet. Holds the table's lock.
  template <typename Make> Entry& findOrMake(const Key& key, const Make& make) {
    if (Entry* entry = find(key)) [[likely]]
      return *entry;
    std::lock_guard held(mutex);
    if (Entry* entry = find(key))
      return *entry;
    Entry& entry = *known.emplace_back(make());
    publish();
    return entry;
  }

  std::vector<const Entry*> all() const {
    std::lock_guard held(mutex);
    std::vector<const Entry*> entries;
    for (const auto& entry : known)
      entries.push_back(entry.get());
    return entries;
  }

 private:
  /// At most half full.
  void publish() {
    auto& next = indices.emplace_back(std::bit_ceil(known.size() * 2 + 2));
    for (const auto& entry : known) {
      std::size_t i = entry->key.hash() & (next.size() - 1);
      while (next[i])
        i = (i + 1) & (next.size() - 1);
      next[i] = entry.get();
    }
    index.store(&next, std::memory_order_release);
  }

  mutable std::mutex mutex; // of writers
  std::deque<std::unique_ptr<Entry>> known;
  std::deque<std::vector<Entry*>> indices; // open addressing; readers may still be in older ones
  std::atomic<const std::vector<Entry*>*> index = nullptr;
};

} // namespace kiln::runtime
