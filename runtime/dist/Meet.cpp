// See Backends.h: the store by which ranks find each other.
#include "runtime/dist/Backends.h"
#include "runtime/dist/Fail.h"

#include <cstdlib>
#include <fmt/ranges.h>
#include <thread>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

namespace kiln::dist {

namespace {

std::string where(const Place& place, const GroupOptions& options) {
  return options.file.empty() ? fmt::format("{}:{}", place.host, place.port) : options.file;
}

/// torchrun may hold the store itself, then under a name for each of its restarts.
StorePtr byTcp(const Place& place, const GroupOptions& options) {
  const char* agent = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  const bool isHeld = place.launcher == "torchrun" && agent && std::string_view(agent) == "True";
  const char* listening = std::getenv("KILN_LISTEN_FD"); // of kiln::dist::launch()
  c10d::TCPStoreOptions chosen;
  chosen.port = place.port;
  chosen.isServer = place.rank == 0 && !isHeld;
  chosen.waitWorkers = false;
  chosen.timeout = options.limit;
  chosen.multiTenant = true;
  if (chosen.isServer && listening && *listening)
    chosen.masterListenFd = std::atoi(listening);
  const char* attempt = std::getenv("TORCHELASTIC_RESTART_COUNT");
  return c10::make_intrusive<c10d::PrefixStore>(
      fmt::format("kiln/{}", isHeld && attempt ? attempt : "0"),
      c10::make_intrusive<c10d::TCPStore>(place.host, chosen));
}

constexpr std::chrono::milliseconds kLongestPause{50};

std::vector<int> absent(c10d::Store& store, int size) {
  std::vector<int> all;
  for (int rank = 0; rank < size; ++rank)
    if (!store.check({fmt::format("rank/{}", rank)}))
      all.push_back(rank);
  return all;
}

void waitForAll(c10d::Store& store, const Place& place, const GroupOptions& options) {
  const auto end = std::chrono::steady_clock::now() + options.limit;
  for (std::chrono::milliseconds pause{1};; pause = std::min(2 * pause, kLongestPause)) {
    const std::vector<int> missing = absent(store, place.size);
    if (missing.empty())
      return;
    if (std::chrono::steady_clock::now() > end)
      fail(
          ErrorKind::unavailable,
          "rank {} of {}: rank {} has not come to {} within {} s; were all ranks started, with the "
          "same WORLD_SIZE, MASTER_ADDR and MASTER_PORT?",
          place.rank, place.size, fmt::join(missing, ", "), where(place, options),
          double(options.limit.count()) / 1e3);
    std::this_thread::sleep_for(pause);
  }
}

} // namespace

StorePtr meet(const Place& place, const GroupOptions& options) try {
  const StorePtr store =
      options.file.empty()
          ? byTcp(place, options)
          : StorePtr(c10::make_intrusive<c10d::FileStore>(options.file, place.size));
  store->setTimeout(options.limit);
  if (store->add(fmt::format("rank/{}", place.rank), 1) > 1)
    fail(
        ErrorKind::input,
        "two processes came to {} as rank {} of {}; each needs a RANK of its own, and each start a "
        "MASTER_PORT or file of its own",
        where(place, options), place.rank, place.size);
  waitForAll(*store, place, options);
  return store;
} catch (const c10::Error& error) {
  fail(ErrorKind::unavailable, "rank {} of {}: no way to the others by {} within {} s: {}",
       place.rank, place.size, where(place, options), double(options.limit.count()) / 1e3,
       error.what_without_backtrace());
}

} // namespace kiln::dist
