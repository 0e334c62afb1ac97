// What ranks tell each other when something has gone wrong: by the store, since tensors go no
// further then.
#pragma once

#include "runtime/dist/Backends.h"
#include "runtime/dist/Watch.h"

#include <atomic>
#include <functional>

namespace kiln::dist {

class Alarm {
 public:
  /// `abort`: ends what waits for peers on the device, which would keep this process from ending.
  Alarm(StorePtr store, const Place& place, std::chrono::milliseconds limit,
        std::function<void()> abort)
      : store(std::move(store)), place(place), limit(limit), abort(std::move(abort)) {}

  /// Whether a rank has raised it. Also true if the store is gone.
  bool isRaised();
  /// The first time: tells the others, waits a moment for who answers, makes the message, and
  /// aborts. From any thread. Returns the message of the first time.
  std::string raise(const Operation& operation, const std::string& why);
  /// Tells the others that this rank ends with an error of its own, and aborts nothing. Rank 0,
  /// whose process may hold the store, waits a moment until all know.
  void leave();
  /// raise() as an Error(unavailable).
  [[noreturn]] void fail(const Operation& operation, const std::string& why);
  /// Throws the message if it was raised here.
  void check() const;

 private:
  std::string answers();
  void waitForOthers();
  void say(const std::string& word);
  bool hasSaid(const std::string& word, int rank);

  StorePtr store;
  Place place;
  std::chrono::milliseconds limit;
  std::function<void()> abort;
  std::mutex mutex;
  std::atomic<bool> raised = false, left = false;
  std::string message;
};

} // namespace kiln::dist
