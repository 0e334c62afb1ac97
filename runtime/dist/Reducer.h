// DataParallel's inside: slots, their hooks, buckets, and when each is sent.
#pragma once

#include "runtime/dist/Bucket.h"
#include "runtime/dist/Hooks.h"

#include <deque>

namespace kiln::dist {

struct DataParallel::Impl : std::enable_shared_from_this<DataParallel::Impl> {
  Impl(const std::vector<NamedParameter>& parameters, std::shared_ptr<Group> group,
       const DataParallelOptions& options);

  void listen();
  /// Of a parameter's hook, within a backward.
  void arrive(std::size_t slot);
  /// Sends what was not sent, and waits for all.
  void finish();

  std::shared_ptr<Group> group;
  DataParallelOptions options;
  std::deque<Slot> slots; // whose addresses stay
  std::vector<std::unique_ptr<Bucket>> buckets;
  std::optional<Hooks> hooks;
  bool quiet = false;     // in noSync()
  bool isReduced = false; // sharded: gradients that no step has taken yet

 private:
  static constexpr int kNone = -1;
  void begin();
  void makeBuckets();
  std::vector<std::size_t> agreedOrder();
  void startFull();
  void send(Bucket& bucket);

  std::vector<std::size_t> order; // of the first backward
  std::size_t started = 0;        // buckets of this backward
  int backward = kNone;           // the one that runs, by autograd's number
};

} // namespace kiln::dist
