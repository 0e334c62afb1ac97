// What ranks tell each other when something has gone wrong: by the store, since tensors go no
// further then.
#pragma once

#include "runtime/dist/Backends.h"
#include "runtime/dist/Watch.h"

#include <atomic>

namespace kiln::dist {

class Alarm {
 public:
  Alarm(StorePtr store, const Place& place, std::chrono::milliseconds limit)
      : store(std::move(store)), place(place), limit(limit) {}

  /// Whether a rank has raised it. Also true if the store is gone.
  bool isRaised();
  /// The first time: tells the others, waits a moment for who answers, and makes the message.
  /// From any thread. Returns the message of the first time.
  std::string raise(const Operation& operation, const std::string& why);
  /// Tells the others that this rank ends, and waits for nobody.
  void leave();
  /// raise() as an Error(unavailable).
  [[noreturn]] void fail(const Operation& operation, const std::string& why);
  /// Throws the message if it was raised here.
  void check() const;

 private:
  std::string answers();

  StorePtr store;
  Place place;
  std::chrono::milliseconds limit;
  std::mutex mutex;
  std::atomic<bool> raised = false;
  std::string message;
};

} // namespace kiln::dist
